"""The checks of lab x1: codes to the bit, bytes to the byte, and what a model makes of them.

Codes are compared exactly: the draw keeps every quotient 1e-4 of a step away from a tie, or
exactly on one, and single precision moves a quotient of 127 by some 1e-5. What comes back is
compared within `RTOL`, a hundred times the rounding of single precision and a hundredth of what
the next code would differ by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from milestones.compare import (
    TruthError,
    array_agrees,
    first_failure,
    kind_of,
    named,
    numbers_agree,
    numbers_beside,
    right_array,
)
from milestones.compared import Compared
from milestones.spec import (
    Answer,
    Answers,
    Compare,
    Files,
    ReadTable,
    Tree,
    Verdict,
    check,
    failed,
    passed,
)
from milestones.understanding import understanding_checks

N_CODES = 256
NAN_CODES: Mapping[str, Sequence[int]] = {
    "e4m3": (0x7F, 0xFF),
    "e5m2": (0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF),
}
RTOL = 1e-5
RTOL_16_BITS = 4e-3
"""Whoever rounds what is held in "16 bits" to float16 or bfloat16 moves it by 2^-8 = 0.39 % at
most. 8 bits move some number of a hundred by far more: whole numbers by up to 1/254 of the largest,
FP8 by up to 6 % of each."""
STEP = 1e-4  # of groups: no step is below 0.02 (the draw sees to it), numbers of 10 lose some 1e-6
PROFILE_RTOL = 1e-3  # sums of squares in single precision lose 1e-6; named mistakes are 1 % off
PERPLEXITY_RTOL = 0.01
"""The draw keeps the numbers of these caches clear of ties: right programs then differ by 1e-6, or
by 0.2 % where a number falls to its other side all the same (once in 100 draws; without that care,
by up to 0.9 % in 100 texts). Mistakes are more than 3 % off, as the draw sees to."""
BYTES = "x1_quantized_cache/bytes.json"
PERPLEXITIES = "x1_quantized_cache/perplexities.json"


def beside(topic: str) -> Compare:
    """Put the arrays of a topic beside the right ones, as far as both are numbers."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        right = _truth(truth, topic)
        return [
            one
            for answer in answers.under(topic)
            if (one := _finite(answer.value, right[answer.call.id])) is not None
        ]

    return compare


def _finite(value: object, right: np.ndarray) -> Compared | None:
    if not isinstance(value, np.ndarray) or value.shape != right.shape:
        return None
    known = np.isfinite(right)
    return Compared(value[known].ravel(), right[known].ravel(), numbers="numbers")


