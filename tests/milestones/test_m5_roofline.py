"""Milestone 5: its truth against exact fractions, its checks against junk and honest variety."""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from grader.judge import judge
from grader.report import CheckReport, Outcome
from milestones.m5_roofline import MILESTONE as WHOLE_MILESTONE
from milestones.runs import LABELS
from milestones.spec import Answer, Answers, Files, Table
from solutions.draft import Source
from solutions.exam import write_questions
from solutions.m5_roofline import oracle
from solutions.m5_roofline.oracle import ALTERATIONS, N_BASES, spec_times
from solutions.world.draw import draw_hidden
from tests.milestones.closing import without_closing

MILESTONE = without_closing(WHOLE_MILESTONE)
SLUG = MILESTONE.slug
SEED = (31).to_bytes(32, "big")
TERM_CHECKS = {
    "weight_term",
    "kv_term",
    "compute_term",
    "overhead_term",
    "altered_rows",
    "row_by_row",
}


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("m5") / "split"
    write_questions(folder, SEED, 0, slugs=(SLUG,))
    return folder


@pytest.fixture(scope="module")
def runs(split: Path) -> pd.DataFrame:
    return Files(split / "questions").table("runs.csv")


@pytest.fixture(scope="module")
def altered(split: Path) -> pd.DataFrame:
    return Files(split / "questions").table(f"{SLUG}/altered.csv")


def exact(row: Any, attention: bool = False) -> list[Fraction]:
    """Return weights, cache and arithmetic of one run (by column name) in ms, as fractions."""

    def of(name: str) -> Fraction:
        return Fraction(str(row[name]))

    bytes_per_s = of("gpu_bandwidth_gbps") * 10**9
    weights = of("params_b") * 10**9 * of("weight_bits") / 8
    token = 2 * of("n_layers") * of("n_kv_heads") * of("head_dim") * of("kv_bits") / 8
    cache = of("batch_size") * of("context_len") * token
    operations = 2 * of("params_b") * 10**9 * of("batch_size")
    if attention:  # scores and weighted values: a multiplication and an addition each
        dimensions = of("n_layers") * of("n_heads") * of("head_dim")
        operations += 2 * 2 * of("batch_size") * of("context_len") * dimensions
    peak = of("gpu_tflops") * 10**12
    return [1000 * weights / bytes_per_s, 1000 * cache / bytes_per_s, 1000 * operations / peak]


def terms_of(table: pd.DataFrame, attention: bool = False) -> np.ndarray:
    """Compute the four terms one row at a time."""
    overhead = 0.05 * table["n_layers"] + 0.001 * table["batch_size"]
    rest = [[float(x) for x in exact(row, attention)] for row in table.to_dict("records")]
    return np.column_stack([overhead, np.array(rest).reshape(len(table), 3)])


def answers_of(
    split: Path, terms: dict[str, np.ndarray], coefficients: Any, again: Any = None
) -> Answers:
    """Answer every call with rows of `terms` by table."""
    calls = MILESTONE.calls(Files(split / "questions"))

    def value(function: str, args: Mapping[str, Any]) -> Any:
        if function == "fit_roofline":
            return coefficients
        table = args["runs"]
        assert isinstance(table, Table)
        whole = terms["altered" if "altered" in table.path else "runs"]
        return whole if table.rows is None else whole[list(table.rows)]

    by_id = {c.id: Answer(c, value(c.function, c.args)) for c in calls}
    second = None if again is None else by_id | again(by_id)
    return Answers(by_id, second)


def judged(split: Path, answers: Answers, *, public: bool = False) -> dict[str, CheckReport]:
    reports = judge(MILESTONE, answers, Files(split / "truth"), (), public=public)
    return {report.name: report for report in reports}


@pytest.fixture(scope="module")
def right(runs: pd.DataFrame, altered: pd.DataFrame) -> dict[str, np.ndarray]:
    return {"runs": terms_of(runs), "altered": terms_of(altered)}


COEFFICIENTS = np.array([1.0, 1.17, 1.17, 0.85])


