"""The checks of lab x4: batches, reservations, schedules and entropies against truth.

Whole numbers are compared exactly. Real ones are short sums and quotients in double precision,
which two right computations agree on to 1e-12: RTOL leaves room for the order of sums, and the
smallest of the named mistakes moves an answer by more than 1e-3. CACHE_RTOL is wider, since keys
and values are computed in single precision: another order of its sums moves a few of a hundred
float16 roundings, and with them an entropy by less than a thousandth.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from milestones.compare import (
    array_agrees,
    first_failure,
    how_far,
    is_number,
    kind_of,
    named,
    numbers_agree,
    numbers_beside,
    right_array,
    right_number,
)
from milestones.compared import Compared, of_cases
from milestones.spec import (
    Answer,
    Answers,
    Compare,
    Files,
    ReadTable,
    Verdict,
    check,
    failed,
    passed,
)
from milestones.understanding import understanding_checks

RTOL = 1e-6
CACHE_RTOL = 5e-3
NUMBERS = "x4_ceiling/numbers.json"
BATCHES = ("cache_batch", "compute_batch", "memory_batch")
FIRST = ("cache", "compute", "memory")


# ---------------------------------------------------------------- side by side


def _numbers(topic: str, *, whole: bool = False) -> Compare:
    """Put the numbers of a topic beside the right ones."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        return [numbers_beside(answers.under(topic), truth.json(NUMBERS), whole=whole)]

    return compare


def _arrays(topic: str) -> Compare:
    """Put the arrays of a topic beside the right ones, all of its cases in one, in rows of two."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        right = _right(truth, topic)
        pairs = [(answer.value, right[answer.call.id]) for answer in answers.under(topic)]
        if any(not _has_shape_of(value, expected) for value, expected in pairs):
            return []
        value, expected = (
            np.concatenate([_in_twos(part) for part in parts]) for parts in zip(*pairs, strict=True)
        )
        return [Compared(value, expected, rows=True)]

    return compare


def _has_shape_of(value: Any, expected: np.ndarray) -> bool:
    return isinstance(value, np.ndarray) and value.shape == expected.shape


def _in_twos(array: np.ndarray) -> np.ndarray:
    """Return an array as rows of two: steps as they are, two planes or entropies side by side."""
    turned = array if array.shape[-1] == 2 and array.ndim == 2 else array.T
    return np.asarray(turned, dtype=float).reshape(-1, 2)


def _batches_beside(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
    """Put the batches beside the right ones, one kind after the other."""
    expected = truth.json(NUMBERS)
    return [
        of_cases(
            (
                (_key(answer, key), right_number(expected[answer.call.id][key]), _asked(answer))
                for answer in answers.under("ceilings")
            ),
            whole=key == "memory_batch",
            name=f"`{key}`",
        )
        for key in BATCHES
    ]


def _asked(answer: Answer) -> dict[str, Any]:
    """Return the numbers of a question about a machine, those of the model and GPU among them."""
    args = answer.call.args
    flat = {**args["model"], **args["gpu"], **args}
    return {name: value for name, value in flat.items() if is_number(value)}


# ---------------------------------------------------------------- the checks


@check(
    points=0.5,
    topics=["ceilings"],
    reads=BATCHES,
    bonus=True,
    compare=_batches_beside,
    think="Write three times of one step down: reading the weights (once), reading the caches (of "
    "every request), computing (for every request). At which batch is each of the last two equal "
    "to the first?",
)
def ceiling_batches(answers: Answers, truth: Files) -> Verdict:
    """`ceilings` gives the batches at which the cache, the arithmetic and the memory take over."""
    expected = truth.json(NUMBERS)
    return first_failure(
        _batch_agrees(answer, key, expected[answer.call.id][key])
        for answer in answers.under("ceilings")
        for key in BATCHES
    )


@check(
    points=0.25,
    topics=["ceilings"],
    reads=("first",),
    bonus=True,
    think="Let the batch grow from 1: which of the three batches is reached first?",
)
def first_ceiling_named(answers: Answers, truth: Files) -> Verdict:
    """`ceilings` names the limit that a growing batch meets first: cache, compute or memory."""
    expected = truth.json(NUMBERS)
    for answer in answers.under("ceilings"):
        right, said = expected[answer.call.id]["first"], _key(answer, "first")
        if said not in FIRST:
            told = f"`first` is {kind_of(said)}; one of {', '.join(FIRST)} was expected."
            return failed(told, NO_DICT, asked=named(answer.call))
        if said != right:
            return failed(f"{said!r}; {right!r} comes first.", asked=named(answer.call))
    return passed()


@check(
    points=0.5,
    topics=["reserved"],
    bonus=True,
    compare=_numbers("reserved", whole=True),
    think="What does each policy know of a request when it gives out memory: the longest one "
    "allowed, its output, or only the tokens it has so far?",
)
def reservations(answers: Answers, truth: Files) -> Verdict:
    """`reserved_tokens` counts the memory that each of the four policies keeps for a request."""
    return numbers_agree(answers.under("reserved"), truth.json(NUMBERS), unit="tokens")


@check(
    points=0.5,
    topics=["waste"],
    bonus=True,
    compare=_numbers("waste"),
    think="Add up the tokens held and the tokens reserved, after each output token of each "
    "request, and divide once at the end.",
)
def waste_measured(answers: Answers, truth: Files) -> Verdict:
    """`waste` is the share of the reserved memory that holds no token, over whole requests."""
    return numbers_agree(answers.under("waste"), truth.json(NUMBERS), rel=RTOL)


@check(
    points=1,
    topics=["schedule"],
    bonus=True,
    compare=_arrays("schedule"),
    think="Play the first case with pencil and paper: who runs, who waits, and whose memory is "
    "free again after the step that made its last token?",
)
def schedules(answers: Answers, truth: Files) -> Verdict:
    """`schedule` gives batch and tokens held of every step until the last request has ended."""
    return _arrays_agree(answers, truth, "schedule", 0.0, "step and column")


@check(
    points=0.5,
    topics=["prefix"],
    bonus=True,
    compare=_numbers("prefix", whole=True),
    think="When may two requests share a block? Its keys and values must be the same, so all "
    "tokens up to its end must be; and nobody may write into it any more.",
)
def prefix_shared(answers: Answers, truth: Files) -> Verdict:
    """`blocks_held` counts the blocks of a list of prompts, with a prefix cache and without."""
    return numbers_agree(answers.under("prefix"), truth.json(NUMBERS), unit="blocks")


@check(
    points=0.5,
    topics=["entropy"],
    bonus=True,
    compare=_numbers("entropy"),
    think="Eight different values, equally often, take 3 bits each. What does yours say to "
    "[0, 1, 2, 3, 4, 5, 6, 7]?",
)
def entropy_right(answers: Answers, truth: Files) -> Verdict:
    """`entropy_bits` gives the bits per byte that no coder of single bytes can go below."""
    return numbers_agree(answers.under("entropy"), truth.json(NUMBERS), rel=RTOL, unit="bits")


@check(
    points=0.25,
    topics=["planes"],
    bonus=True,
    compare=_arrays("planes"),
    think="Write 1.0 down in bits: 0 01111 0000000000 in float16, so its bytes are 0x3C and 0x00; "
    "0 01111111 0000000 in bfloat16, so 0x3F and 0x80.",
)
def planes_split(answers: Answers, truth: Files) -> Verdict:
    """`byte_planes` splits 16-bit numbers into their high and their low bytes, in both formats."""
    return _arrays_agree(answers, truth, "planes", 0.0, "plane and number")


@check(
    points=0.25,
    topics=["cache"],
    bonus=True,
    compare=_arrays("cache"),
    think="Take keys or values of that one layer, as the cache holds them (keys are turned "
    "already), round them to float16, split, and measure each plane.",
)
def cache_measured(answers: Answers, truth: Files) -> Verdict:
    """`cache_entropy` measures the bytes of a real cache: one layer's keys or values."""
    return _arrays_agree(answers, truth, "cache", CACHE_RTOL, "plane")