def numbers_of(topic: str, path: str, *, whole: bool) -> Compare:
    """Put the numbers of a topic beside the right ones; those not `whole` are rough."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        found = numbers_beside(answers.under(topic), truth.json(path), whole=whole)
        return [replace(found, rough=not whole)]

    return compare


# ---------------------------------------------------------------- whole numbers and a scale


@check(
    points=0.5,
    topics=["ints"],
    bonus=True,
    compare=beside("ints"),
    think="Take one number that shares its scale with few others. What is the scale there, what "
    "does the number come to in units of it, and which whole number is nearest?",
)
def int_codes_right(answers: Answers, truth: Files) -> Verdict:
    """Codes of 8 bits and fewer are right to the unit, whatever shares a scale."""
    return _arrays_agree(answers, truth, "ints")


@check(
    points=0.25,
    topics=["back"],
    needs=["int_codes_right"],
    bonus=True,
    compare=beside("back"),
    think="A code counts steps; the scale is how long a step is.",
)
def int_round_trip(answers: Answers, truth: Files) -> Verdict:
    """Codes and scales come back as the numbers they stand for, zeros as zeros."""
    return _arrays_agree(answers, truth, "back", RTOL)


# ---------------------------------------------------------------- FP8


@check(
    points=0.25,
    topics=["decoded"],
    bonus=True,
    think="Write the code as 8 bits: sign, exponent field, rest; then work out the value, with the "
    "bias of its format. What does an exponent field of 0 mean? And a field of ones, in each of "
    "the two formats?",
)
def fp8_values_right(answers: Answers, truth: Files) -> Verdict:
    """All 256 codes of E4M3 and of E5M2 stand for the right values."""
    expected = _truth(truth, "decoded")
    return first_failure(
        _values_agree(answer, expected[answer.call.id]) for answer in answers.under("decoded")
    )


@check(
    points=0.5,
    topics=["rounded"],
    bonus=True,
    think="How far apart are neighbours where the number lies? In units of that, it rounds like "
    "any number: to the nearest, a tie to the even one. Below the smallest normal number the "
    "distance no longer shrinks.",
)
def fp8_rounding(answers: Answers, truth: Files) -> Verdict:
    """Numbers within reach go to the nearest code, ties to the even one, subnormals included."""
    return _codes_of_inputs(answers, truth, "rounded")


@check(
    points=0.25,
    topics=["edges"],
    bonus=True,
    think="What lies beyond the largest number, and what has a sign though it is 0? Which code has "
    "0 itself: is your exponent of it one that the format has?",
)
def fp8_edges(answers: Answers, truth: Files) -> Verdict:
    """What is too large becomes the largest number, what is too small a zero with its sign."""
    return _codes_of_inputs(answers, truth, "edges")


@check(
    points=0.25,
    topics=["again"],
    needs=["fp8_values_right", "fp8_rounding"],
    bonus=True,
    think="All values of the format come by: 0.0 and -0.0 too, whose codes are 0 and 128. And "
    "which values that come out of `from_fp8` are no ordinary numbers, and what does the handout "
    "say of them?",
)
def fp8_round_trip(answers: Answers, truth: Files) -> Verdict:
    """Every value of a format goes back to its own code; infinities saturate, NaN stays NaN."""
    expected, values = _truth(truth, "again"), _truth(truth, "decoded")
    return first_failure(
        _codes_agree(
            answer, expected[answer.call.id], values[f"decoded/{answer.call.args['kind']}"]
        )
        for answer in answers.under("again")
    )


# ---------------------------------------------------------------- groups, and bytes


@check(
    points=0.5,
    topics=["groups"],
    bonus=True,
    compare=beside("groups"),
    think="Take one group: its smallest number is code 0, its largest the last code. Which "
    "numbers form a group, and what becomes of tokens that do not fill one yet?",
)
def groups_right(answers: Answers, truth: Files) -> Verdict:
    """Groups with a scale and a zero point come back right, along tokens and along channels."""
    return _arrays_agree(answers, truth, "groups", RTOL, STEP)


@check(
    points=0.5,
    topics=["bytes"],
    bonus=True,
    compare=numbers_of("bytes", BYTES, whole=True),
    think="Count for one layer's keys: how many codes, how many scales, how many zero points, and "
    "how many numbers still wait in 16 bits?",
)
def bytes_right(answers: Answers, truth: Files) -> Verdict:
    """A cache is sized to the byte, with every scale, zero point and waiting token in it."""
    return numbers_agree(answers.under("bytes"), truth.json(BYTES), unit="bytes")


# ---------------------------------------------------------------- what a model makes of it


@check(
    points=0.25,
    topics=["seen"],
    bonus=True,
    compare=beside("seen"),
    think="Which of your functions does each scheme name, and with which arguments?",
)
def schemes_right(answers: Answers, truth: Files) -> Verdict:
    """For every scheme, attention sees the numbers that come back from it."""
    expected = _truth(truth, "seen")
    return first_failure(
        _array_agrees(answer, expected, _room(answer), STEP) for answer in answers.under("seen")
    )


def _room(answer: Answer) -> float:
    plain = answer.call.args["scheme"]["format"] == "16 bits"
    return RTOL_16_BITS if plain else RTOL


@check(
    points=0.5,
    topics=["perplexity"],
    bonus=True,
    compare=numbers_of("perplexity", PERPLEXITIES, whole=False),
    think="First with 16 bits for both: is that one right? Then keys alone, then values alone. "
    "Perplexity is the exponential of the mean loss over all predicted tokens.",
)
def perplexity_right(answers: Answers, truth: Files) -> Verdict:
    """The small model's perplexity is right under schemes for keys, for values, and for both."""
    return numbers_agree(answers.under("perplexity"), truth.json(PERPLEXITIES), rel=PERPLEXITY_RTOL)


@check(
    points=0.25,
    topics=["profiles"],
    bonus=True,
    compare=beside("profiles"),
    think="A channel is one number of one head, over all tokens. Which of the three figures is "
    "off, and does it depend on the size of the numbers?",
)
def outliers_told(answers: Answers, truth: Files) -> Verdict:
    """Outlier channels are told, and so is which way of grouping they hurt."""
    return _arrays_agree(answers, truth, "profiles", PROFILE_RTOL)


@check(
    points=0.25,
    topics=["model"],
    bonus=True,
    compare=beside("model"),
    think="Collect what the two hooks are given, layer by layer, and profile each.",
)
def model_measured(answers: Answers, truth: Files) -> Verdict:
    """The small model's own keys and values are profiled, layer by layer."""
    return _arrays_agree(answers, truth, "model", PROFILE_RTOL)


# ---------------------------------------------------------------- comparing arrays


