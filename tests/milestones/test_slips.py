"""A slip is recognised in all answers of a topic, whatever the milestone, and never where none is.

The synthetic cases are every slip with a named wrong answer; those on questions are drawn splits'
own, judged as a student's notebook is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import milestones
from grader.explain import reader
from grader.judge import judge
from grader.places import Places
from grader.report import CheckReport, Outcome
from milestones.compared import Compared, of_cases
from milestones.slips import recognise
from milestones.spec import Answer, Answers, Files
from solutions.exam import mistaken_answers, reference_answers, stored_mistakes, write_questions
from solutions.lesson import ROOT
from solutions.mistake import Edit
from tests.grader.fuzz import PUBLIC, TRUTH, right_answers

SEED = (23).to_bytes(32, "big")
SLUGS = ("m1_profile_runs", "m2_kv_bytes", "m3_concurrency", "m4_cache_equivalence", "m5_roofline")
rng = np.random.default_rng(4)
LAYERS = np.array([80.0, 32, 28, 61, 12, 40])
BATCH = np.array([1.0, 16, 8, 64, 3, 7])
HEADS = np.array([64.0, 32, 28, 64, 12, 40])
KV_HEADS = np.array([8.0, 8, 4, 64, 1, 10])
BITS = np.array([16.0, 8, 16, 8, 8, 16])
ASKED = {
    "n_layers": LAYERS,
    "batch_size": BATCH,
    "n_heads": HEADS,
    "n_kv_heads": KV_HEADS,
    "kv_bits": BITS,
}
BYTES = 2 * LAYERS * KV_HEADS * 128 * BITS / 8
MS = rng.uniform(0.5, 900, 6)
COUNTS = np.array([911.0, 2047, 88, 5003, 640, 131])
QUOTIENTS = np.array([812.37, 1203.81, 77.55, 4006.2, 523.92, 96.08])
COLUMN = rng.uniform(1, 9, 40)


def told(value: np.ndarray, right: np.ndarray, **more: Any) -> str:
    """Return what a slip is told as; nothing where there is none."""
    slip = recognise([Compared(value, right, **more)])
    return "" if slip is None else str(slip)


@pytest.mark.parametrize(
    ("wrong", "equals"),
    [
        (BYTES * 8, "8 times the right value, in all 6 answers"),
        (BYTES / 8, "an eighth of the right value"),
        (BYTES * 2, "twice the right value"),
        (BYTES / 2, "half the right value"),
        (BYTES / 1024, "the right value divided by 1,024"),
        (BYTES * 1000, "1,000 times the right value"),
        (BYTES / 1e9, "the right value divided by 1,000,000,000"),
        (BYTES / 2**30, "the right value divided by 1,073,741,824"),
        (BYTES * 1.073741824, "1.0737 times the right value"),
        (BYTES / 1.073741824, "0.9313 times the right value"),
        (BYTES * HEADS / KV_HEADS, "with n_heads in the place of n_kv_heads"),
        (BYTES * BATCH, "the right value times batch_size"),
        (BYTES / LAYERS, "the right value divided by n_layers"),
        (BYTES * 16 / BITS, "what 16 bits would give, whatever `kv_bits` says"),
        (BYTES / LAYERS / BATCH, "the right value divided by n_layers and batch_size"),
        (BYTES / 2 * BATCH, "half the right value times batch_size"),
        (MS / 1000, "the right value divided by 1,000"),
        (MS * 3600, "3,600 times the right value"),
        (MS / 100, "the right value divided by 100"),
        (MS * 100, "100 times the right value"),
        (-MS, "minus the right value"),
        (1 / MS, "one over the right value"),
        (MS * 6.28, "6.28 times the right value"),
        (np.trunc(QUOTIENTS), "the right value without its decimals"),
        (np.rint(QUOTIENTS), "the right value rounded to a whole number"),
        (np.ceil(QUOTIENTS), "the right value rounded up"),
        (np.round(MS, 2), "the right value rounded to 2 decimals"),
        (COUNTS + 1, "the right value plus one"),
        (COUNTS - 1, "the right value minus one"),
        (QUOTIENTS + 12, "the right value plus 12"),
    ],
)
def test_a_slip_of_dimension_or_rounding_is_told_by_what_it_is(
    wrong: np.ndarray, equals: str
) -> None:
    rights = {"MS": MS, "BYTES": BYTES, "COUNTS": COUNTS, "QUOTIENTS": QUOTIENTS}
    found = [told(wrong, right, quantities=ASKED) for right in rights.values()]
    assert sum(equals in one for one in found) == 1, found
    assert sum(bool(one) for one in found) == 1, found  # and it fits no other right answers


@pytest.mark.parametrize(
    ("wrong", "equals"),
    [
        (COLUMN[::-1], "reversed order"),
        (np.sort(COLUMN), "the right values, sorted,"),
        (np.sort(COLUMN)[::-1], "sorted from the largest down"),
        (rng.permutation(COLUMN), "in another order"),
        (np.concatenate([[0.0], COLUMN[:-1]]), "one row late"),
        (np.roll(COLUMN, -1), "one row early"),
        (np.full(40, COLUMN.mean()), "the mean of all the right values"),
        (np.full(40, COLUMN.sum()), "the sum of all the right values"),
        (np.full(40, 3.5), "one number"),
        (np.full(40, COLUMN[0]), "row 0's value"),
        (np.cumsum(COLUMN), "running sums"),
        (COLUMN[::-1] * 2, "what belongs in the other column"),
    ],
)
def test_a_slip_of_order_is_told_by_what_it_is(wrong: np.ndarray, equals: str) -> None:
    others = {"the other column": COLUMN[::-1] * 2}
    assert equals in told(wrong, COLUMN, rows=True, others=others)
    assert told(COLUMN, COLUMN, rows=True, others=others) == ""


def test_a_transposed_table_is_one_whatever_its_shape() -> None:
    for shape in ((5, 3), (4, 4)):
        right = rng.normal(size=shape)
        assert "transposed" in told(right.T, right, rows=True)
    assert told(np.ones((3, 5)), np.ones((5, 2)), rows=True) == ""


def test_wrong_rows_that_one_quantity_singles_out_are_told_by_it() -> None:
    quantities = {"kv_bits": np.tile([16.0, 8], 20), "n_layers": np.arange(40.0)}
    wrong = np.where(quantities["kv_bits"] == 8, COLUMN * rng.uniform(2, 3, 40), COLUMN)
    assert "but those where kv_bits is 8" in told(wrong, COLUMN, rows=True, quantities=quantities)
    wrong[0] *= 2
    assert told(wrong, COLUMN, rows=True, quantities=quantities) == ""


@pytest.mark.parametrize(
    ("wrong", "equals"),
    [
        (lambda q: np.floor(2 * q), "twice the right value"),
        (lambda q: np.floor(q / 2), "half the right value"),
        (lambda q: np.floor(q) + 1, "the right value plus one"),
        (np.rint, "one too many in 3 of 6 answers"),
        (lambda q: q, "before it is rounded down"),
        (np.floor, ""),
    ],
)
def test_a_slip_shows_through_rounding_down(
    wrong: Callable[[np.ndarray], np.ndarray], equals: str
) -> None:
    found = told(wrong(QUOTIENTS), np.floor(QUOTIENTS), whole=True, quantities={"batch": BATCH})
    assert equals in found
    assert bool(found) is bool(equals)


@pytest.mark.parametrize(
    ("factor", "missing", "twice"),
    [(8, "in bits that belongs in bytes", "by 8 twice"), (2, "2 missing", "counted twice")],
)
def test_a_thought_fits_whichever_side_of_a_fraction_the_slip_is_on(
    factor: int, missing: str, twice: str
) -> None:
    for wrong in (QUOTIENTS / factor, QUOTIENTS * factor):
        slip = recognise([Compared(np.floor(wrong), np.floor(QUOTIENTS), whole=True)])
        assert slip is not None
        assert missing in slip.think
        assert twice in slip.think


def test_nothing_but_zeros_is_no_slip_by_a_factor() -> None:
    right = np.floor(QUOTIENTS * 1000)
    assert told(np.zeros(6), right, whole=True, quantities=ASKED) == ""
    assert told(np.zeros(6), right, quantities=ASKED) == ""
    assert "1,000" in told(np.floor(right / 1000), right, whole=True, quantities=ASKED)


def test_two_slips_of_one_kind_are_thought_about_once() -> None:
    eight = {"kv_bits": np.full(6, 8.0)}
    slip = recognise(
        [
            Compared(QUOTIENTS / 8, QUOTIENTS, name="one"),
            Compared(QUOTIENTS / 8, QUOTIENTS, name="other", quantities=eight),
        ]
    )
    assert slip is not None
    assert slip.think.count("A byte has 8 bits") == 1
    assert "`kv_bits`" in slip.think


def test_an_estimate_is_told_by_its_size_alone() -> None:
    right, noise = rng.uniform(1, 900, 300), rng.uniform(0.9, 1.1, 300)
    speed = rng.uniform(1e4, 1e5, 300)
    for wrong, equals in (
        (right / 1000 * noise, "about the right value divided by 1,000"),
        (speed * noise, "about what tokens_per_s would be"),
        (right * 1.7 * noise, ""),
        (right * noise, ""),
        (rng.uniform(1e-3, 1e6, 300), ""),
    ):
        found = told(wrong, right, rough=True, others={"tokens_per_s": speed})
        assert equals in found
        assert bool(found) is bool(equals)


def test_what_two_slips_explain_is_told_by_both_and_what_more_do_by_none() -> None:
    eight = {"n_kv_heads": np.full(6, 8.0)}
    found = told(BYTES * 8, BYTES, quantities=eight)
    assert found.startswith("8 times the right value, or the right value times n_kv_heads")
    many = {name: np.full(6, 8.0) for name in ("n_kv_heads", "batch_size", "layers")}
    assert told(BYTES * 8, BYTES, quantities=many) == "8 times the right value, in all 6 answers"


def test_one_answer_is_a_slip_only_where_it_says_enough() -> None:
    one = np.array([327_680.0])
    assert told(one * 8, one, quantities={"n_kv_heads": np.array([8.0])}).startswith("8 times")
    assert told(np.array([16.0]), np.array([2.0])) == ""
    assert told(one * 7, one, quantities={"n_layers": np.array([7.0])}) == ""
    two_of_six = np.where(np.arange(6) < 1, BYTES * 8, BYTES)
    assert told(two_of_six, BYTES, quantities=ASKED) == ""  # one wrong among six is no rule


# ---------------------------------------------------------------- never where none is

ANY = st.floats(-1e12, 1e12, allow_nan=False)


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=6, max_size=6, unique=True))
def test_answers_wrong_by_factors_of_their_own_are_no_slip(factors: list[float]) -> None:
    wrong = BYTES * np.array(factors)
    ratios = np.sort(np.array(factors))
    if (np.diff(ratios) > 1e-3 * ratios[1:]).all():
        assert told(np.rint(wrong), BYTES, quantities=ASKED) == ""


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_whole_numbers_are_no_slip(seed: int) -> None:
    draw = np.random.default_rng(seed)
    small, large = draw.integers(0, 12, 6), draw.integers(0, 10**6, 6)
    for wrong, right in ((small, small[::-1]), (large, large[::-1])):
        for whole in (True, False):
            found = told(wrong.astype(float), right.astype(float), quantities=ASKED, whole=whole)
            assert found == ""


@settings(deadline=None)
@given(st.lists(ANY, min_size=6, max_size=6), st.booleans(), st.booleans())
def test_right_answers_are_never_a_slip(values: list[float], whole: bool, rows: bool) -> None:
    right = np.array(values)
    assert told(right.copy(), right, quantities=ASKED, whole=whole, rows=rows) == ""


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.text(), st.booleans(), st.integers(), st.floats(), ANY),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_whatever_comes_back_recognising_it_ends(values: list[Any], whole: bool) -> None:
    cases = [(value, 7.0 + i, {"n": 3 + i}) for i, value in enumerate(values)]
    recognise([of_cases(cases, whole=whole)])
    table = of_cases(cases).value
    recognise([Compared(table, np.arange(1.0, len(table) + 1), rows=True)])
    recognise([Compared(table[:, None], np.ones((len(table), 2)), rows=True)])


# ---------------------------------------------------------------- on a split's own questions


class Exam:
    """A drawn split of some milestones, answered by the solved notebook."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_questions(folder, SEED, 0, slugs=SLUGS)
        self.read_table = reader(Places(ROOT / "data", folder / "questions"))
        self._right: dict[str, Answers] = {}

    def right(self, slug: str) -> Answers:
        if slug not in self._right:
            self._right[slug] = reference_answers(slug, self.folder)
        return self._right[slug]

    def judged(
        self, slug: str, answers: Answers, *, public: bool = True, mistakes: Any = ()
    ) -> dict[str, CheckReport]:
        reports = judge(
            milestones.load(slug),
            answers,
            Files(self.folder / "truth"),
            mistakes,
            public=public,
            read_table=self.read_table,
        )
        assert not [r.hint for r in reports if r.outcome is Outcome.BROKEN]
        return {report.name: report for report in reports}