def test_the_points_are_fifteen() -> None:
    assert WHOLE_MILESTONE.points == 15
    assert MILESTONE.runs == 2


def test_a_step_worked_by_hand() -> None:
    llama_8b_on_h100 = pd.DataFrame(
        {
            "n_layers": [32],
            "n_heads": 32,
            "n_kv_heads": 8,
            "head_dim": 128,
            "params_b": 8.0303,
            "weight_bits": 16,
            "kv_bits": 16,
            "gpu_bandwidth_gbps": 3350.0,
            "gpu_tflops": 989.0,
            "batch_size": 16,
            "context_len": 4096,
        }
    )
    found = spec_times(llama_8b_on_h100)
    assert found["weight_ms"][0] == pytest.approx(16.0606 / 3.350, rel=1e-12)
    assert found["kv_ms"][0] == pytest.approx(16 * 4096 * 131_072 / 3350e9 * 1e3, rel=1e-12)
    assert found["flops_ms"][0] == pytest.approx(2 * 8.0303e9 * 16 / 989e12 * 1e3, rel=1e-12)
    per_token = 4 * 32 * 32 * 128  # operations of attention for each cached token
    assert found["attention_ms"][0] == pytest.approx(16 * 4096 * per_token / 989e9, rel=1e-12)


def test_the_truth_agrees_with_exact_fractions(split: Path, runs: pd.DataFrame) -> None:
    truth = Files(split / "truth").arrays(f"{SLUG}/terms.npz")
    for i in range(0, len(runs), 97):
        weights, cache, operations = exact(runs.iloc[i])
        *_, with_attention = exact(runs.iloc[i], attention=True)
        assert truth["weight_ms"][i] == pytest.approx(float(weights), rel=1e-14)
        assert truth["kv_ms"][i] == pytest.approx(float(cache), rel=1e-14)
        assert truth["flops_ms"][i] == pytest.approx(float(operations), rel=1e-14)
        attention = float(with_attention - operations)
        assert truth["attention_ms"][i] == pytest.approx(attention, rel=1e-14)


def test_the_labels_are_in_the_order_of_the_questions(split: Path, runs: pd.DataFrame) -> None:
    truth = Files(split / "truth").table("runs.csv")
    assert truth["run_id"].tolist() == runs["run_id"].tolist()


def test_questions_hold_no_labels(runs: pd.DataFrame, altered: pd.DataFrame) -> None:
    assert not set(LABELS) & {*runs.columns, *altered.columns}


@pytest.mark.parametrize("attention", [False, True])
def test_altered_rows_must_react_as_exact_fractions_do(
    split: Path, altered: pd.DataFrame, attention: bool
) -> None:
    rows = Files(split / "truth").json(f"{SLUG}/altered.json")
    assert sorted(row["row"] for row in rows) == list(range(len(altered)))
    asked = [row["change"] for row in rows]
    assert all(asked.count(alteration.name) == N_BASES for alteration in ALTERATIONS)
    for row in rows:
        before = exact(altered.iloc[row["base"]], attention)
        after = exact(altered.iloc[row["row"]], attention)
        for column in range(3):
            factor = float(after[column] / before[column])
            low, high = row["low"][column + 1], row["high"][column + 1]
            assert low - 1e-12 <= factor <= high + 1e-12, (row["change"], column)


def test_the_first_rows_show_every_alteration(split: Path) -> None:
    rows = Files(split / "truth").json(f"{SLUG}/altered.json")
    first = {row["change"] for row in rows if row["row"] < 32}  # what a stored mistake keeps
    assert {alteration.name for alteration in ALTERATIONS} <= first


@pytest.mark.parametrize("attention", [False, True])
def test_exact_terms_pass_with_and_without_the_operations_of_attention(
    split: Path, runs: pd.DataFrame, altered: pd.DataFrame, attention: bool
) -> None:
    terms = {"runs": terms_of(runs, attention), "altered": terms_of(altered, attention)}
    reports = judged(split, answers_of(split, terms, COEFFICIENTS))
    assert all(reports[name].outcome is Outcome.PASSED for name in TERM_CHECKS)


