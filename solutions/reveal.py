"""`python -m solutions reveal`: publish a commitment, open it later, verify what was opened.

Before the deadline the commitment alone is published. The MANIFEST stays secret: it holds a plain
hash of each file, and whoever guesses a small file could see there that the guess is right.
"""

from __future__ import annotations

import argparse
import hmac
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from grader import __version__
from grader.errors import BadInputError
from grader.split import file_hashes, open_split, read_manifest
from milestones.spec import Files
from solutions.commitment import SCHEMA, Content, asked_and_answered, of_content, of_seed
from solutions.exam import SEED_BYTES, write_questions
from solutions.instructor_runs import OwnRuns, read_own
from solutions.split import read_seed

SAME_RTOL = 1e-9  # another machine's exp and log may differ in a last digit; a forged step by more


class UnfaithfulError(Exception):
    """A split, a seed or a reveal that is not what was committed to; the message says which."""


def main(argv: list[str]) -> int:
    """Publish, open or verify; 0 when all agrees, 1 when something does not, 2 on bad input."""
    parser = argparse.ArgumentParser("python -m solutions reveal", description=__doc__)
    parser.add_argument("--split", metavar="DIR", type=Path, help="the hidden split")
    parser.add_argument("--publish", metavar="FILE", type=Path, help="write its commitment there")
    parser.add_argument("--seed-file", metavar="FILE", type=Path, help="its seed: open it")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the reveal, when it is opened")
    parser.add_argument("--verify", metavar="FILE", type=Path, help="a reveal to verify")
    parser.add_argument("--commitment", metavar="FILE", type=Path, help="what was published")
    parser.add_argument("--runs", metavar="FILE", type=Path, help="the runs it was made from")
    args = parser.parse_args(argv)
    try:
        if args.verify:
            if not args.commitment or args.publish or args.seed_file or args.out:
                parser.error("--verify goes with --commitment, and with --split and --runs")
            told = verify(args.verify, args.commitment, args.split, args.runs)
        elif args.split and args.publish and not (args.seed_file or args.out or args.commitment):
            told = publish(args.split, args.publish)
        elif args.split and args.seed_file and args.out and not (args.publish or args.commitment):
            told = open_up(args.split, read_seed(args.seed_file), args.out, args.runs)
        else:
            parser.error(
                "say --split DIR --publish FILE before the deadline, "
                "--split DIR --seed-file FILE --out FILE after it, "
                "or --verify FILE --commitment FILE"
            )
    except UnfaithfulError as error:
        print(f"reveal: {error}", file=sys.stderr)
        return 1
    print("\n".join(told))
    return 0


# ---------------------------------------------------------------- before the deadline, and after


def publish(folder: Path, path: Path) -> list[str]:
    """Write a split's commitment into a file that students may have."""
    commitment = _committed(read_manifest(folder), folder)
    write_new(path, commitment)
    return [
        f"Publish {path} before the deadline; keep the split, its MANIFEST and the seed secret."
    ]


def open_up(folder: Path, seed: bytes, path: Path, runs: Path | None = None) -> list[str]:
    """Prove that a split is what its seed draws and what was committed to; write the reveal.

    Raises:
        UnfaithfulError: it is not.
    """
    open_split(folder)
    manifest = read_manifest(folder)
    commitment = _committed(manifest, folder)
    _same_version(commitment["generator_version"], str(folder))
    draw, files = manifest["draws_refused"], manifest["files"]
    assert isinstance(draw, int)
    assert isinstance(files, dict)
    kept = asked_and_answered(files)
    content = Content(commitment["generator_version"], draw, _runs_sha256(folder), kept)
    _opens(commitment, seed, content, "this split")
    notes = _redrawn(seed, content, _own(runs, content), folder)
    write_new(path, Reveal(str(manifest["split_id"]), seed, content).as_json())
    return [*notes, f"{folder} is what its seed draws; {path} opens its commitment."]


def verify(path: Path, published: Path, folder: Path | None, runs: Path | None = None) -> list[str]:
    """Check a reveal against the commitment that was published, and against a split if given.

    Raises:
        UnfaithfulError: one of them differs.
    """
    reveal, commitment = read_reveal(path), _read_commitment(published)
    _same_version(reveal.content.generator_version, str(path))
    _opens(commitment, reveal.seed, reveal.content, str(published))
    told = [f"{path} opens what was published."]
    if folder is not None:
        open_split(folder)
        found = asked_and_answered(file_hashes(folder))
        for name in _differing(found, reveal.content.files):
            raise UnfaithfulError(f"{folder / name}: is not what was committed to")
        told.append(f"{folder} holds the questions and the answers that were committed to.")
    notes = _redrawn(reveal.seed, reveal.content, _own(runs, reveal.content), folder)
    return [*told, *notes, "Its seed draws every one of them."]


# ---------------------------------------------------------------- files