CHECKS = (
    ceiling_batches,
    first_ceiling_named,
    reservations,
    waste_measured,
    schedules,
    prefix_shared,
    entropy_right,
    planes_split,
    cache_measured,
    *understanding_checks("x4_ceiling", bonus=True),
)


# ---------------------------------------------------------------- one answer

NO_DICT = (
    "`ceilings` returns a dict with `cache_batch`, `compute_batch`, `memory_batch` and `first`."
)


def _key(answer: Answer, key: str) -> Any:
    """Return one value of an answer that should be a dict; None where it is not there."""
    return answer.value.get(key) if isinstance(answer.value, dict) else None


def _batch_agrees(answer: Answer, key: str, expected: Any) -> Verdict:
    right, value = right_number(expected), _key(answer, key)
    if not is_number(value):
        came = kind_of(answer.value if not isinstance(answer.value, dict) else value)
        told = f"`{key}`: {came}; one number was expected."
        return failed(told, NO_DICT, asked=named(answer.call))
    bound = 0.0 if key == "memory_batch" else RTOL * abs(right)  # requests come whole
    if not abs(value - right) <= bound:  # NaN is never near
        return failed(f"`{key}`: {how_far(value, right, 'requests')}.", asked=named(answer.call))
    return passed()


def _right(truth: Files, topic: str) -> dict[str, np.ndarray]:
    return truth.arrays(f"x4_ceiling/{topic}.npz")


def _arrays_agree(answers: Answers, truth: Files, topic: str, rel: float, what: str) -> Verdict:
    """Compare the arrays of a topic with the right ones by call id."""
    return first_failure(_each_array(answers.under(topic), _right(truth, topic), rel, what))


def _each_array(
    answers: Iterable[Answer], right: dict[str, np.ndarray], rel: float, what: str
) -> Iterator[Verdict]:
    for answer in answers:
        expected = right_array(right[answer.call.id], right[answer.call.id].shape)
        if not isinstance(answer.value, np.ndarray):
            yield failed(f"{kind_of(answer.value)}; an array was expected.", asked=str(answer.call))
        else:
            yield array_agrees(answer, expected, rel, what)