@pytest.fixture(scope="module")
def exam(tmp_path_factory: pytest.TempPathFactory) -> Exam:
    return Exam(tmp_path_factory.mktemp("slips") / "split")


def edited(answers: Answers, topic: str, change: Callable[[Answer], Any]) -> Answers:
    return Answers(
        {
            call_id: replace(answer, value=change(answer)) if answer.call.topic == topic else answer
            for call_id, answer in answers.by_id.items()
        },
        answers.again,
    )


def _part(key: str, change: Callable[[Any], Any]) -> Callable[[Answer], Any]:
    return lambda answer: {**answer.value, key: change(answer.value[key])}


def _percent(shares: dict[str, float]) -> dict[str, float]:
    return {gpu: 100 * share for gpu, share in shares.items()}


def _column(column: int, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Answer], Any]:
    def changed(answer: Answer) -> np.ndarray:
        value = np.array(answer.value)
        value[:, column] = change(value[:, column])
        return value

    return changed


@pytest.mark.parametrize(
    ("slug", "topic", "change", "check", "equals"),
    [
        ("m1_profile_runs", "profile", _part("throughput_ratio", lambda r: 1 / r),
         "throughput_range", "one over the right value"),
        ("m1_profile_runs", "profile", _part("share_by_gpu", _percent),
         "share_by_gpu", "100 times the right value"),
        ("m1_profile_runs", "profile", _part("context_len_max", lambda n: n - 1),
         "context_lengths", "the right value minus one"),
        ("m1_profile_runs", "profile", _part("tokens_per_s_min", int),
         "throughput_range", "the right value without its decimals"),
        ("m2_kv_bytes", "known_shapes", lambda a: a.value * 8,
         "known_shapes", "8 times the right value, in all 3 answers"),
        ("m2_kv_bytes", "other_shapes", lambda a: a.value * 16 // a.call.args["kv_bits"],
         "other_shapes", "what 16 bits would give"),
        ("m2_kv_bytes", "other_shapes", lambda a: a.value // a.call.args["head_dim"],
         "other_shapes", "the right value divided by head_dim"),
        ("m2_kv_bytes", "runs", lambda a: a.value / 1000,
         "every_run", "the right value divided by 1,000"),
        ("m2_kv_bytes", "runs", lambda a: np.sort(a.value), "every_run", "sorted"),
        ("m2_kv_bytes", "plain", lambda a: a.value // a.call.args["batch_size"],
         "plain_configs", "the right value divided by batch_size"),
        ("m2_kv_bytes", "plain", lambda a: a.value / 2**30,
         "plain_configs", "the right value divided by 1,073,741,824"),
        ("m3_concurrency", "longest", lambda a: a.value * a.call.args["n_requests"],
         "longest_context", "the right value times n_requests"),
        ("m3_concurrency", "any_machine", lambda a: a.value + 1,
         "any_machine", "the right value plus one"),
        ("m4_cache_equivalence", "whole", lambda a: a.value.T,
         "full_logits_right", ""),  # another shape: told by the check
        ("m4_cache_equivalence", "whole", lambda a: -a.value,
         "full_logits_right", "minus the right value"),
        ("m4_cache_equivalence", "counts", lambda a: a.value - 1,
         "projections_counted", "the right value minus one"),
        ("m5_roofline", "terms", _column(2, lambda kv: kv / 1000),
         "kv_term", "the right value divided by 1,000, in all 4,000 rows"),
        ("m5_roofline", "terms", _column(1, lambda weights: weights[::-1]),
         "weight_term", "reversed order"),
        ("m5_roofline", "terms", lambda a: a.value[:, [0, 2, 1, 3]],
         "weight_term", "what belongs in term 3"),
    ],
)  # fmt: skip
def test_a_slip_is_recognised_on_a_splits_questions(
    exam: Exam, slug: str, topic: str, change: Callable[[Answer], Any], check: str, equals: str
) -> None:
    found = exam.judged(slug, edited(exam.right(slug), topic, change))[check]
    assert found.outcome is Outcome.FAILED
    assert found.diagnosis is not None
    assert equals in found.diagnosis.equals
    assert bool(found.diagnosis.equals) is bool(equals)
    assert found.diagnosis.asked
    assert found.diagnosis.came_back
    assert found.diagnosis.think
    # A report that shows the hint alone tells it too.
    assert found.diagnosis.equals.casefold() in found.hint.casefold()


