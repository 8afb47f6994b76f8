"""`python -m solutions split`: a fresh hidden split, proved fair before it is used."""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from grader.errors import BadInputError
from grader.split import SCHEMA, file_hashes
from milestones.spec import Files
from solutions.certify import Certificate, certify
from solutions.exam import SEED_BYTES, write_manifest, write_questions
from solutions.instructor_runs import OwnRuns, read_runs
from solutions.lesson import ROOT

MAX_DRAWS = 10  # at less than 5 % refusals, ten in a row mean that something is wrong
PUBLIC_SEED = (20_261_129).to_bytes(SEED_BYTES, "big")


def main(argv: list[str]) -> int:
    """Make a split; exit 0 when it is fair and in place, 1 when none was, 2 on bad input."""
    parser = argparse.ArgumentParser("python -m solutions split", description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", metavar="DIR", type=Path, help="a new folder for the split")
    where.add_argument("--public", action="store_true", help="make data/public_split again")
    parser.add_argument("--seed-file", metavar="FILE", type=Path, help="a file of 64 hex digits")
    parser.add_argument("--runs", metavar="FILE", type=Path, help="a CSV of your own labelled runs")
    args = parser.parse_args(argv)
    started = time.perf_counter()
    made = _make_public() if args.public else _make_hidden(args.out, args.seed_file, args.runs)
    if made is None:
        print(f"split: no fair draw in {MAX_DRAWS}; nothing was written", file=sys.stderr)
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
    own = None if runs_file is None else read_runs(runs_file)
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    made = make(out, "hidden", seed, own)
    if made is None:
        return None
    if seed_file is None:
        kept_seed.touch(mode=0o600)
        kept_seed.write_text(seed.hex() + "\n", encoding="utf-8")
        print(f"The seed is in {kept_seed}; keep it secret until you reveal it.")
    print(f"The split is in {out}; its certificate beside its MANIFEST.")
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


def make(out: Path, kind: str, seed: bytes, own: OwnRuns | None) -> Made | None:
    """Draw until a split is fair, then put it in place; None when no draw was.

    With given runs only the questions beside them are drawn again.
    """
    building = out.with_name(f".{out.name}.building")
    try:
        for attempt in range(MAX_DRAWS):
            drawn = write_questions(building, seed, attempt, own)
            certificate = certify(building, drawn, None if own is None else own.train)
            if certificate.faults:
                print(f"Draw {attempt + 1} is refused:", file=sys.stderr)
                for fault in certificate.faults:
                    print(f"  {fault}", file=sys.stderr)
                continue
            content = certificate.as_json() | {"draws_refused": attempt}
            text = json.dumps(content, indent=1) + "\n"
            (building / "certificate.json").write_text(text, encoding="utf-8", newline="\n")
            write_manifest(building, kind, seed, attempt)
            shutil.rmtree(out, ignore_errors=True)
            building.rename(out)
            return Made(certificate, attempt)
        return None
    finally:
        shutil.rmtree(building, ignore_errors=True)