def test_single_precision_passes(split: Path, right: dict[str, np.ndarray]) -> None:
    terms = {name: value.astype(np.float32).astype(np.float64) for name, value in right.items()}
    reports = judged(split, answers_of(split, terms, COEFFICIENTS))
    assert all(reports[name].outcome is Outcome.PASSED for name in TERM_CHECKS)


JUNK: dict[str, Any] = {
    "nan": lambda t: np.full_like(t, np.nan),
    "infinite": lambda t: np.full_like(t, np.inf),
    "negative": lambda t: -t,
    "zeros": np.zeros_like,
    "huge": lambda t: np.full_like(t, 1e308),
    "three columns": lambda t: t[:, :3],
    "one row too few": lambda t: t[:-1],
    "flat": lambda t: t.ravel(),
    "empty": lambda t: t[:0],
    "a number": lambda _: np.array(1.0),
    "transposed": lambda t: np.ascontiguousarray(t.T),
}


@pytest.mark.parametrize("name", JUNK)
def test_junk_terms_break_nothing_and_earn_nothing(
    split: Path, right: dict[str, np.ndarray], name: str
) -> None:
    calls = MILESTONE.calls(Files(split / "questions"))
    by_id = dict(answers_of(split, right, COEFFICIENTS).by_id)
    for call in calls:
        if call.function == "roofline_terms":
            by_id[call.id] = Answer(call, JUNK[name](by_id[call.id].value))
    reports = judged(split, Answers(by_id))
    assert not [r.hint for r in reports.values() if r.outcome is Outcome.BROKEN]
    assert {n for n, r in reports.items() if r.points} <= {"coefficients"}


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.0, 1.2, 1.2, -1e-12]),
        np.array([1.0, 1.2, 1.2, np.nan]),
        np.array([1.0, 1.2, 1.2, np.inf]),
        np.array([0.1, 1.0, 1.2, 1.2, 0.8]),
        np.array([[1.0, 1.2, 1.2, 0.8]]),
        np.array(1.0),
        np.empty(0),
    ],
)
def test_other_things_than_four_finite_numbers_fail(
    split: Path, right: dict[str, np.ndarray], value: np.ndarray
) -> None:
    reports = judged(split, answers_of(split, right, value))
    assert reports["coefficients"].outcome is Outcome.FAILED
    assert reports["coefficients"].hint
    assert reports["step_error"].outcome is Outcome.SKIPPED


def test_a_coefficient_may_be_zero(split: Path, right: dict[str, np.ndarray]) -> None:
    reports = judged(split, answers_of(split, right, np.array([1.0, 1.2, 1.2, 0.0])))
    assert reports["coefficients"].outcome is Outcome.PASSED


@pytest.mark.parametrize("value", [np.full(4, 1e308), np.zeros(4), np.full(4, 1e-300)])
def test_impossible_coefficients_break_nothing(
    split: Path, right: dict[str, np.ndarray], value: np.ndarray
) -> None:
    reports = judged(split, answers_of(split, right, value))
    assert reports["step_error"].outcome is Outcome.FAILED
    assert reports["throughput_r2"].outcome is Outcome.FAILED


def test_a_fit_that_is_not_reproducible_fails(split: Path, right: dict[str, np.ndarray]) -> None:
    def shifted(by_id: Mapping[str, Answer]) -> dict[str, Answer]:
        first = by_id["coefficients"]
        return {"coefficients": Answer(first.call, first.value * 1.001)}

    report = judged(split, answers_of(split, right, COEFFICIENTS, shifted))["coefficients"]
    assert report.outcome is Outcome.FAILED
    assert "Not reproducible" in report.hint


def test_terms_that_depend_on_the_table_fail(split: Path, right: dict[str, np.ndarray]) -> None:
    by_id = dict(answers_of(split, right, COEFFICIENTS).by_id)
    for call_id, answer in by_id.items():
        if call_id.startswith("apart/"):
            by_id[call_id] = Answer(answer.call, answer.value * [1.001, 1, 1, 1])
    reports = judged(split, Answers(by_id))
    assert reports["row_by_row"].outcome is Outcome.FAILED


