"""Lab x1: its checks against another honest build, against junk, and on what they give away."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
import pytest

from grader.ask import with_arrays
from grader.judge import judge, read_mistakes, shows
from grader.report import CheckReport
from milestones.spec import Answer, Answers, Files, Result, Tree
from milestones.x1_quantized_cache import MILESTONE as WHOLE_MILESTONE
from solutions.exam import reference_answers, write_questions
from solutions.lesson import read_lesson
from solutions.proof import prove
from solutions.x1_quantized_cache import oracle
from solutions.x1_quantized_cache.formats import in_double
from tests.milestones.closing import without_closing

MILESTONE = without_closing(WHOLE_MILESTONE)
SLUG = MILESTONE.slug
TYPES: dict[str, Any] = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("x1") / "split"
    write_questions(folder, (11).to_bytes(32, "big"), 0, slugs=(SLUG,))
    return folder


@pytest.fixture(scope="module")
def truth(split: Path) -> Files:
    return Files(split / "truth")


def put(functions: dict[str, Callable[..., Any]], split: Path) -> Answers:
    """Ask functions in this process, as a room would, without its packing."""
    arrays = json.loads((split / "questions" / SLUG / "arrays.json").read_text())
    kept: dict[str, Any] = {}
    found = {}
    for call in MILESTONE.calls(Files(split / "questions")):
        args = {}
        for name, value in call.args.items():
            if isinstance(value, Tree):
                topic, case = value.pick
                args[name] = with_arrays(arrays[topic][case])
            elif isinstance(value, Result):
                whole = kept[value.call_id]
                args[name] = whole if value.item is None else whole[value.item]
            else:
                args[name] = value
        value = kept[call.id] = functions[call.function](**args)
        sent = value[0] if call.returns == "array_and_kept" else value
        is_array = call.returns in ("array", "array_and_kept")
        found[call.id] = Answer(call, np.asarray(sent, np.float64) if is_array else sent)
    return Answers(found)


def in_single_precision() -> dict[str, Callable[..., Any]]:
    """An honest solution of another build: float32 throughout, FP8 from a library."""

    def to_int(x: np.ndarray, bits: int, share: str) -> tuple[np.ndarray, np.ndarray]:
        x = x.astype(np.float32)
        axis = {"tensor": None, "token": 2, "channel": 0}[share]
        largest = np.max(np.abs(x), axis=axis, keepdims=True)
        scale = np.maximum(largest, np.float32(1e-30)) / np.float32(2 ** (bits - 1) - 1)
        return np.round(x / scale), scale

    def from_fp8(codes: Any, kind: str) -> np.ndarray:
        values: np.ndarray = np.asarray(codes, np.uint8).view(TYPES[kind]).astype(np.float32)
        return values

    def to_fp8(x: np.ndarray, kind: str) -> np.ndarray:
        largest = {"e4m3": 448.0, "e5m2": 57_344.0}[kind]
        clipped = np.clip(np.asarray(x, np.float32), -largest, largest)
        codes: np.ndarray = clipped.astype(TYPES[kind]).view(np.uint8)
        return codes

    def through_groups(x: np.ndarray, bits: int, group: int, along: str) -> np.ndarray:
        back = x.astype(np.float32)
        turned = back if along == "channels" else back.transpose(2, 1, 0)
        for start in range(0, turned.shape[2] - group + 1, group):
            part = turned[:, :, start : start + group]
            low, high = part.min(2, keepdims=True), part.max(2, keepdims=True)
            inverse = np.divide(2**bits - 1, high - low, where=high > low, out=np.zeros_like(low))
            codes = np.round((part - low) * inverse)
            part[...] = low + codes * ((high - low) / (2**bits - 1))
        return back

    def as_seen(x: np.ndarray, scheme: dict[str, Any]) -> np.ndarray:
        if scheme["format"] in TYPES:
            return from_fp8(to_fp8(x, scheme["format"]), scheme["format"])
        return in_double(scheme)(x)

    def profile(x: np.ndarray, bits: int, group: int) -> np.ndarray:
        return oracle.profiled(x.astype(np.float32), bits, group)

    return {
        "to_int": to_int,
        "from_int": lambda codes, scale: scale * codes,
        "from_fp8": from_fp8,
        "to_fp8": to_fp8,
        "through_groups": through_groups,
        "cache_bytes": lambda **sizes: float(oracle.cache_size(**sizes)),
        "as_seen": as_seen,
        "perplexity": oracle.perplexity,
        "profile": profile,
        "profile_lm": oracle._profiles_of_lm,
    }


def verdicts(answers: Answers, truth: Files) -> dict[str, bool]:
    return {check.name: check.judge(answers, truth).passed for check in MILESTONE.checks}


def test_another_honest_build_passes_every_check(split: Path, truth: Files) -> None:
    with np.errstate(invalid="ignore"):
        assert all(verdicts(put(in_single_precision(), split), truth).values())


def test_the_notebook_passes_the_blank_earns_nothing_and_each_mistake_is_caught(
    split: Path,
) -> None:
    assert prove(SLUG, split).faults == ()  # writes the mistakes beside the truth
    for kind in ("questions", "truth"):
        files = (split / kind / SLUG).rglob("*")
        assert sum(path.stat().st_size for path in files if path.is_file()) < 300_000  # bytes


def test_one_answer_for_every_question_earns_nothing(split: Path, truth: Files) -> None:
    honest = put(in_single_precision(), split)
    for pick in (0, -1):
        by_id = {}
        for call_id, answer in honest.by_id.items():
            same = list(honest.under(answer.call.topic))[pick]
            by_id[call_id] = Answer(answer.call, same.value)
        assert not any(verdicts(Answers(by_id), truth).values())


def junk(right: Any) -> Iterator[Any]:
    """Yield wrong answers of many forms."""
    if isinstance(right, np.ndarray):
        shape = right.shape
        yield from (np.zeros(shape), np.full(shape, np.nan), np.full(shape, np.inf), right[:-1])
        yield from (right + 1, right[None], -np.full(shape, 1e308), np.zeros((0, *shape[1:])))
    yield from (np.ones(()), np.ones(7), np.zeros(0), np.ones((2, 3, 4)), np.full(256, -1.0))
    yield from (None, True, False, -1, 0, 10**300, 1.5, "16", "", [], [1, [2]], {}, {"a": None})


def test_junk_never_crashes_a_check_and_never_passes(split: Path, truth: Files) -> None:
    with np.errstate(invalid="ignore"):
        honest = put(in_single_precision(), split)
    columns = {key: list(junk(answer.value)) for key, answer in honest.by_id.items()}
    for turn in range(max(map(len, columns.values()))):
        answers = Answers(
            {
                key: Answer(answer.call, columns[key][turn % len(columns[key])])
                for key, answer in honest.by_id.items()
            }
        )
        with np.errstate(all="ignore"):
            for check in MILESTONE.checks:
                verdict = check.judge(answers, truth)
                assert verdict.share == 0.0, (check.name, turn)
                assert verdict.detail or verdict.remark
                if check.compare is not None:
                    check.compare(answers, truth, pd.read_csv)


def test_one_wrong_number_among_right_answers_fails_its_check(split: Path, truth: Files) -> None:
    with np.errstate(invalid="ignore"):
        honest = put(in_single_precision(), split)
    for check in MILESTONE.checks:
        last = list(honest.under(check.topics[0]))[-1]
        value = last.value
        if isinstance(value, np.ndarray):
            value = value.copy()
            value.flat[-1] = 3.0 if np.isnan(value.flat[-1]) else value.flat[-1] * 1.01 + 1
        else:
            value *= 1.02
        by_id = {**honest.by_id, last.call.id: Answer(last.call, value)}
        assert not check.judge(Answers(by_id), truth).passed, check.name


def test_a_nan_may_have_any_code_of_nan_and_no_other(split: Path, truth: Files) -> None:
    with np.errstate(invalid="ignore"):
        honest = put(in_single_precision(), split)
    trip = next(check for check in MILESTONE.checks if check.name == "fp8_round_trip")
    for kind, code, fine in (("e4m3", 0x7F, True), ("e5m2", 0xFD, True), ("e5m2", 0x7C, False)):
        answer = honest.by_id[f"again/{kind}"]
        value = np.array(answer.value)
        value[np.isnan(honest.by_id[f"decoded/{kind}"].value)] = code
        by_id = {**honest.by_id, answer.call.id: Answer(answer.call, value)}
        assert trip.judge(Answers(by_id), truth).passed is fine, (kind, code)


def test_what_is_said_on_a_hidden_split_holds_no_value(split: Path, truth: Files) -> None:
    with np.errstate(invalid="ignore"):
        honest = put(in_single_precision(), split)
    fives = Answers(
        {
            key: Answer(a.call, np.full_like(a.value, 5) if isinstance(a.value, np.ndarray) else 5)
            for key, a in honest.by_id.items()
        }
    )
    for check in MILESTONE.checks:
        verdict = check.judge(fives, truth)
        assert not verdict.passed
        told = re.sub(r"^Off in [\d,]+ of (the )?[\d,]+ (answers|values|codes)", "", verdict.remark)
        assert not any(letter.isdigit() for letter in told), verdict.remark


# ---------------------------------------------------------------- what is told of slips


@pytest.fixture(scope="module")
def right(split: Path) -> Answers:
    """The solved notebook's answers; the mistakes are stored beside the truth."""
    prove(SLUG, split)
    return reference_answers(SLUG, split)


