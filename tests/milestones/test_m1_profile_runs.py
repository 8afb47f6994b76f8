"""What milestone 1 promises: a profile worked by hand, one R² for every solver, robust checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from milestones.figures import r2
from milestones.m1_profile_runs import MILESTONE as WHOLE_MILESTONE
from milestones.m1_profile_runs.checks import R2_WITHIN
from milestones.runs import RAW_COLUMNS
from milestones.spec import Answer, Answers, Call, Files, Table, Verdict
from solutions.exam import write_questions
from solutions.lesson import ROOT
from solutions.m1_profile_runs.oracle import MAX_CONDITION, condition, profile_of
from tests.milestones.closing import without_closing

SEED = (11).to_bytes(32, "big")
RAW = list(RAW_COLUMNS)
MILESTONE = without_closing(WHOLE_MILESTONE)
CHECKS = MILESTONE.checks
OF_PROFILE = tuple(check.name for check in CHECKS if check.topics == ("profile",))
OF_BASELINE = tuple(check.name for check in CHECKS if check.topics != ("profile",))
JUNK: tuple[Any, ...] = (
    None,
    True,
    "many",
    "",
    [],
    [1, [2]],
    {},
    {"MHA": None},
    {"MHA": {}, "GQA": [], "MQA": "0"},
    {"n_runs": {"n_runs": 1}},
    -1,
    0.123,
    1e308,
    -1e308,
    2**1000,
)


@dataclass(frozen=True)
class Exam:
    """One drawn split of the milestone: where it lies, its calls, right answers and truth."""

    folder: Path
    calls: tuple[Call, ...]
    right: Mapping[str, Any]
    truth: Files

    def table(self, argument: Table) -> pd.DataFrame:
        """Read the table that a call is about, as the student's process does."""
        root = ROOT if argument.path.startswith("data/") else self.folder
        return Files(root).table(argument.path)

    def judged(self, answer: Callable[[Call], Any]) -> dict[str, Verdict]:
        """Judge every check on the answers that `answer` gives."""
        given = Answers({call.id: Answer(call, answer(call)) for call in self.calls})
        return {check.name: check.judge(given, self.truth) for check in CHECKS}

    def failed(self, answer: Callable[[Call], Any]) -> tuple[str, ...]:
        """Name the checks that fail on the answers that `answer` gives."""
        return tuple(name for name, v in self.judged(answer).items() if not v.passed)

    def changed(self, **parts: Any) -> Callable[[Call], Any]:
        """Answer right, but with some parts of every profile replaced."""
        return lambda call: (
            self.right[call.id] | parts if call.topic == "profile" else self.right[call.id]
        )


@pytest.fixture(scope="module")
def exam(tmp_path_factory: pytest.TempPathFactory) -> Exam:
    folder = tmp_path_factory.mktemp("m1") / "split"
    write_questions(folder, SEED, 0, slugs=(MILESTONE.slug,))
    truth = Files(folder / "truth")
    calls = tuple(MILESTONE.calls(Files(folder / "questions")))
    return Exam(folder, calls, truth.json("m1_profile_runs/answers.json"), truth)


@pytest.fixture(scope="module")
def drawn(exam: Exam) -> list[pd.DataFrame]:
    """The tables that profiles are asked of, but for the public one at the end."""
    return [exam.table(c.args["runs"]) for c in exam.calls if c.topic == "profile"][:-1]


def test_a_profile_worked_by_hand() -> None:
    shapes = {"a": (32, 32), "b": (32, 8), "c": (8, 1), "toy": (1, 1)}
    rows = [
        ("a", "H200", 300, 40.0),
        ("b", "H200", 500, 2_000.0),
        ("c", "L40S", 400, 10.0),
        ("toy", "H200", 900, 80_000.0),
    ]
    columns = ("model", "gpu", "context_len", "tokens_per_s", "n_heads", "n_kv_heads")
    runs: list[dict[Any, Any]] = [
        dict(zip(columns, (*row, *shapes[row[0]]), strict=True)) for row in rows
    ]
    assert profile_of(runs) == {
        "n_runs": 4,
        "n_models": 4,
        "n_gpus": 2,
        "runs_by_attention": {"MHA": 2, "GQA": 1, "MQA": 1},  # the toy's one head shares nothing
        "context_len_min": 300,
        "context_len_median": 450.0,
        "context_len_max": 900,
        "tokens_per_s_min": 10.0,
        "tokens_per_s_max": 80_000.0,
        "throughput_ratio": 8_000.0,
        "share_by_gpu": {"H200": 0.75, "L40S": 0.25},
    }
    assert profile_of(runs[:3])["context_len_median"] == 400


def test_truth_is_what_pandas_says(exam: Exam) -> None:
    for call in exam.calls:
        if call.topic != "profile":
            continue
        runs, right = exam.table(call.args["runs"]), exam.right[call.id]
        assert right["n_runs"] == len(runs)
        assert right["n_models"] == runs["model"].nunique()
        assert right["context_len_median"] == runs["context_len"].median()
        assert right["tokens_per_s_min"] == runs["tokens_per_s"].min()
        assert right["share_by_gpu"] == pytest.approx(
            runs["gpu"].value_counts(normalize=True).to_dict()
        )
        assert sum(right["runs_by_attention"].values()) == len(runs)
        assert sum(right["share_by_gpu"].values()) == pytest.approx(1)


def test_the_public_table_spans_more_than_7_000(exam: Exam) -> None:
    public = [call for call in exam.calls if call.topic == "profile"][-1]
    assert public.args["runs"] == Table("data/train.csv")
    assert exam.right[public.id]["throughput_ratio"] > 7_000


