"""A study of splits: repeatable from its seed, whole after a kill, and sharp enough to fail."""

from __future__ import annotations

import csv
import json
import os
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import milestones
from grader.errors import BadInputError
from grader.report import Outcome
from grader.split import Split
from milestones.spec import Answer, Answers
from solutions import fairness
from solutions import study as study_module
from solutions.exam import named_mistakes
from solutions.fairness import MOST_REFUSED, goals_missed, summary, write_table
from solutions.proof import Answered, prove
from solutions.split import main
from solutions.study import (
    STUDY_SEED,
    Here,
    Judged,
    Line,
    append,
    code_digest,
    judge_again,
    resume,
    study,
    tally,
    trial_seed,
)

HEADER: Line = {"study": 1, "study_seed": "s", "generator_version": "1", "code": "c"}


def drawn(*faults: str, **again: Any) -> Line:
    reference = {key: {"figure": 0.05, "bar": 0.1, "room": 0.5} for key, _ in fairness.FIGURES}
    boosting = {key: {"mape": 0.08, "outcome": "FAILED"} for key, _ in fairness.BOOSTING}
    found: Line = {
        "draw": 0,
        "accepted": not faults,
        "faults": list(faults),
        "figures": {"linear_r2": 0.5, "throughput_ratio": 9000.0},
        "reference": reference,
        "mistakes": 146,
    }
    nothing: Line = {
        "reference_failed": [],
        "reference_tight": [],
        "blank_points": 0.0,
        "slipped": [],
        "unhinted": [],
        "boosting": boosting,
    }
    return found if faults else {**found, "again": nothing | again}


def line(trial: int, *draws: Line) -> Line:
    return {"trial": trial, "seed": "00", "draws": list(draws) or [drawn()], "cpu_s": 12.5}


# ---------------------------------------------------------------- killed and run again


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Trials that take no time, in this process; the list holds those that were run."""
    run: list[int] = []

    def trial(_: str, number: int) -> Line:
        run.append(number)
        return line(number)

    class Workers(Here):
        def __init__(self, _: int) -> None:
            super().__init__()

    monkeypatch.setattr(study_module, "workers", Workers)
    monkeypatch.setattr(study_module, "run_trial", trial)
    return run


def test_a_study_that_was_killed_runs_only_what_is_missing(
    quick: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "study.jsonl"
    whole = study(path, 6, "s")
    assert sorted(quick) == list(range(6))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:20])  # killed while it wrote the fourth trial
    done = {json.loads(text)["trial"] for text in lines[1:4]}
    quick.clear()
    assert study(path, 6, "s") == whole
    assert sorted(quick) == sorted(set(range(6)) - done)
    assert len(path.read_bytes().splitlines()) == 7
    quick.clear()
    assert study(path, 6, "s") == whole
    assert quick == []


def test_a_finished_study_grows_to_more_seeds_and_keeps_its_own(
    quick: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "study.jsonl"
    study(path, 3, "s")
    quick.clear()
    assert [found["trial"] for found in study(path, 5, "s")] == [0, 1, 2, 3, 4]
    assert sorted(quick) == [3, 4]


def test_a_trial_is_on_the_disk_before_the_next_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    path = tmp_path / "study.jsonl"
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.read_bytes()))
    append(path, {"trial": 1})
    assert synced == [b'{"trial": 1}\n']


@pytest.mark.parametrize("key", ["study_seed", "generator_version", "code"])
def test_trials_of_two_studies_are_never_mixed(key: str, tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    resume(path, HEADER)
    append(path, line(0))
    assert list(resume(path, HEADER)) == [0]
    with pytest.raises(BadInputError, match=f"another {key.replace('_', ' ')}"):
        resume(path, HEADER | {key: "other"})


@pytest.mark.parametrize("content", ["a,b\n1,2\n", '{"a": 1}\n', "[]\n", '"x"\n'])
def test_a_file_that_is_no_study_is_left_as_it_is(content: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(content)
    with pytest.raises(BadInputError, match="is no study"):
        resume(path, HEADER)
    assert path.read_text() == content


def test_the_seeds_of_a_study_follow_from_its_own_seed() -> None:
    seeds = {trial_seed(text, trial) for text in ("a", "b") for trial in range(100)}
    assert len(seeds) == 200
    assert all(len(seed) == 32 for seed in seeds)
    assert trial_seed("2026-11-30", 0).hex().startswith("5ffa9a82b984")


def test_a_changed_check_begins_another_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_module, "ROOT", tmp_path)
    monkeypatch.setattr(study_module, "CODE", ("milestones", "judge.py"))
    (tmp_path / "milestones").mkdir()
    (tmp_path / "milestones" / "checks.py").write_text("BAR = 1")
    (tmp_path / "judge.py").write_text("")
    before = code_digest()
    (tmp_path / "milestones" / "notes.txt").write_text("no code")
    assert code_digest() == before
    (tmp_path / "milestones" / "checks.py").write_text("BAR = 2")
    assert code_digest() != before


# ---------------------------------------------------------------- judged once more


@pytest.fixture(scope="module")
def answered(m2_hidden: Split) -> Answered:
    found = prove("m2_kv_bytes", m2_hidden.folder, keep=True).answered
    assert found is not None
    return found


@pytest.fixture
def of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A course of milestone 2 alone, where nothing is predicted."""
    monkeypatch.setattr(milestones, "SLUGS", ("m2_kv_bytes",))
    monkeypatch.setattr(milestones, "BONUS_SLUGS", ())
    monkeypatch.setattr(study_module, "raw_boosting", lambda _: {})