def told(right: Answers, truth: Files, changed: dict[str, Any]) -> dict[str, CheckReport]:
    """Judge the right answers with some changed ones among them, as on the public split."""
    by_id = {
        key: Answer(answer.call, changed.get(key, answer.value))
        for key, answer in right.by_id.items()
    }
    mistakes = read_mistakes(truth, SLUG)
    read = pd.read_csv
    reports = judge(WHOLE_MILESTONE, Answers(by_id), truth, mistakes, public=True, read_table=read)
    return {report.name: report for report in reports}


def test_no_mistake_is_stored_for_a_check_in_which_it_answers_rightly(
    right: Answers, truth: Files
) -> None:
    checks = {check.name: check for check in WHOLE_MILESTONE.checks}
    for mistake in read_mistakes(truth, SLUG):
        assert mistake.checks
        for name in mistake.checks:
            assert shows(mistake, checks[name], right), (mistake.name, name)


def test_a_wrong_value_of_one_kind_of_code_is_not_told_as_a_lost_sign(
    right: Answers, truth: Files
) -> None:
    e4m3, e5m2 = (right.value(f"decoded/{kind}") for kind in ("e4m3", "e5m2"))
    smallest = np.abs(e5m2) < 2.0**-14
    for changed in (
        {"decoded/e4m3": np.where(np.isnan(e4m3), 480.0, e4m3)},
        {"decoded/e4m3": np.where(np.isnan(e4m3), np.inf, e4m3)},
        {"decoded/e5m2": np.where(np.isnan(e5m2), 98_304.0, e5m2)},
        {"decoded/e5m2": np.where(np.isinf(e5m2), np.nan, e5m2)},
        {"decoded/e5m2": np.where(smallest, np.copysign(0.0, e5m2), e5m2)},
    ):
        report = told(right, truth, changed)["fp8_values_right"]
        assert report.mistake == ""
        assert "sign and nothing else" not in report.hint
    positive = {
        f"decoded/{kind}": np.where(v == 0, 0.0, v) for kind, v in (("e4m3", e4m3), ("e5m2", e5m2))
    }
    report = told(right, truth, positive)["fp8_values_right"]
    assert report.mistake == "no_zero_below_zero"
    assert "First at code 128 (0x80): 0 where -0 was expected." in report.hint