@pytest.mark.parametrize("slug", SLUGS)
def test_right_answers_have_no_slip_in_any_comparison(exam: Exam, slug: str) -> None:
    truth = Files(exam.folder / "truth")
    checks = [check for check in milestones.load(slug).checks if check.compare is not None]
    assert checks
    for check in checks:
        assert check.compare is not None
        compared = check.compare(exam.right(slug), truth, exam.read_table)
        assert compared, check.name
        assert recognise(compared) is None, check.name


@pytest.mark.parametrize("slug", SLUGS)
def test_random_answers_have_no_slip_in_any_comparison(exam: Exam, slug: str) -> None:
    truth, draw = Files(exam.folder / "truth"), np.random.default_rng(9)
    for check in milestones.load(slug).checks:
        if check.compare is None:
            continue
        for one in check.compare(exam.right(slug), truth, exam.read_table):
            for spread in (0.01, 0.5, 3.0):
                wrong = one.right * np.exp(draw.normal(0, spread, one.right.shape))
                wrong = np.rint(wrong) if one.whole else wrong
                if not np.isclose(wrong, one.right).all():
                    slip = recognise([replace(one, value=wrong)])
                    assert slip is None, (check.name, str(slip))


@pytest.mark.parametrize("slug", ["m2_kv_bytes", "m3_concurrency"])
def test_a_named_mistake_is_told_before_a_slip(exam: Exam, slug: str) -> None:
    mistaken = mistaken_answers(milestones.load(slug), exam.folder, exam.right(slug))
    stored = stored_mistakes(slug, mistaken, exam.right(slug))
    for mistake in stored:
        found = exam.judged(slug, mistaken[mistake.name], mistakes=stored)
        # The first check may see nothing but zeros, which many slips make.
        told = next(found[name] for name in mistake.checks if mistake.hint in found[name].hint)
        assert told.diagnosis is not None
        assert told.diagnosis.equals.startswith("a known mistake"), mistake.name