SLUG = "m2_kv_bytes"


@pytest.mark.usefixtures("of_one")
def test_a_fair_set_shows_nothing_when_it_is_judged_again(
    m2_hidden: Split, answered: Answered
) -> None:
    again = judge_again(m2_hidden, {SLUG: answered})
    assert again == {
        "reference_failed": [],
        "reference_tight": [],
        "blank_points": 0.0,
        "slipped": [],
        "unhinted": [],
        "boosting": {},
    }


@pytest.mark.usefixtures("of_one")
def test_a_mistake_that_answers_as_it_should_is_seen_to_slip_through(
    m2_hidden: Split, answered: Answered
) -> None:
    name = named_mistakes(SLUG)[0].name
    harmless = replace(answered, mistaken={**answered.mistaken, name: answered.solved})
    again = judge_again(m2_hidden, {SLUG: harmless})
    assert again["slipped"] == [f"{SLUG}.{name}"]


@pytest.mark.usefixtures("of_one")
def test_a_mistake_that_reads_anothers_hint_is_seen(m2_hidden: Split, answered: Answered) -> None:
    first, other = (named_mistakes(SLUG)[i].name for i in (0, -1))
    swapped = {**answered.mistaken, first: answered.mistaken[other]}
    again = judge_again(m2_hidden, {SLUG: replace(answered, mistaken=swapped)})
    assert f"{SLUG}.{first}" in again["unhinted"]


@pytest.mark.usefixtures("of_one")
def test_a_reference_that_fails_and_a_blank_that_earns_are_seen(
    m2_hidden: Split, answered: Answered
) -> None:
    turned = replace(answered, solved=answered.blank, blank=answered.solved)
    again = judge_again(m2_hidden, {SLUG: turned})
    assert len(again["reference_failed"]) == len(milestones.load(SLUG).checks)
    milestone = milestones.load(SLUG)
    assert again["blank_points"] == milestone.points + milestone.bonus


def test_boosting_is_judged_by_the_check_that_it_must_miss(
    monkeypatch: pytest.MonkeyPatch, course: Path
) -> None:
    public = Split(course / "data" / "public_split", "", False)
    monkeypatch.setattr(milestones, "SLUGS", (study_module.TRAFFIC,))
    monkeypatch.setattr(milestones, "BONUS_SLUGS", ())
    judged, steps = Judged(public), public.truth.table("runs.csv")["decode_step_ms"].to_numpy()
    calls = milestones.load(study_module.TRAFFIC).calls(public.questions)
    solved = Answers({c.id: Answer(c, np.zeros((2, 2))) for c in calls})
    for off, outcome in ((1.05, Outcome.PASSED), (1.07, Outcome.FAILED)):
        report = study_module._boosting(judged, solved, steps * off)
        assert report.outcome is outcome
        assert report.figure == pytest.approx(off - 1)


# ---------------------------------------------------------------- counted and shown


@pytest.mark.parametrize(
    ("again", "sentence"),
    [
        ({"reference_failed": ["m5.step_error"]}, "the reference fails a bar"),
        ({"reference_tight": ["m5.step_error"]}, "the reference fails a bar"),
        ({"slipped": ["m2.halved"]}, "a named mistake slips through"),
        (
            {"boosting": {"tuned, random": {"mape": 0.06, "outcome": "PASSED"}}},
            "tuned boosting on raw columns passes",
        ),
    ],
)
def test_each_goal_that_is_missed_is_told(again: Line, sentence: str) -> None:
    (missed,) = goals_missed(tally([line(0), line(1, drawn(**again))]))
    assert missed.startswith(sentence)
    assert "in 1 accepted sets" in missed