def _truth(truth: Files, topic: str) -> dict[str, np.ndarray]:
    """Return the right arrays of one topic, by call id."""
    return truth.arrays(f"x1_quantized_cache/{topic}.npz")


def _arrays_agree(
    answers: Answers, truth: Files, topic: str, rel: float = 0.0, absolute: float = 0.0
) -> Verdict:
    expected = _truth(truth, topic)
    return first_failure(
        _array_agrees(answer, expected, rel, absolute) for answer in answers.under(topic)
    )


def _array_agrees(
    answer: Answer, expected: Mapping[str, np.ndarray], rel: float, absolute: float
) -> Verdict:
    if not isinstance(answer.value, np.ndarray):
        return _no_array(answer)
    return array_agrees(answer, expected[answer.call.id], rel, what="number", absolute=absolute)


def _no_array(answer: Answer) -> Verdict:
    return failed(
        f"{kind_of(answer.value)}; an array was expected.",
        remark=f"`{answer.call.function}` returns something other than an array",
        asked=str(answer.call),
    )


def _values_agree(answer: Answer, right: np.ndarray) -> Verdict:
    """Compare decoded values: NaN with NaN, infinity with infinity, and zeros with their sign."""
    formed = _form_agrees(answer, right)
    if not formed.passed:
        return formed
    value = np.asarray(answer.value)
    same = np.where(np.isnan(right), np.isnan(value), value == right)
    signed = np.isnan(right) | (np.signbit(value) == np.signbit(right))
    codes = [f"code {code} ({code:#04x})" for code in answer.call.args["codes"]]
    return _all_right(answer, same & signed, [f"{number:g}" for number in right], codes)


def _codes_agree(answer: Answer, right: np.ndarray, inputs: np.ndarray) -> Verdict:
    """Compare codes of a round trip; the truth of a NaN's code is -1, and any NaN's is right."""
    formed = _form_agrees(answer, right_array(right, right.shape))
    if not formed.passed:
        return formed
    value = np.asarray(answer.value)
    of_nan = np.isin(value, NAN_CODES[str(answer.call.args["kind"])])
    told = ["a code of NaN" if code < 0 else f"{code:g}" for code in right]
    return _all_right(answer, np.where(right < 0, of_nan, value == right), told, _named(inputs))


def _codes_of_inputs(answers: Answers, truth: Files, topic: str) -> Verdict:
    """Compare codes exactly; the first wrong one is told by the number that it was asked for."""
    expected, inputs = _truth(truth, topic), _truth(truth, "inputs")

    def verdict(answer: Answer) -> Verdict:
        right = expected[answer.call.id]
        found = _array_agrees(answer, expected, 0.0, 0.0)
        if found.passed or getattr(answer.value, "shape", None) != right.shape:
            return found  # its form is wrong
        told = [f"{code:g}" for code in right]
        return _all_right(answer, answer.value == right, told, _named(inputs[answer.call.id]))

    return first_failure(verdict(answer) for answer in answers.under(topic))


def _named(inputs: np.ndarray) -> list[str]:
    return [f"the input {float(number)!r}" for number in inputs]


def _form_agrees(answer: Answer, right: np.ndarray) -> Verdict:
    """Judge the form of an answer that holds one number for each of the 256 codes."""
    if right.shape != (N_CODES,):
        raise TruthError(f"{right.shape} where a number for each code belongs")
    if not isinstance(answer.value, np.ndarray):
        return _no_array(answer)
    if answer.value.shape != right.shape:
        told = f"An array of shape {answer.value.shape}; {right.shape} was expected."
        return failed(told, asked=_asked(answer))
    return passed()


def _all_right(
    answer: Answer, right: np.ndarray, told: Sequence[str], inputs: Sequence[str]
) -> Verdict:
    """Judge an answer by which of its numbers are right; `inputs` name what each was asked for."""
    if right.all():
        return passed()
    first = int(np.argmin(right))
    many = f"the {N_CODES} codes of a format" if len(right) == N_CODES else f"{len(right)} values"
    return failed(
        f"First at {inputs[first]}: {answer.value[first]:g} where {told[first]} was expected.",
        f"Off in {int((~right).sum())} of {many}.",
        asked=_asked(answer),
    )


def _asked(answer: Answer) -> str:
    if isinstance(answer.call.args.get("x"), Tree):
        return named(answer.call)
    return f"{answer.call.function}(..., kind={answer.call.args['kind']!r})"


CHECKS = (
    int_codes_right,
    int_round_trip,
    fp8_values_right,
    fp8_rounding,
    fp8_edges,
    fp8_round_trip,
    groups_right,
    bytes_right,
    schemes_right,
    perplexity_right,
    outliers_told,
    model_measured,
    *understanding_checks("x1_quantized_cache", bonus=True),
)