@dataclass(frozen=True)
class Reveal:
    """What is published after the deadline."""

    split_id: str
    seed: bytes
    content: Content

    def as_json(self) -> dict[str, Any]:
        """Return it in the form that `read_reveal` reads."""
        return {
            "schema": SCHEMA,
            "split_id": self.split_id,
            "generator_version": self.content.generator_version,
            "seed": self.seed.hex(),
            "draw": self.content.draw,
            "runs_sha256": self.content.runs_sha256,
            "files": dict(self.content.files),
        }


def read_reveal(path: Path) -> Reveal:
    """Read a reveal.

    Raises:
        BadInputError: the file is missing or is none.
    """
    found = _read(path, "a reveal")
    try:
        content = Content(
            str(found["generator_version"]),
            int(found["draw"]),
            str(found["runs_sha256"]),
            {str(name): str(digest) for name, digest in found["files"].items()},
        )
        reveal = Reveal(str(found["split_id"]), bytes.fromhex(found["seed"]), content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadInputError(f"{path}: is no reveal") from None
    if len(reveal.seed) != SEED_BYTES or content.draw < 0:
        raise BadInputError(f"{path}: is no reveal")
    return reveal


def write_new(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON into a new file.

    Raises:
        BadInputError: it is there already, or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(content, indent=1) + "\n")
    except FileExistsError:
        raise BadInputError(f"{path}: is there already; name a new file") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be written: {error.strerror}") from None


def _read(path: Path, what: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise BadInputError(f"{path}: is not {what}")
    return found


def _read_commitment(path: Path) -> dict[str, str]:
    found = _read(path, "a commitment")
    if not all(isinstance(found.get(k), str) for k in ("generator_version", "seed", "content")):
        raise BadInputError(f"{path}: is not a commitment")
    return found


def _committed(manifest: Mapping[str, object], folder: Path) -> dict[str, Any]:
    commitment = manifest.get("commitment")
    if not isinstance(commitment, dict):
        raise BadInputError(f"{folder}: carries no commitment: it is public, or of an old version")
    return commitment


def _runs_sha256(folder: Path) -> str:
    runs = Files(folder).json("certificate.json")["runs"]
    return "" if runs is None else str(runs["file_sha256"])


def _own(path: Path | None, content: Content) -> OwnRuns | None:
    """Return the instructor's own runs that a split was made from, if it was.

    Raises:
        UnfaithfulError: other runs are given.
        BadInputError: none are, or some for a split that was drawn from the world.
    """
    if path is None and not content.runs_sha256:
        return None
    if path is None:
        raise BadInputError("this split was made from an instructor's own runs; add --runs FILE")
    if not content.runs_sha256:
        raise BadInputError("this split was drawn from the world; leave out --runs")
    own = read_own(path)
    if own.file_sha256 != content.runs_sha256:
        raise UnfaithfulError(f"{path}: is not the file of runs that this split was made from")
    return own


# ---------------------------------------------------------------- what must agree


def _same_version(version: str, what: str) -> None:
    if version != __version__:
        raise UnfaithfulError(
            f"{what}: was made by version {version} and this is {__version__}, which draws "
            "otherwise; use that version"
        )


def _opens(commitment: Mapping[str, str], seed: bytes, content: Content, what: str) -> None:
    if not hmac.compare_digest(of_seed(seed), commitment["seed"]):
        raise UnfaithfulError(f"this is not the seed that {what} was committed to")
    if not hmac.compare_digest(of_content(seed, content), commitment["content"]):
        raise UnfaithfulError(f"the questions or answers are not those that {what} commits to")


def _redrawn(seed: bytes, content: Content, own: OwnRuns | None, folder: Path | None) -> list[str]:
    """Draw a split's questions and truth again and compare the hash of every file.

    Where the split is at hand, arrays that differ in a last digit only are told, not refused.

    Raises:
        UnfaithfulError: a file is not what the seed draws.
    """
    notes = []
    with tempfile.TemporaryDirectory() as temporary:
        again = Path(temporary) / "split"
        write_questions(again, seed, content.draw, own)
        for name in _differing(asked_and_answered(file_hashes(again)), content.files):
            if folder is None or not _same_numbers(folder / name, again / name):
                raise UnfaithfulError(f"{name}: is not what the seed draws")
            notes.append(f"{name} agrees to {SAME_RTOL:g}, not in every last digit.")
    return notes


def _differing(found: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    names = sorted(found.keys() | wanted.keys())
    return [name for name in names if found.get(name) != wanted.get(name)]


def _same_numbers(path: Path, other: Path) -> bool:
    if path.suffix != ".npz" or not (path.is_file() and other.is_file()):
        return False
    one, two = (Files(p.parent).arrays(p.name) for p in (path, other))
    return one.keys() == two.keys() and all(
        one[name].shape == two[name].shape
        and np.allclose(one[name], two[name], rtol=SAME_RTOL, atol=0.0, equal_nan=True)
        for name in one
    )
