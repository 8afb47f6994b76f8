"""The checks of milestone 3. Answers are whole numbers, so every comparison is equality.

That is fair because no question lies within 1e-6 (relative) of a boundary between two answers,
and double precision computes each quotient to within 1e-12.
"""

from collections.abc import Iterator
from typing import Any

from milestones.compare import how_far, is_number, kind_of, numbers_beside, right_number
from milestones.compared import Compared
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

TRUTH = "m3_concurrency/answers.json"
CAPACITIES = "m3_concurrency/capacities.json"
WHOLE = "Requests and tokens come whole: return a whole number, rounded down."
NEGATIVE = "Nothing can hold fewer than no requests: the answer is never below 0."
A_MACHINE = (
    "Three steps: the bytes that may be used, less the weights, over the bytes of one request. "
    "Work the first machine out on paper, and compare each step with yours."
)


def _beside(topic: str) -> Compare:
    """Put answers beside the right ones, which are quotients rounded down."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        by_function: dict[str, list[Answer]] = {}
        for answer in answers.under(topic):
            by_function.setdefault(answer.call.function, []).append(answer)
        expected = truth.json(TRUTH)
        return [
            numbers_beside(asked, expected, whole=True, name=f"`{function}`")
            for function, asked in by_function.items()
        ]

    return compare


@check(
    points=2.5,
    topics=["known"],
    compare=_beside("known"),
    think=A_MACHINE,
)
def known_machine(answers: Answers, truth: Files) -> Verdict:
    """80 GB with a 70B model in INT4 hold 3 requests of 32,768 tokens, 7 in FP8, 0 with full MHA.

    Two further questions, on short contexts and on Llama-3-8B (53 requests of 8,192 tokens), tell
    apart the mistakes that agree on those three.
    """
    return _agree(answers.under("known"), truth)


@check(
    points=2.5,
    topics=["any_machine"],
    compare=_beside("any_machine"),
    think=A_MACHINE,
)
def any_machine(answers: Answers, truth: Files) -> Verdict:
    """The number of requests is right for any GPU, model, weight and cache dtype and context."""
    return _agree(answers.under("any_machine"), truth)


@check(
    points=2,
    topics=["fraction"],
    compare=_beside("fraction"),
    think="Are the answers right with 0.92 and off here? How much of the memory may be used at all "
    "is what `memory_fraction` says, in both functions.",
)
def memory_fraction(answers: Answers, truth: Files) -> Verdict:
    """Both functions use `memory_fraction` of the memory: other values than 0.92 count too."""
    return _agree(answers.under("fraction"), truth)


@check(
    points=2,
    topics=["nothing_fits"],
    compare=_beside("nothing_fits"),
    think="Subtract the weights first: what is left may be less than nothing, or than one request.",
)
def nothing_fits(answers: Answers, truth: Files) -> Verdict:
    """Where the weights alone, or the first request, do not fit, the answer is 0."""
    return _agree(answers.under("nothing_fits"), truth)


@check(
    points=3,
    topics=["longest"],
    compare=_beside("longest"),
    think="`n_requests` share what the weights leave: how many tokens does each get?",
)
def longest_context(answers: Answers, truth: Files) -> Verdict:
    """`max_context_len` gives the longest context that a number of requests can have at once."""
    return _agree(answers.under("longest"), truth)


@check(
    points=2,
    topics=["trade"],
    compare=_beside("trade"),
    think="N requests of T tokens hold N x T tokens: the most that fit, and not one more.",
)
def trade_off(answers: Answers, truth: Files) -> Verdict:
    """Requests times context stay within the tokens a machine holds, with no room for one more."""
    for machine in truth.json(CAPACITIES):
        asked = [answers.by_id[call_id] for call_id in machine["calls"]]
        for answer in asked:
            verdict = _whole(answer)
            if not verdict.passed:
                return verdict
        tokens = right_number(machine["tokens"])
        wrong = [(answer, told) for answer in asked if (told := _misuse(answer, tokens))]
        if wrong:
            first, told = wrong[0]
            return failed(told, "" if _consistent(asked) else DISAGREE, asked=_place(first))
    return passed()


CHECKS = (
    known_machine,
    any_machine,
    memory_fraction,
    nothing_fits,
    longest_context,
    trade_off,
    *understanding_checks("m3_concurrency"),
)


# ---------------------------------------------------------------- one answer


def _agree(answers: Iterator[Answer], truth: Files) -> Verdict:
    expected = truth.json(TRUTH)
    for answer in answers:
        verdict = _whole(answer)
        if not verdict.passed:
            return verdict
        right = right_number(expected[answer.call.id])
        if answer.value != right:
            told = how_far(answer.value, right, UNITS[answer.call.function])
            return failed(f"{told}.", asked=_place(answer))
    return passed()


def _whole(answer: Answer) -> Verdict:
    value: Any = answer.value
    if not is_number(value) or (isinstance(value, float) and not value.is_integer()):
        return failed(f"{kind_of(value)}.", WHOLE, asked=_place(answer))
    if value < 0:
        return failed(f"{kind_of(value)}.", NEGATIVE, asked=_place(answer))
    return passed()


def _place(answer: Answer) -> str:
    """Name a question by its function and case; all its arguments would fill three lines."""
    args = answer.call.args
    shown = [
        f"{name}={args[name]}"
        for name in ("gpu_memory_gb", "params_b", "weight_bits", "kv_bits", *ASKED)
        if name in args
    ]
    return f"{answer.call.function}({', '.join(shown)}, ...)"


# ---------------------------------------------------------------- one machine, many questions

ASKED = ("context_len", "n_requests", "memory_fraction")
UNITS = {"max_concurrent_requests": "requests", "max_context_len": "tokens"}
DISAGREE = (
    "The two functions disagree: N requests fit at T tokens exactly when T tokens fit for "
    "N requests."
)


def _given(answer: Answer) -> int:
    """Return what was given: a context for a number of requests, or the other way round."""
    args = answer.call.args
    given: int = args["context_len"] if "context_len" in args else args["n_requests"]
    return given


def _counted(answer: Answer) -> str:
    unit = UNITS[answer.call.function]
    return f"{answer.value:,.0f} {unit.removesuffix('s') if answer.value == 1 else unit}"


def _misuse(answer: Answer, capacity: float) -> str:
    """Say how an answer misuses the tokens a machine holds; nothing where it does not."""
    given = _given(answer)
    used = answer.value * given
    if used > capacity:
        return (
            f"{_counted(answer)}: that is {used:,.0f} tokens in "
            f"all, and the machine holds {capacity:,.0f}."
        )
    if used + given <= capacity:
        return (
            f"{_counted(answer)}: that is {used:,.0f} tokens in "
            f"all, and of the machine's {capacity:,.0f} another {given:,} would be free."
        )
    return ""


def _consistent(answers: list[Answer]) -> bool:
    """Tell whether some one capacity explains all answers: value * given <= it < one more."""
    low = max(answer.value * _given(answer) for answer in answers)
    high = min((answer.value + 1) * _given(answer) for answer in answers)
    return bool(low < high)
