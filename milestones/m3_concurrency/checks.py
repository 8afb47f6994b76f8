"""The checks of milestone 3. Answers are whole numbers, so every comparison is equality.

That is fair because no question lies within 1e-6 (relative) of a boundary between two answers,
and double precision computes each quotient to within 1e-12.
"""

from collections.abc import Iterator
from typing import Any

from milestones.compare import how_far, is_number, kind_of, right_number
from milestones.spec import Answer, Answers, Files, Verdict, check, failed, passed
from milestones.understanding import understanding_checks

TRUTH = "m3_concurrency/answers.json"
CAPACITIES = "m3_concurrency/capacities.json"
WHOLE = "Requests and tokens come whole: return a whole number, rounded down."
NEGATIVE = "Nothing can hold fewer than no requests: the answer is never below 0."


@check(points=2.5, topics=["known"])
def known_machine(answers: Answers, truth: Files) -> Verdict:
    """80 GB with a 70B model in INT4 hold 3 requests of 32,768 tokens, 7 in FP8, 0 with full MHA.

    Two further questions, on short contexts and on Llama-3-8B (53 requests of 8,192 tokens), tell
    apart the mistakes that agree on those three.
    """
    return _agree(answers.under("known"), truth)


@check(points=2.5, topics=["any_machine"])
def any_machine(answers: Answers, truth: Files) -> Verdict:
    """The number of requests is right for any GPU, model, weight and cache dtype and context."""
    return _agree(answers.under("any_machine"), truth)


@check(points=2, topics=["fraction"])
def memory_fraction(answers: Answers, truth: Files) -> Verdict:
    """Both functions use `memory_fraction` of the memory: other values than 0.92 count too."""
    return _agree(answers.under("fraction"), truth)


@check(points=2, topics=["nothing_fits"])
def nothing_fits(answers: Answers, truth: Files) -> Verdict:
    """Where the weights alone, or the first request, do not fit, the answer is 0."""
    return _agree(answers.under("nothing_fits"), truth)


@check(points=3, topics=["longest"])
def longest_context(answers: Answers, truth: Files) -> Verdict:
    """`max_context_len` gives the longest context that a number of requests can have at once."""
    return _agree(answers.under("longest"), truth)


@check(points=2, topics=["trade"])
def trade_off(answers: Answers, truth: Files) -> Verdict:
    """Requests times context stay within the tokens a machine holds, with no room for one more."""
    for machine in truth.json(CAPACITIES):
        asked = [answers.by_id[call_id] for call_id in machine["calls"]]
        for answer in asked:
            verdict = _whole(answer)
            if not verdict.passed:
                return verdict
        wrong = [w for answer in asked if (w := _misuse(answer, right_number(machine["tokens"])))]
        if wrong:
            return failed(wrong[0], "" if _consistent(asked) else DISAGREE)
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
            return failed(f"{_place(answer)} returned {how_far(answer.value, right)}.")
    return passed()


def _whole(answer: Answer) -> Verdict:
    value: Any = answer.value
    if not is_number(value) or (isinstance(value, float) and not value.is_integer()):
        return failed(f"{_place(answer)} returned {kind_of(value)}.", WHOLE)
    if value < 0:
        return failed(f"{_place(answer)} returned {kind_of(value)}.", NEGATIVE)
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
DISAGREE = (
    "The two functions disagree: N requests fit at T tokens exactly when T tokens fit for "
    "N requests."
)


def _given(answer: Answer) -> int:
    """Return what was given: a context for a number of requests, or the other way round."""
    args = answer.call.args
    given: int = args["context_len"] if "context_len" in args else args["n_requests"]
    return given


def _misuse(answer: Answer, capacity: float) -> str:
    """Say how an answer misuses the tokens a machine holds; nothing where it does not."""
    given = _given(answer)
    used = answer.value * given
    if used > capacity:
        return (
            f"{_place(answer)} returned {answer.value:,.0f}: that is {used:,.0f} tokens in all, "
            f"and the machine holds {capacity:,.0f}."
        )
    if used + given <= capacity:
        return (
            f"{_place(answer)} returned {answer.value:,.0f}: that is {used:,.0f} tokens in all, "
            f"and of the machine's {capacity:,.0f} another {given:,} would be free."
        )
    return ""


def _consistent(answers: list[Answer]) -> bool:
    """Tell whether some one capacity explains all answers: value * given <= it < one more."""
    low = max(answer.value * _given(answer) for answer in answers)
    high = min((answer.value + 1) * _given(answer) for answer in answers)
    return bool(low < high)
