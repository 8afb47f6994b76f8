"""`python -m solutions trial`: one milestone's checks on a throwaway split, while writing them."""

from __future__ import annotations

import argparse
import secrets
import tempfile
from pathlib import Path

import milestones
from solutions.exam import SEED_BYTES, number_from, write_questions
from solutions.proof import Proof, prove


def main(argv: list[str]) -> int:
    """Draw a throwaway split and print what each mistake fails and what is unfair."""
    parser = argparse.ArgumentParser("python -m solutions trial", description=__doc__)
    parser.add_argument("milestone", nargs="+", help="5, m5 or the slug")
    parser.add_argument("--seed", type=number_from(0), help="a small number, to draw again")
    args = parser.parse_args(argv)
    seed = (
        secrets.token_bytes(SEED_BYTES)
        if args.seed is None
        else args.seed.to_bytes(SEED_BYTES, "big")
    )
    slugs = tuple(milestones.slug_of(name) for name in args.milestone)
    with tempfile.TemporaryDirectory() as folder:
        write_questions(Path(folder), seed, 0, slugs=slugs)
        proofs = [prove(slug, Path(folder)) for slug in slugs]
    for proof in proofs:
        _print(proof)
    return 1 if any(proof.faults for proof in proofs) else 0


def _print(proof: Proof) -> None:
    print(f"\n{proof.slug}  ({proof.seconds:.1f} s)")
    for check in proof.reference:
        figure = "" if check.figure is None else f"{check.figure:.4f} (bar {check.bar:g})"
        print(f"  {check.outcome:8} {check.name:28} {figure}")
    for name, failed in proof.caught.items():
        print(f"  {name:36} fails {', '.join(failed) or 'nothing'}")
    for fault in proof.faults:
        print(f"  UNFAIR: {fault}")
