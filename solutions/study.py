"""`python -m solutions split --trials N`: how fair are hidden sets, over many seeds?

Each trial draws from a seed of its own as `split` does, until a draw is accepted. What is accepted
is then written, read back and judged once more as a hand-in's answers are on a hidden split. One
JSON line a trial goes to the study's file, so that a study that was killed goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor

import milestones
from grader import __version__
from grader.errors import BadInputError
from grader.judge import judge, read_mistakes
from grader.report import CheckReport, Outcome
from grader.split import Split, open_split, sha256_of
from milestones.runs import RAW_COLUMNS
from milestones.spec import Answer, Answers
from solutions.certify import WORKERS, Certificate, certify, public_figures, workers
from solutions.exam import named_mistakes, public_runs, write_manifest, write_questions
from solutions.lesson import ROOT
from solutions.proof import MARGIN, Answered, reads_hint, room_inside
from solutions.remember import FilesInMemory

SCHEMA = 1
MAX_DRAWS = 10
SEED_PREFIX = b"kv-capacity study trial\n"
STUDY_SEED = "2026-11-30"
TRAFFIC = "m6_memory_traffic"
STEP_ERROR = "step_error"  # the check of milestone 6 that raw boosting must miss
CODE = (
    "milestones",
    "data",
    "solutions/world",
    *(f"solutions/{slug}" for slug in milestones.all_slugs()),
    *(f"solutions/{name}.py" for name in ("exam", "proof", "certify", "remember", "lesson")),
)
CODE_SUFFIXES = (".py", ".csv", ".json")

Line = dict[str, Any]


def study(path: Path, n_trials: int, study_seed: str) -> list[Line]:
    """Run what is missing of a study, and return the lines of its first `n_trials` trials.

    Raises:
        BadInputError: the file is another study's, or of other code.
    """
    header = {
        "study": SCHEMA,
        "study_seed": study_seed,
        "generator_version": __version__,
        "code": code_digest(),
    }
    done = resume(path, header)
    missing = [trial for trial in range(n_trials) if trial not in done]
    if missing:
        print(f"{path}: {n_trials - len(missing)} of {n_trials} trials are there.", flush=True)
        with workers(WORKERS) as pool:
            for line in _run(pool, missing, study_seed):
                append(path, line)
                done[line["trial"]] = line
                print(_said(line, len(done)), flush=True)
    return [done[trial] for trial in range(n_trials)]


def code_digest() -> str:
    """Return a hash of all that a trial depends on: a study goes on only with what began it."""
    found = hashlib.sha256()
    for name in CODE:
        place = ROOT / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in CODE_SUFFIXES:
                found.update(f"{path.relative_to(ROOT).as_posix()} {sha256_of(path)}\n".encode())
    return found.hexdigest()


def resume(path: Path, header: Line) -> dict[int, Line]:
    """Return the finished trials of a study's file, by number; begin the file if it is not there.

    A last line that was cut off when the study was killed is cut away; its trial runs again.

    Raises:
        BadInputError: the file is no study, or not this one.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(path, len(whole))
        lines = [json.loads(line) for line in whole.splitlines()]
        if not lines:
            append(path, header)
            return {}
        found = {key: lines[0][key] for key in header}
        done = {int(line["trial"]): line for line in lines[1:]}
    except OSError as error:
        raise BadInputError(f"{path}: cannot be used: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise BadInputError(f"{path}: is no study of fair splits; name another --study") from None
    for key, wanted in header.items():
        if found[key] != wanted:
            raise BadInputError(
                f"{path}: was begun with another {key.replace('_', ' ')} ({found[key]}); "
                "finish it with that, or name a new --study file"
            )
    return done


def append(path: Path, line: Line) -> None:
    """Add a line to a study's file, and return when it is on the disk."""
    with path.open("ab") as file:
        file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def trial_seed(study_seed: str, trial: int) -> bytes:
    """Return the seed of one trial: anyone who knows the study's seed can draw it again."""
    return hashlib.sha256(SEED_PREFIX + f"{study_seed}\n{trial}".encode()).digest()


def _run(pool: Executor, trials: Sequence[int], study_seed: str) -> Iterator[Line]:
    """Yield the lines of trials as they finish, a few asked for at a time."""
    waiting: set[Future[Line]] = set()
    ahead = iter(trials)
    while True:
        while len(waiting) < 2 * WORKERS and (trial := next(ahead, None)) is not None:
            waiting.add(pool.submit(run_trial, study_seed, trial))
        if not waiting:
            return
        finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for trial_done in finished:
            yield trial_done.result()


# ---------------------------------------------------------------- one trial


class Here(Executor):
    """Does work at once where it is given: a trial is one of many, each in one process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do the work and return it as done."""
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def run_trial(study_seed: str, trial: int) -> Line:
    """Draw as `split` does until a draw is accepted, and say what came of each."""
    started = time.process_time()
    seed = trial_seed(study_seed, trial)
    draws: list[Line] = []
    while len(draws) < MAX_DRAWS and not (draws and draws[-1]["accepted"]):
        with tempfile.TemporaryDirectory() as temporary:
            draws.append(_draw(Path(temporary) / "split", seed, len(draws)))
    cpu_s = round(time.process_time() - started, 2)
    return {"trial": trial, "seed": seed.hex(), "draws": draws, "cpu_s": cpu_s}


def _draw(folder: Path, seed: bytes, attempt: int) -> Line:
    certificate = certify(folder, write_questions(folder, seed, attempt), here=Here())
    accepted = not certificate.faults
    line: Line = {
        "draw": attempt,
        "accepted": accepted,
        "faults": list(certificate.faults),
        "figures": {k: _short(v) for k, v in certificate.figures.items()},
        "reference": _reference_figures(certificate),
        "mistakes": sum(len(proof.caught) for proof in certificate.proofs),
    }
    if accepted:
        write_manifest(folder, "hidden", seed, attempt)
        answered = {p.slug: p.answered for p in certificate.proofs if p.answered is not None}
        line["again"] = judge_again(open_split(folder), answered)
    return line


def _reference_figures(certificate: Certificate) -> Line:
    return {
        f"{proof.slug.partition('_')[0]}.{check.name}": {
            "figure": _short(check.figure),
            "bar": check.bar,
            "room": _short(room_inside(check.figure, check.bar)),
        }
        for proof in certificate.proofs
        for check in proof.reference
        if check.figure is not None and check.bar
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


# ---------------------------------------------------------------- judged once more


def judge_again(split: Split, answered: Mapping[str, Answered]) -> Line:
    """Judge answers on a split as it lies on the disk, exactly as the grader judges a hand-in's.

    The outcomes of `grader.judge.judge` are what counts here; none of the acceptance's own rules
    is asked. Boosting is judged by the check that it must miss: in the settings that the
    certificate knows, and in others that it never sees.
    """
    failed, tight, slipped, unhinted, blank = [], [], [], [], 0.0
    judged = Judged(split)
    for slug in milestones.all_slugs():
        found = answered[slug]
        reports = judged.reports(slug, found.solved)
        failed += [f"{slug}.{r.name}" for r in reports if r.outcome is not Outcome.PASSED]
        tight += [
            f"{slug}.{r.name}"
            for r in reports
            if r.figure is not None and r.bar and room_inside(r.figure, r.bar) < MARGIN
        ]
        blank += sum(r.points or 0.0 for r in judged.reports(slug, found.blank))
        for mistake in named_mistakes(slug):
            reports = judged.reports(slug, found.mistaken[mistake.name])
            catcher = next(r for r in reports if r.name == mistake.caught_by)
            if catcher.outcome is not Outcome.FAILED:
                slipped.append(f"{slug}.{mistake.name}")
            if not reads_hint(mistake, reports):
                unhinted.append(f"{slug}.{mistake.name}")
    boosting = {
        name: _boosting(judged, answered[TRAFFIC].solved, predicted)
        for name, predicted in raw_boosting(split.questions.table("runs.csv")).items()
    }
    return {
        "reference_failed": failed,
        "reference_tight": tight,
        "blank_points": blank,
        "slipped": slipped,
        "unhinted": unhinted,
        "boosting": {
            name: {"mape": _short(r.figure or 0.0), "outcome": str(r.outcome)}
            for name, r in boosting.items()
        },
    }


class Judged:
    """Judges answers on one split: its truth and its mistakes are read from the disk once."""

    def __init__(self, split: Split) -> None:
        """`split` has been checked against its manifest."""
        self._public = split.public
        self._truth = FilesInMemory(split.truth.root)
        self._mistakes = {slug: read_mistakes(self._truth, slug) for slug in milestones.all_slugs()}

    def reports(self, slug: str, answers: Answers) -> tuple[CheckReport, ...]:
        """Return what becomes of a milestone's answers."""
        milestone, stored = milestones.load(slug), self._mistakes[slug]
        return judge(milestone, answers, self._truth, stored, public=self._public)


def _boosting(judged: Judged, solved: Answers, predicted: np.ndarray) -> CheckReport:
    """Judge predictions put in place of the solved notebook's."""
    asked = solved.by_id["predictions"].call
    answers = Answers({**solved.by_id, "predictions": Answer(asked, predicted)})
    return next(r for r in judged.reports(TRAFFIC, answers) if r.name == STEP_ERROR)


def raw_boosting(questions: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the steps in ms that boosting on the raw columns predicts, by its kind."""
    columns = questions[list(RAW_COLUMNS)].to_numpy(dtype=np.float64)
    found = {
        f"tuned, {scheme}": model.predict_ms(questions)
        for scheme, model in public_figures().boosting.items()
    }
    return found | {name: np.exp(model.predict(columns)) for name, model in _others().items()}


@cache
def _others() -> dict[str, Any]:
    """Return boosting in settings that no certificate looks at, fitted once a process."""
    train = public_runs("train")
    columns = train[list(RAW_COLUMNS)].to_numpy(dtype=np.float64)
    log_step = np.log(train["decode_step_ms"].to_numpy(dtype=np.float64))
    fixed: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "verbose": -1}
    exact: dict[str, Any] = {"deterministic": True, "force_row_wise": True}
    models = {
        "LightGBM, defaults": LGBMRegressor(**fixed, **exact),
        "LightGBM, 500 trees of lines": LGBMRegressor(
            n_estimators=500, num_leaves=8, linear_tree=True, **fixed, **exact
        ),
        "scikit-learn, 500 trees": HistGradientBoostingRegressor(max_iter=500, random_state=0),
    }
    return {name: model.fit(columns, log_step) for name, model in models.items()}


# ---------------------------------------------------------------- all trials


@dataclass(frozen=True)
class Tally:
    """What a study found: counts over accepted sets, and how many draws were refused."""

    trials: int
    draws: int
    refused: int
    reference_fails: int
    mistakes_slip: int
    boosting_passes: int
    unhinted: int
    other_boosting_passes: int
    cpu_s: float

    @property
    def refusal_rate(self) -> float:
        """The share of draws that were refused."""
        return self.refused / self.draws


def tally(lines: Sequence[Line]) -> Tally:
    """Count what came of a study's trials."""
    draws = [draw for line in lines for draw in line["draws"]]
    again = [draw["again"] for draw in draws if draw["accepted"]]

    def passes(found: Line, *, tuned: bool) -> bool:
        return any(
            kind["outcome"] == Outcome.PASSED
            for name, kind in found["boosting"].items()
            if name.startswith("tuned") is tuned
        )

    return Tally(
        trials=len(lines),
        draws=len(draws),
        refused=sum(not draw["accepted"] for draw in draws),
        reference_fails=sum(bool(a["reference_failed"] or a["reference_tight"]) for a in again),
        mistakes_slip=sum(bool(a["slipped"]) for a in again),
        boosting_passes=sum(passes(a, tuned=True) for a in again),
        unhinted=sum(bool(a["unhinted"]) for a in again),
        other_boosting_passes=sum(passes(a, tuned=False) for a in again),
        cpu_s=sum(line["cpu_s"] for line in lines),
    )


def _said(line: Line, n_done: int) -> str:
    refused = [fault for draw in line["draws"] for fault in draw["faults"]]
    why = f"; refused: {'; '.join(refused)}" if refused else ""
    return f"{n_done:4} done, trial {line['trial']}: {line['cpu_s']:.0f} CPU s{why}"