def solve_raw_normal_equations(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Solve least squares the worst way that people do: X'X, columns as they are."""
    x = np.column_stack([np.ones(len(train)), train[RAW].to_numpy(dtype=float)])
    slopes = np.linalg.inv(x.T @ x) @ x.T @ train["tokens_per_s"].to_numpy()
    result: np.ndarray = slopes[0] + test[RAW].to_numpy(dtype=float) @ slopes[1:]
    return result


def regress(model: Any) -> Callable[[pd.DataFrame, pd.DataFrame], np.ndarray]:
    return lambda train, test: np.asarray(
        model.fit(train[RAW], train["tokens_per_s"]).predict(test[RAW])
    )


@pytest.mark.parametrize(
    "solve",
    [
        regress(LinearRegression()),
        regress(make_pipeline(StandardScaler(), LinearRegression())),
        solve_raw_normal_equations,
    ],
    ids=["sklearn", "standardised", "normal equations"],
)
def test_every_solver_gives_the_r2_of_the_truth(
    exam: Exam, solve: Callable[[pd.DataFrame, pd.DataFrame], np.ndarray]
) -> None:
    for call in exam.calls:
        if call.topic == "profile":
            continue
        train, test = exam.table(call.args["train"]), exam.table(call.args["test"])
        found = r2(solve(train, test), test["tokens_per_s"])
        assert abs(found - exam.right[call.id]) < R2_WITHIN / 1_000
        assert condition(train) <= MAX_CONDITION


def test_a_label_among_the_features_is_rejected(exam: Exam) -> None:
    columns = [*RAW, "decode_step_ms"]

    def leaking(call: Call) -> Any:
        if call.topic == "profile":
            return exam.right[call.id]
        train, test = exam.table(call.args["train"]), exam.table(call.args["test"])
        model = LinearRegression().fit(train[columns], train["tokens_per_s"])
        return r2(model.predict(test[columns]), test["tokens_per_s"])

    assert exam.failed(leaking) == OF_BASELINE


def test_the_tables_differ_so_that_no_fixed_answer_is_right(drawn: list[pd.DataFrame]) -> None:
    gpus = [table["gpu"].nunique() for table in drawn]
    assert min(gpus) < max(gpus)
    assert {len(table) % 2 for table in drawn} == {0, 1}
    assert any((table["n_kv_heads"] > 1).all() for table in drawn), "one table has no MQA"
    assert any((table["n_kv_heads"] < table["n_heads"]).all() for table in drawn)
    assert any((table["n_heads"] == 1).any() for table in drawn)
    for table in drawn:
        assert table["run_id"].is_unique
        assert not table["context_len"].is_monotonic_increasing
        if len(table) % 2 == 0:
            contexts = np.sort(table["context_len"].to_numpy())
            assert contexts[len(table) // 2 - 1] < contexts[len(table) // 2]


def test_some_run_ids_are_written_in_digits_and_stay_text(drawn: list[pd.DataFrame]) -> None:
    in_digits = [table for table in drawn if table["run_id"].str.fullmatch(r"\d{5}").all()]
    assert len(in_digits) == 2
    assert all(table["run_id"].str.startswith("0").any() for table in in_digits)


def test_no_label_of_the_truth_is_in_a_question(exam: Exam, drawn: list[pd.DataFrame]) -> None:
    labels = exam.truth.table("runs.csv").drop(columns="run_id")
    hidden = Files(exam.folder / "questions").table("runs.csv").join(labels)
    keys = ["model", "gpu", "batch_size", "context_len", "decode_step_ms", "tokens_per_s"]
    for table in drawn:
        assert table.merge(hidden, on=keys).empty


def test_right_answers_earn_every_point(exam: Exam) -> None:
    assert exam.failed(lambda call: exam.right[call.id]) == ()
    assert exam.failed(exam.changed(a_key_of_my_own="kept")) == ()


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_neither_crashes_a_check_nor_passes_it(exam: Exam, junk: Any) -> None:
    assert exam.failed(lambda _: junk) == OF_PROFILE + OF_BASELINE


@pytest.mark.parametrize("junk", JUNK, ids=repr)
@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("n_models", "counts"),
        ("runs_by_attention", "attention_layouts"),
        ("context_len_median", "context_lengths"),
        ("throughput_ratio", "throughput_range"),
        ("share_by_gpu", "share_by_gpu"),
    ],
)
def test_junk_in_one_part_fails_the_check_of_that_part(
    exam: Exam, part: str, name: str, junk: Any
) -> None:
    assert exam.failed(exam.changed(**{part: junk})) == (name,)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_inside_a_dict_fails_its_check(exam: Exam, junk: Any) -> None:
    layouts = exam.changed(runs_by_attention={"MHA": 1, "GQA": junk, "MQA": 0})
    assert exam.failed(layouts) == ("attention_layouts",)

    def shares(call: Call) -> Any:
        right = exam.right[call.id]
        if call.topic != "profile":
            return right
        first = next(iter(right["share_by_gpu"]))
        return right | {"share_by_gpu": right["share_by_gpu"] | {first: junk}}

    assert exam.failed(shares) == ("share_by_gpu",)


def test_what_hidden_sets_show_names_a_part_and_no_value(exam: Exam) -> None:
    wrong = {"n_runs": 12_345, "context_len_median": 6.5, "tokens_per_s_max": 98.7}
    verdicts = exam.judged(exam.changed(**wrong, share_by_gpu={"H200": 1.0}))
    for name in OF_PROFILE:
        assert not any(letter.isdigit() for letter in verdicts[name].remark)
    assert "'n_runs'" in verdicts["counts"].remark
    assert exam.judged(lambda _: 0.5)["linear_baseline"].remark == ""


def test_points_sum_to_ten() -> None:
    assert WHOLE_MILESTONE.points == 10