@pytest.mark.parametrize("slug", SLUGS)
def test_on_a_hidden_split_neither_question_nor_slip_is_told(exam: Exam, slug: str) -> None:
    for topic in {answer.call.topic for answer in exam.right(slug).by_id.values()}:
        wrong = edited(exam.right(slug), topic, _eightfold)
        for report in exam.judged(slug, wrong, public=False).values():
            if report.diagnosis is not None:
                assert report.diagnosis.asked == ""
                assert report.diagnosis.equals == ""
                assert report.diagnosis.breakdown is None
                assert "times the right value" not in report.hint
                assert "=" not in report.diagnosis.came_back  # no argument of a call


def _eightfold(answer: Answer) -> Any:
    value = answer.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 8 * value
    return 8 * value if isinstance(value, np.ndarray) else value


def test_a_fault_in_explaining_changes_no_outcome(exam: Exam, monkeypatch: Any) -> None:
    wrong = edited(exam.right("m2_kv_bytes"), "known_shapes", lambda a: a.value * 8)

    def faulty(_compared: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("grader.explain.recognise", faulty)
    report = exam.judged("m2_kv_bytes", wrong)["known_shapes"]
    assert report.outcome is Outcome.FAILED
    assert report.diagnosis is not None
    assert "2,621,440 bytes" in report.diagnosis.came_back


def test_every_check_says_what_to_think_about() -> None:
    for slug in milestones.all_slugs():
        for check in milestones.load(slug).checks:
            if not check.topics[0].startswith("understanding"):
                assert check.think.endswith((".", "?")), check.name


def test_the_edits_of_a_mistake_and_a_number_are_no_slip() -> None:
    """An edit that keeps answers right is none; guards the helper that the tests above use."""
    assert Edit("f", "a", "b").apply("a") == "b"
    assert math.isnan(of_cases([("3", 3, {})]).value[0])


ARRAYS = (
    np.array(7.0),
    np.zeros(0),
    np.zeros((0, 4)),
    np.ones(3),
    np.full((5, 2), np.nan),
    np.full((5, 4), np.inf),
    np.ones((2, 3, 4)),
)
JUNK: tuple[object, ...] = (
    None,
    True,
    "3",
    [],
    [1, 2],
    {},
    {"gpu": 3},
    -1,
    3.5,
    1e308,
    2**1_000,
    -(2**1_000),
    0,
)


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_whatever_is_answered_explaining_it_raises_nothing(slug: str) -> None:
    """A judge forgives a fault in explaining; here it is none."""
    right, read_table = right_answers(slug), reader(Places(ROOT / "data", PUBLIC / "questions"))
    explaining = [c for c in milestones.load(slug).checks if c.compare or c.cut]
    assert explaining
    for i in range(len(JUNK)):
        answers = Answers({name: _spoilt(one, i) for name, one in right.by_id.items()})
        for check in explaining:
            if check.judge(answers, TRUTH).passed:
                continue
            with np.errstate(all="ignore"):
                if check.compare is not None:
                    recognise(check.compare(answers, TRUTH, read_table))
                if check.cut is not None:
                    check.cut(answers, TRUTH, read_table)


def _spoilt(answer: Answer, i: int) -> Answer:
    if answer.call.returns == "kept":
        return answer
    arrays = isinstance(answer.value, np.ndarray)
    value = ARRAYS[i % len(ARRAYS)] if arrays else JUNK[i]
    return replace(answer, value=value)
