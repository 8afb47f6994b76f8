"""One split, from a seed to a directory: questions, truth, mistakes' answers and the manifest."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import milestones
from grader import __version__
from grader.errors import BadInputError
from grader.judge import Mistake, mistake_as_json, probe, shows
from grader.split import SCHEMA, file_hashes
from milestones.runs import LABELS
from milestones.spec import Answers, Files, Milestone
from milestones.understanding import understanding_names
from solutions.commitment import Content, asked_and_answered, commit, of_seed
from solutions.draft import Source, write_draft
from solutions.instructor_runs import OwnRuns
from solutions.lesson import ROOT, Reference, answer_all
from solutions.mistake import NamedMistake
from solutions.understanding import draw_understanding, understanding_mistakes
from solutions.world.draw import draw_hidden, write_csv

MODEL_MILESTONES = ("m5_roofline", "m6_memory_traffic")
SEED_BYTES = 32


def number_from(least: int) -> Callable[[str], int]:
    """Return the type of a command's option that takes whole numbers from `least` on."""

    def number(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} on: {text!r}")
        return int(text)

    return number


@contextmanager
def building_beside(out: Path) -> Iterator[Path]:
    """Give a private place to build `out` in, on its own file system; it is gone afterwards.

    What is built moves out by a rename, so that `out` is there whole or not at all; two commands
    at once never share a place. Parents of `out` that were made for it go again if it is not.

    Raises:
        BadInputError: nothing can be written beside `out`.
    """
    new = [parent for parent in out.parents if not parent.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        private = Path(tempfile.mkdtemp(".building", f".{out.name}.", out.parent))
    except OSError as error:
        _remove_empty(new)
        raise BadInputError(f"{out.parent}: cannot be written to: {error.strerror}") from None
    try:
        yield private / out.name  # a folder within, so that it gets ordinary permissions
    finally:
        shutil.rmtree(private, ignore_errors=True)
        _remove_empty(new)


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def named_mistakes(slug: str) -> tuple[NamedMistake, ...]:
    """Return the named mistakes of a milestone."""
    mistakes: tuple[NamedMistake, ...] = import_module(f"solutions.{slug}.mistakes").MISTAKES
    return (*mistakes, *understanding_mistakes(slug))


@cache
def reference(slug: str) -> Reference:
    """Return the lesson's functions; they are run once in a process."""
    return Reference(slug)


@cache
def public_runs(name: str) -> pd.DataFrame:
    """Return the public runs of `train` or `validation`."""
    return Files(ROOT / "data").table(f"{name}.csv")


def generators(seed: bytes, attempt: int) -> dict[str, np.random.Generator]:
    """Return one independent random stream for the runs and one for each milestone."""
    entropy = int.from_bytes(seed, "big")
    names = ("runs", *milestones.all_slugs())  # labs last: a new one leaves the others as they were
    streams = np.random.SeedSequence(entropy, spawn_key=(attempt,)).spawn(len(names))
    return {name: np.random.default_rng(s) for name, s in zip(names, streams, strict=True)}


def write_questions(
    folder: Path,
    seed: bytes,
    attempt: int,
    own: OwnRuns | None = None,
    slugs: Sequence[str] = milestones.all_slugs(),
) -> pd.DataFrame:
    """Write `questions/` and `truth/` of the milestones; return the split's labelled runs.

    Without an instructor's `own` runs, fresh ones are drawn from the world; with them, the model
    milestones train on their training part.
    """
    rng = generators(seed, attempt)
    drawn = draw_hidden(rng["runs"]) if own is None else own.test
    questions, truth = folder / "questions", folder / "truth"
    shutil.rmtree(folder, ignore_errors=True)
    questions.mkdir(parents=True)
    truth.mkdir()
    write_csv(drawn.drop(columns=list(LABELS)), questions / "runs.csv")
    write_csv(drawn[["run_id", *LABELS]], truth / "runs.csv")
    train = public_runs("train")
    known = pd.concat([train, public_runs("validation"), drawn], ignore_index=True)
    for slug in slugs:
        source = Source(rng[slug], drawn, train, known)
        draft = import_module(f"solutions.{slug}.oracle").draw(source)
        if own is not None and own.train is not None and slug in MODEL_MILESTONES:
            overlay = questions / slug / "data"
            overlay.mkdir(parents=True)
            write_csv(own.train, overlay / "train.csv")
        # a stream of its own, so that closing questions change no other draw
        closing = draw_understanding(slug, rng[slug].spawn(1)[0])
        for made in (draft, closing):
            write_draft(made, folder, slug)
    return drawn


def reference_answers(slug: str, folder: Path) -> Answers:
    """Return the solved functions' answers to the split's calls."""
    calls = milestones.load(slug).calls(Files(folder / "questions"))
    return Answers(answer_all(reference(slug).namespace, calls, folder / "questions", slug))


def blank_answers(slug: str, folder: Path) -> Answers:
    """Return the blank notebook's answers to the split's calls."""
    calls = milestones.load(slug).calls(Files(folder / "questions"))
    return Answers(answer_all(reference(slug).blank(), calls, folder / "questions", slug))


def mistaken_answers(milestone: Milestone, folder: Path, right: Answers) -> dict[str, Answers]:
    """Return what each named mistake of a milestone answers, by the mistake's name.

    Where a mistake can change no other answer, the others are the `right` ones themselves.
    """
    calls = milestone.calls(Files(folder / "questions"))
    lesson = reference(milestone.slug)
    answered = {}
    for mistake in named_mistakes(milestone.slug):
        alone = lesson.changed_alone(mistake.edits, understanding_names(milestone.slug))
        asked = [call for call in calls if not alone or call.function in alone]
        with lesson.with_edits(mistake.edits) as namespace:
            answers = answer_all(namespace, asked, folder / "questions", milestone.slug)
            answered[mistake.name] = Answers({**right.by_id, **answers})
    return answered


def stored_mistakes(
    slug: str, mistaken: Mapping[str, Answers], right: Answers
) -> tuple[Mistake, ...]:
    """Return a milestone's mistakes with their answers on the topics of the checks they fail.

    Of those checks the ones are stored in which this split shows the mistake.
    """
    checks = {check.name: check for check in milestones.load(slug).checks}
    stored = []
    for mistake in named_mistakes(slug):
        topics = {topic for name in mistake.checks for topic in checks[name].topics}
        asked = {
            call_id: answer
            for call_id, answer in mistaken[mistake.name].by_id.items()
            if answer.call.topic in topics
        }
        answers = {
            call_id: probe(answer.value, right.by_id[call_id].value)
            for call_id, answer in asked.items()
            if answer.problem is None
        }
        problems = {
            call_id: answer.problem.summary
            for call_id, answer in asked.items()
            if answer.problem is not None
        }
        kept = Mistake(mistake.name, mistake.checks, mistake.hint, answers, problems)
        shown = tuple(name for name in kept.checks if shows(kept, checks[name], right))
        stored.append(replace(kept, checks=shown))
    return tuple(stored)


def write_mistakes(folder: Path, slug: str, mistakes: tuple[Mistake, ...]) -> None:
    """Store the mistakes beside the truth of their milestone."""
    content = [mistake_as_json(mistake) for mistake in mistakes]
    path = folder / "truth" / slug / "mistakes.json"
    path.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8", newline="\n")


def write_manifest(
    folder: Path, kind: str, seed: bytes, attempt: int, own: OwnRuns | None = None
) -> None:
    """Write MANIFEST.json: every file's hash, the versions, and the commitment to seed and files.

    The public split's seed is no secret: there is nothing to bind anyone to.
    """
    files = file_hashes(folder)
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": kind,
        "split_id": f"{kind}-{digest[:12]}",
        "generator_version": __version__,
        "seed_commitment": of_seed(seed),
        "draws_refused": attempt,
        "files": files,
    }
    if kind == "hidden":
        runs_sha256 = "" if own is None else own.file_sha256
        content = Content(__version__, attempt, runs_sha256, asked_and_answered(files))
        manifest["commitment"] = commit(seed, content)
    text = json.dumps(manifest, indent=1) + "\n"
    (folder / "MANIFEST.json").write_text(text, encoding="utf-8", newline="\n")