def test_refused_draws_are_counted_by_draw_and_five_in_a_hundred_are_too_many() -> None:
    lines = [line(i) for i in range(18)]
    found = tally([*lines, line(18, drawn("m5: a"), drawn())])
    assert (found.trials, found.draws, found.refused) == (19, 20, 1)
    assert goals_missed(found) == ["5.0% of draws refused, 5% or more"]
    assert goals_missed(tally([*lines, *lines, line(18, drawn("m5: a"), drawn())])) == []


def test_boosting_that_the_certificate_never_sees_is_counted_apart() -> None:
    odd = {"boosting": {"LightGBM, defaults": {"mape": 0.06, "outcome": "PASSED"}}}
    found = tally([line(0, drawn(**odd))])
    assert (found.boosting_passes, found.other_boosting_passes) == (0, 1)


def test_the_table_has_a_row_a_draw_and_says_why_one_was_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", [line(0), line(1, drawn("m5: too near"), drawn())])
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["trial"], row["accepted"]) for row in rows] == [
        ("0", "yes"),
        ("1", "no"),
        ("1", "yes"),
    ]
    assert rows[1]["why"] == "m5: too near"
    assert rows[1]["boosting tuned, random"] == ""
    assert float(rows[2]["boosting tuned, random"]) == 0.08


def test_the_summary_names_a_reason_once_whatever_its_figures() -> None:
    fault = (
        "m5_roofline: the reference is only 9.{}% inside the bar of step_error (0.081{} of 0.09)"
    )
    lines = [line(i, drawn(fault.format(i, i)), drawn()) for i in range(3)]
    (told,) = [text for text in summary(tally(lines), lines) if "Refused" in text]
    why = "m5_roofline: the reference is only ... inside the bar of step_error"
    assert told.strip() == f"Refused 3 times: {why}"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--trials", "2", "--seed-file", "s"], "--trials draws seeds and runs of its own"),
        (["--trials", "2", "--runs", "s"], "--trials draws seeds and runs of its own"),
        (["--out", "x", "--study", "s"], "belong to --trials"),
        (["--trials", "0"], "a whole number from 1 on"),
        (["--trials", "2", "--out", "x"], "not allowed with"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.usefixtures("quick")
def test_a_study_writes_its_table_and_picture_and_exits_by_its_goals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--trials", "3", "--study", str(tmp_path / "s"), "--report", str(tmp_path / "docs")]
    assert main(argv) == 0
    assert {p.name for p in (tmp_path / "docs").iterdir()} == {"fairness.csv", "fairness.png"}
    assert "| seeds | 3 |" in capsys.readouterr().out
    slips = {3: line(3, drawn(slipped=["m2.halved"]))}
    monkeypatch.setattr(study_module, "run_trial", lambda _, trial: slips[trial])
    assert main([*argv[:1], "4", *argv[2:4]]) == 1
    assert "a named mistake slips through in 1 accepted sets" in capsys.readouterr().err


def test_work_done_here_raises_here() -> None:
    here: Executor = Here()
    with pytest.raises(ZeroDivisionError):
        here.submit(lambda: 1 // 0)


# ---------------------------------------------------------------- the committed result


def test_the_committed_result_is_of_the_stated_seed_and_is_what_its_page_says(
    course: Path,
) -> None:
    with (course / "docs" / "fairness.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    page = (course / "docs" / "fairness.md").read_text(encoding="utf-8")
    trials = sorted({int(row["trial"]) for row in rows})
    refused = sum(row["accepted"] == "no" for row in rows)
    assert trials == list(range(len(trials)))
    for row in rows:
        assert row["seed"] == trial_seed(STUDY_SEED, int(row["trial"])).hex()
    assert f"| seeds | {len(trials)} |" in page
    assert f"| draws | {len(rows)} |" in page
    assert f"| refused | {refused} ({refused / len(rows):.1%}) |" in page
    assert refused < MOST_REFUSED * len(rows)
    for key in ("reference_fails", "mistakes_slipped", "boosting_passes", "unhinted"):
        assert not any(row[key] for row in rows), key