def test_a_bias_that_is_one_off_is_told_as_that(right: Answers, truth: Files) -> None:
    for factor, name in ((0.5, "bias_one_too_large"), (2.0, "bias_one_too_small")):
        changed = {f"decoded/{kind}": right.value(f"decoded/{kind}") * factor for kind in TYPES}
        report = told(right, truth, changed)["fp8_values_right"]
        assert report.mistake == name
        assert "bias" in report.hint
    one = {"decoded/e4m3": right.value("decoded/e4m3") * 0.5}
    report = told(right, truth, one)["fp8_values_right"]
    assert "Keys and values are two" not in report.hint


def test_swapped_errors_are_not_told_as_groups_that_run_the_other_way(
    right: Answers, truth: Files
) -> None:
    changed = {
        key: answer.value[..., [0, 2, 1]]
        for topic in ("profiles", "model")
        for key, answer in ((a.call.id, a) for a in right.under(topic))
    }
    reports = told(right, truth, changed)
    for name in ("outliers_told", "model_measured"):
        assert reports[name].mistake == "errors_swapped"


def test_a_wrong_code_is_told_by_the_number_that_it_was_asked_for(
    right: Answers, truth: Files, split: Path
) -> None:
    decoded = right.value("decoded/e4m3")
    zero = (decoded == 0) & ~np.signbit(decoded)
    again = np.where(zero, 40.0, right.value("again/e4m3"))
    report = told(right, truth, {"again/e4m3": again})["fp8_round_trip"]
    assert "First at the input 0.0: 40 where 0 was expected." in report.hint
    assert "0.0 and -0.0" in report.hint
    asked = json.loads((split / "questions" / SLUG / "arrays.json").read_text())
    for topic, name in (("rounded", "fp8_rounding"), ("edges", "fp8_edges")):
        for kind in TYPES:
            codes = right.value(f"{topic}/{kind}").copy()
            codes[7] += 1
            report = told(right, truth, {f"{topic}/{kind}": codes})[name]
            assert f"at the input {asked[topic][f'values_{kind}'][7]!r}: " in report.hint
            assert f"to_fp8(x=values_{kind}, kind='{kind}')" in report.hint


