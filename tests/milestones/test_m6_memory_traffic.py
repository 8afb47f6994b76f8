"""Milestone 6: its truth against whole numbers, its checks against junk and leaks."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from grader.judge import judge
from grader.report import CheckReport, Outcome, total
from milestones.m6_memory_traffic import MILESTONE as WHOLE_MILESTONE
from milestones.runs import LABELS, TEXT
from milestones.spec import Answer, Answers, Files, Table
from solutions.exam import write_questions
from solutions.m6_memory_traffic.oracle import traffic
from tests.milestones.closing import without_closing

MILESTONE = without_closing(WHOLE_MILESTONE)
SLUG = MILESTONE.slug
SEED = (32).to_bytes(32, "big")


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("m6") / "split"
    write_questions(folder, SEED, 0, slugs=(SLUG,))
    return folder


@pytest.fixture(scope="module")
def runs(split: Path) -> pd.DataFrame:
    return Files(split / "questions").table("runs.csv")


@pytest.fixture(scope="module")
def near(split: Path) -> np.ndarray:
    """Predictions that are off by 3 % either way."""
    step = Files(split / "truth").table("runs.csv")["decode_step_ms"].to_numpy()
    return np.asarray(step * np.where(np.arange(len(step)) % 2 == 0, 1.03, 1 / 1.03))


def answers_of(split: Path, predicted: np.ndarray, features: Any = None) -> dict[str, Answer]:
    """Answer every call as a model would that predicts `predicted` for the runs."""
    questions = Files(split / "questions")
    counted = traffic(questions.table("runs.csv"))
    columns = np.column_stack([counted["weight_bytes"], counted["kv_bytes_read"]])
    named = questions.json(f"{SLUG}/rows.json")["named"]

    def value(function: str, args: Mapping[str, Any]) -> Any:
        if function == "traffic_features":
            return columns if features is None else features
        if function == "fit_step_time":
            return None
        table = args["runs"]
        assert isinstance(table, Table)
        if "renamed" in table.path:
            return predicted[named]
        return predicted if table.rows is None else predicted[list(table.rows)]

    return {c.id: Answer(c, value(c.function, c.args)) for c in MILESTONE.calls(questions)}


def judged(split: Path, answers: Answers, *, public: bool = False) -> dict[str, CheckReport]:
    reports = judge(MILESTONE, answers, Files(split / "truth"), (), public=public)
    return {report.name: report for report in reports}


def with_changed(answers: dict[str, Answer], topic: str, change: Any) -> Answers:
    return Answers(
        {
            call_id: Answer(a.call, change(a.value)) if a.call.topic == topic else a
            for call_id, a in answers.items()
        }
    )


def test_no_label_can_be_read_from_how_far_off_senseless_predictions_are(split: Path) -> None:
    labels = Files(split / "truth").table("runs.csv")["decode_step_ms"].to_numpy()
    told = set()
    for row in (0, 1):  # whose predictions alone make the mean
        predicted = np.full(len(labels), 1e-6)
        predicted[row] = 1e7
        report = judged(split, Answers(answers_of(split, predicted)))["usable_predictions"]
        assert report.figure is None
        told.add(report.hint)
    (hint,) = told
    assert "off by more than 100% on average" in hint


def test_a_hidden_splits_figure_has_four_decimals_and_a_bound(split: Path) -> None:
    labels = Files(split / "truth").table("runs.csv")["decode_step_ms"].to_numpy()
    report = judged(split, Answers(answers_of(split, labels * 1.0712345)))["step_error"]
    assert report.figure == 0.0712
    predicted = labels.copy()
    predicted[3] *= 1e-6  # R² would be little else than this one label
    report = judged(split, Answers(answers_of(split, predicted)))["throughput_r2"]
    assert report.figure == -10.0


def test_the_points_are_fifteen() -> None:
    assert WHOLE_MILESTONE.points == 15
    assert MILESTONE.runs == 2


def test_traffic_worked_by_hand() -> None:
    llama_8b = {"n_layers": 32, "n_kv_heads": 8, "head_dim": 128, "params_b": 8.0303}
    asked = {"weight_bits": [16, 4], "kv_bits": [16, 8], "batch_size": 16, "context_len": 4096}
    found = traffic(pd.DataFrame(llama_8b | asked))
    assert found["weight_bytes"].tolist() == [16_060_600_000, 4_015_150_000]
    assert found["kv_bytes_read"].tolist() == [8_589_934_592, 4_294_967_296]


def test_the_truth_agrees_with_whole_numbers(split: Path, runs: pd.DataFrame) -> None:
    truth = Files(split / "truth").arrays(f"{SLUG}/traffic.npz")
    for i, row in enumerate(runs.to_dict("records")):
        values = row["n_layers"] * row["n_kv_heads"] * row["head_dim"] * 2
        cache_bits = values * row["kv_bits"] * row["batch_size"] * row["context_len"]
        assert truth["kv_bytes_read"][i] * 8 == cache_bits
        weight_bits = round(row["params_b"] * 1e9) * row["weight_bits"]
        assert truth["weight_bytes"][i] * 8 == weight_bits


def test_the_labels_are_in_the_order_of_the_questions(split: Path, runs: pd.DataFrame) -> None:
    truth = Files(split / "truth").table("runs.csv")
    assert truth["run_id"].tolist() == runs["run_id"].tolist()


def test_renamed_rows_differ_in_every_name_and_in_nothing_else(
    split: Path, runs: pd.DataFrame
) -> None:
    questions = Files(split / "questions")
    renamed = questions.table(f"{SLUG}/renamed.csv")
    before = runs.iloc[questions.json(f"{SLUG}/rows.json")["named"]].reset_index(drop=True)
    assert not set(LABELS) & set(renamed.columns)
    for column in TEXT:
        assert (renamed[column] != before[column]).all()
        heard_of = renamed[column].isin(runs[column]).mean()
        assert 0.3 < heard_of < 0.7  # half of the names are another row's, half are new
    pd.testing.assert_frame_equal(renamed.drop(columns=list(TEXT)), before.drop(columns=list(TEXT)))


def test_a_good_model_earns_every_point(split: Path, near: np.ndarray) -> None:
    reports = judged(split, Answers(answers_of(split, near)))
    assert total(report.points for report in reports.values()) == MILESTONE.points


def test_a_single_column_of_predictions_is_read_as_one(split: Path, near: np.ndarray) -> None:
    answers = answers_of(split, near[:, None])
    assert total(r.points for r in judged(split, Answers(answers)).values()) == MILESTONE.points


@pytest.mark.parametrize("factor", [0.999, 2.0, 0.5, 0.125, 8.0])
@pytest.mark.parametrize(("column", "name"), [(0, "weight_bytes"), (1, "kv_bytes_read")])
def test_a_column_that_is_off_fails_its_own_check_alone(
    split: Path, near: np.ndarray, factor: float, column: int, name: str
) -> None:
    right = answers_of(split, near)["features"].value
    wrong = right * np.where(np.arange(2) == column, factor, 1.0)
    reports = judged(split, Answers(answers_of(split, near, wrong)))
    assert {n for n, r in reports.items() if r.outcome is not Outcome.PASSED} == {name}


JUNK: dict[str, Any] = {
    "nan": lambda p: np.full_like(p, np.nan),
    "infinite": lambda p: np.full_like(p, np.inf),
    "negative": lambda p: -p,
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "the average": lambda p: np.full_like(p, p.mean()),
    "huge": lambda p: np.full_like(p, 1e308),
    "seconds": lambda p: p / 1000,
    "one too few": lambda p: p[:-1],
    "empty": lambda p: p[:0],
    "a number": lambda p: np.array(p.mean()),
    "two columns": lambda p: np.column_stack([p, p]),
}


@pytest.mark.parametrize("name", JUNK)
def test_junk_predictions_break_nothing_and_earn_nothing(
    split: Path, near: np.ndarray, name: str
) -> None:
    answers = {
        call_id: Answer(a.call, JUNK[name](a.value) if a.value is not None else None)
        for call_id, a in answers_of(split, near).items()
    }
    reports = judged(split, Answers(answers))
    assert not [r.hint for r in reports.values() if r.outcome is Outcome.BROKEN]
    assert not [n for n, r in reports.items() if r.points]


@pytest.mark.parametrize("topic", ["apart", "names", "features"])
@pytest.mark.parametrize("name", JUNK)
def test_junk_in_one_place_breaks_nothing(
    split: Path, near: np.ndarray, topic: str, name: str
) -> None:
    changed = with_changed(answers_of(split, near), topic, JUNK[name])
    reports = judged(split, changed)
    assert not [r.hint for r in reports.values() if r.outcome is Outcome.BROKEN]


@pytest.mark.parametrize(("change", "outcome"), [(1e-7, Outcome.PASSED), (1e-4, Outcome.FAILED)])
def test_rounding_is_forgiven_and_a_leak_is_not(
    split: Path, near: np.ndarray, change: float, outcome: Outcome
) -> None:
    answers = answers_of(split, near)
    apart = with_changed(answers, "apart", lambda p: p * (1 + change))
    assert judged(split, apart)["row_by_row"].outcome is outcome
    first = answers["names/renamed"]
    renamed = answers | {"names/renamed": Answer(first.call, first.value * (1 + change))}
    assert judged(split, Answers(renamed))["names_mean_nothing"].outcome is outcome


def test_predictions_that_differ_on_a_second_run_are_not_reproducible(
    split: Path, near: np.ndarray
) -> None:
    answers = answers_of(split, near)
    reports = judged(split, Answers(answers, answers_of(split, near * 1.001)))
    assert reports["row_by_row"].outcome is Outcome.FAILED
    assert "Not reproducible" in reports["row_by_row"].hint
    assert reports["step_error"].points  # what can be judged of one run is
    assert judged(split, Answers(answers, answers))["row_by_row"].points


def test_predictions_that_are_remembered_between_calls_show_in_the_other_order(
    split: Path, near: np.ndarray
) -> None:
    first = answers_of(split, near)
    # the second run is asked about single rows first, and those came out another way
    second = {
        call_id: replace(answer, value=np.asarray(answer.value) * 1.01)
        if answer.call.topic == "apart"
        else answer
        for call_id, answer in first.items()
    }
    report = judged(split, Answers(first, second))["row_by_row"]
    assert report.outcome is Outcome.FAILED
    assert "remember nothing" in report.hint


def test_a_prediction_one_tenth_off_earns_nothing_for_its_error(split: Path) -> None:
    step = Files(split / "truth").table("runs.csv")["decode_step_ms"].to_numpy()
    reports = judged(split, Answers(answers_of(split, step * 1.1)))
    assert reports["step_error"].points == 0
    assert reports["step_error"].figure == pytest.approx(0.1)
    half = judged(split, Answers(answers_of(split, step * 1.07)))["step_error"]
    assert half.points == half.points_max / 2


@pytest.mark.parametrize("order", [np.sort, lambda p: p[::-1]], ids=["sorted", "reversed"])
def test_predictions_in_another_order_are_told_from_those_in_another_unit(
    split: Path, near: np.ndarray, order: Any
) -> None:
    moved, seconds = (
        judged(split, Answers(answers_of(split, value)))["usable_predictions"].hint
        for value in (order(near), near / 1000)
    )
    assert "stands at another run" in moved
    assert "a sort, a groupby, a merge" in moved
    assert "unit" not in moved
    assert "is their unit ms?" in seconds


@pytest.mark.parametrize(
    ("name", "topic", "told"),
    [
        ("row_by_row", "apart", ("question apart/", "runs is questions/runs.csv", "is row ")),
        ("names_mean_nothing", "names/renamed", ("renamed.csv", "under its own names")),
    ],
)
def test_a_prediction_that_changes_is_told_with_its_table_and_row(
    split: Path, near: np.ndarray, name: str, topic: str, told: tuple[str, ...]
) -> None:
    answers = answers_of(split, near)
    for call_id, answer in answers.items():
        if call_id.startswith(topic):
            answers[call_id] = Answer(answer.call, answer.value * 1.1)
    hint = judged(split, Answers(answers), public=True)[name].hint
    assert all(part in hint for part in told), hint
    assert "its row 0" in hint
