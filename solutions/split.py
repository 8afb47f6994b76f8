"""`python -m solutions split`: a fresh hidden split, proved fair before it is used."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from grader.errors import BadInputError
from grader.split import SCHEMA, file_hashes
from milestones.spec import Files
from solutions import fairness
from solutions.certify import Certificate, certify
from solutions.exam import (
    SEED_BYTES,
    building_beside,
    number_from,
    write_manifest,
    write_questions,
)
from solutions.instructor_runs import OwnRuns, read_own
from solutions.lesson import ROOT

MAX_DRAWS = 10  # at less than 5 % refusals, ten in a row mean that something is wrong
PUBLIC_SEED = (20_261_129).to_bytes(SEED_BYTES, "big")


def main(argv: list[str]) -> int:
    """Make a split, or study many: 0 when fair, 1 when not, 2 on bad input."""
    parser = argparse.ArgumentParser("python -m solutions split", description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", metavar="DIR", type=Path, help="a new folder for the split")
    where.add_argument("--public", action="store_true", help="make data/public_split again")
    where.add_argument(
        "--trials", metavar="N", type=number_from(1), help="no split: a study of N seeds"
    )
    parser.add_argument("--seed-file", metavar="FILE", type=Path, help="a file of 64 hex digits")
    parser.add_argument("--runs", metavar="FILE", type=Path, help="a CSV of your own labelled runs")
    study = parser.add_argument_group("a study (--trials)")
    study.add_argument(
        "--study", metavar="FILE", type=Path, help="where it is kept, and goes on when run again"
    )
    study.add_argument("--study-seed", metavar="TEXT", help="what its seeds are derived from")
    study.add_argument(
        "--report", metavar="DIR", type=Path, help="write fairness.csv and fairness.png there"
    )
    args = parser.parse_args(argv)
    if args.trials is None and (args.study or args.study_seed or args.report):
        parser.error("--study, --study-seed and --report belong to --trials")
    if args.trials is not None:
        if args.seed_file or args.runs:
            parser.error("--trials draws seeds and runs of its own")
        return fairness.run(args.trials, args.study, args.study_seed, args.report)
    if args.public and (args.seed_file or args.runs):
        parser.error("--public has a seed and runs of its own: leave out --seed-file and --runs")
    started = time.perf_counter()
    if args.public:
        made = _make_public()
    else:
        made = _make_hidden(args.out.resolve(), args.seed_file, args.runs)
    if made is None:
        print("split: no fair draw; nothing was written", file=sys.stderr)
        return 1
    print(f"Done in {time.perf_counter() - started:.1f} s, {made.refused} draws refused.")
    return 0


@dataclass(frozen=True)
class Made:
    """A split that is in place: its certificate and how many draws were refused before it."""

    certificate: Certificate
    refused: int


def _make_hidden(out: Path, seed_file: Path | None, runs_file: Path | None) -> Made | None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInputError(f"{out}: is there already; name a new folder, nothing was changed")
    kept_seed = out.with_name(f"{out.name}.seed")
    if seed_file is None and kept_seed.exists():
        raise BadInputError(f"{kept_seed}: is there already; move it, or pass it as --seed-file")
    seed = secrets.token_bytes(SEED_BYTES) if seed_file is None else read_seed(seed_file)
    own = None if runs_file is None else read_own(runs_file)
    if own is not None and own.dropped:
        print(f"{own.dropped} runs stand in the public data; they are not asked about.")
    made = make(out, "hidden", seed, own, kept_seed if seed_file is None else None)
    if made is None:
        return None
    if seed_file is None:
        print(f"The seed is in {kept_seed}; keep it secret until you reveal it.")
    print(f"The split is in {out}; its certificate beside its MANIFEST.")
    print(f"Publish its commitment: python -m solutions reveal --split {out} --publish FILE")
    return made


def _make_public() -> Made | None:
    data = ROOT / "data"
    validation = OwnRuns(Files(data).table("validation.csv"))
    made = make(data / "public_split", "public", PUBLIC_SEED, validation)
    manifest = {
        "schema": SCHEMA,
        "kind": "data",
        "files": file_hashes(data, skip=("public_split",)),
    }
    text = json.dumps(manifest, indent=1) + "\n"
    (data / "MANIFEST.json").write_text(text, encoding="utf-8", newline="\n")
    return made


def read_seed(path: Path) -> bytes:
    """Read a seed: 64 hexadecimal digits.

    Raises:
        BadInputError: the file is missing or holds something else.
    """
    try:
        seed = bytes.fromhex(path.read_text(encoding="utf-8").strip())
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        seed = b""
    if len(seed) != SEED_BYTES:
        raise BadInputError(
            f"{path}: expected {2 * SEED_BYTES} hexadecimal digits; "
            "make one with: python -c 'import secrets; print(secrets.token_hex(32))'"
        )
    return seed


def make(
    out: Path, kind: str, seed: bytes, own: OwnRuns | None, kept_seed: Path | None = None
) -> Made | None:
    """Draw until a split is fair, then put it in place; None when no draw was.

    With given runs only the questions beside them are drawn again, and only while that changes
    anything. The seed, where it is kept, is written first: no split is ever without its seed.
    """
    with building_beside(out) as building:
        before: tuple[str, ...] = ()
        for attempt in range(MAX_DRAWS):
            drawn = write_questions(building, seed, attempt, own)
            certificate = certify(building, drawn, own)
            if not certificate.faults:
                content = certificate.as_json() | {"draws_refused": attempt}
                text = json.dumps(content, indent=1) + "\n"
                (building / "certificate.json").write_text(text, encoding="utf-8", newline="\n")
                write_manifest(building, kind, seed, attempt, own)
                put_in_place(building, out, seed, kept_seed)
                return Made(certificate, attempt)
            print(f"Draw {attempt + 1} is refused:", file=sys.stderr)
            for fault in certificate.faults:
                print(f"  {fault}", file=sys.stderr)
            lasting = sorted(set(certificate.faults) & set(before))
            if own is not None and lasting:
                print(f"It lies in the runs: drawn again, still {lasting[0]}", file=sys.stderr)
                return None
            before = certificate.faults
        return None


def put_in_place(building: Path, out: Path, seed: bytes, kept_seed: Path | None) -> None:
    """Write the seed, then move the split to `out`, in place of what is there; or do neither."""
    old = building.with_name("replaced")
    if kept_seed is not None:
        write_seed(kept_seed, seed)
    try:
        if out.exists():
            out.rename(old)
        building.rename(out)
    except BaseException:
        if old.exists() and not out.exists():
            old.rename(out)
        if kept_seed is not None:
            kept_seed.unlink(missing_ok=True)
        raise


def write_seed(path: Path, seed: bytes) -> None:
    """Write a seed into a new file that only its owner can read.

    Raises:
        BadInputError: the file is there already.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInputError(f"{path}: is there already; move it, nothing was changed") from None
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(seed.hex() + "\n")