def test_what_is_held_in_16_bits_may_be_rounded_to_16_bits_and_not_to_8(
    right: Answers, truth: Files
) -> None:
    x = right.value("seen/sixteen_bits")
    largest = np.abs(x).max() / 127
    for seen, fine in (
        (x, True),
        (x.astype(np.float16).astype(float), True),
        (x.astype(ml_dtypes.bfloat16).astype(float), True),
        (x.astype(TYPES["e4m3"]).astype(float), False),
        (x.astype(TYPES["e5m2"]).astype(float), False),
        (np.rint(x / largest) * largest, False),
    ):
        report = told(right, truth, {"seen/sixteen_bits": seen})["schemes_right"]
        assert (report.points == 0.25) is fine, report.hint


def test_the_model_without_outliers_comes_back_when_the_cell_is_interrupted() -> None:
    (cell,) = [c for c in read_lesson(SLUG) if "outlying = lm" in c.source]
    planting = cell.source[cell.source.index("trained, outlying") :]

    names: dict[str, Any] = {"PLAIN": {}, "math": math, "np": np, "BY_TOKEN_8": {}}
    names |= {"planted": lambda *_, **__: {"layers": "planted"}, "in_groups": lambda *_: {}}

    def change(*_: object) -> tuple[float, float]:
        if names["lm"]["layers"] == names["interrupted"]:
            raise KeyboardInterrupt
        return 0.0, 0.0

    for model in ("original", "planted"):
        names |= {"lm": {"layers": "original"}, "change": change, "interrupted": model}
        with pytest.raises(KeyboardInterrupt):
            exec(planting, names)
        assert names["lm"] == {"layers": "original"}


def test_points_are_five_and_all_bonus() -> None:
    assert (WHOLE_MILESTONE.points, WHOLE_MILESTONE.bonus) == (0, 5)