@pytest.mark.parametrize("column", ["context_len", "params_b", "gpu_tflops", "n_kv_heads"])
def test_an_overhead_of_any_other_column_fails(
    split: Path,
    right: dict[str, np.ndarray],
    runs: pd.DataFrame,
    altered: pd.DataFrame,
    column: str,
) -> None:
    terms = {name: value.copy() for name, value in right.items()}
    terms["runs"][:, 0] += 1e-4 * runs[column]
    terms["altered"][:, 0] += 1e-4 * altered[column]
    reports = judged(split, answers_of(split, terms, COEFFICIENTS))
    assert reports["overhead_term"].outcome is Outcome.FAILED


def test_feedback_on_a_hidden_split_names_no_row(split: Path, right: dict[str, np.ndarray]) -> None:
    terms = {name: value * 1.01 for name, value in right.items()}
    hint = judged(split, answers_of(split, terms, COEFFICIENTS))["kv_term"].hint
    (kv_term,) = (check for check in MILESTONE.checks if check.name == "kv_term")
    assert hint == f"Off in 4,000 of 4,000 rows. {kv_term.think}"  # a count of the whole, no row


def test_no_altered_row_is_a_public_run() -> None:
    # The batch of the first base row, doubled, is made a public run: that base is not taken.
    drawn = draw_hidden(np.random.default_rng(3))

    def questions(known: pd.DataFrame) -> pd.DataFrame:
        source = Source(np.random.default_rng(4), drawn, known, known)
        table: pd.DataFrame = oracle.draw(source).questions["altered.csv"]
        return table

    nothing = drawn.iloc[:0]
    before = questions(nothing)
    asked = [column for column in oracle.ASKED if column != "run_id"]
    doubled = before[asked].merge(before[asked].assign(batch_size=before["batch_size"] * 2)).head(1)
    assert len(doubled) == 1
    public = doubled.assign(run_id="public")
    assert len(before.merge(doubled, on=asked)) == 1
    after = questions(public)
    assert len(after) == len(before)
    assert after.merge(doubled, on=asked).empty


# ---------------------------------------------------------------- where a failing row is


def spoilt(
    split: Path, right: dict[str, np.ndarray], call_id: str, row: int, column: int
) -> dict[str, CheckReport]:
    """Judge right terms with one of them, of one call alone, a tenth too large."""
    by_id = dict(answers_of(split, right, COEFFICIENTS).by_id)
    value = by_id[call_id].value.copy()
    value[row, column] *= 1.1
    by_id[call_id] = Answer(by_id[call_id].call, value)
    return judged(split, Answers(by_id), public=True)


@pytest.mark.parametrize(
    ("name", "call_id", "column", "told"),
    [
        ("kv_term", "terms", 2, ("runs is questions/runs.csv, term 3, row 17",)),
        ("altered_rows", "altered", 2, ("altered is questions/m5_roofline/altered.csv", "in row ")),
        ("row_by_row", "apart/0", 1, ("question apart/0", "Term 2 of its row 17", "is row ")),
    ],
)
def test_a_term_that_is_off_is_told_with_its_table_and_row(
    split: Path,
    right: dict[str, np.ndarray],
    name: str,
    call_id: str,
    column: int,
    told: tuple[str, ...],
) -> None:
    hint = spoilt(split, right, call_id, 17, column)[name].hint
    assert all(part in hint for part in told), hint


def test_two_runs_with_different_overheads_are_both_named(
    split: Path, right: dict[str, np.ndarray], runs: pd.DataFrame
) -> None:
    twins = runs.duplicated(["n_layers", "batch_size"], keep=False).to_numpy()
    row = int(np.argmax(twins))
    hint = spoilt(split, right, "terms", row, 0)["overhead_term"].hint
    assert f"ms in row {row}" in hint
    assert "term 1" in hint
