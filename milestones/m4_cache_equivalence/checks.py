"""The checks of milestone 4: logits against truth, and what a cache must and must not do.

The bound on logits: sums here have fewer than 100 float64 terms of order 1 through at most 3
layers, so two right computations differ by some 1e-15 to 1e-12, while the smallest of the named
mistakes moves a logit by more than 1e-6. RTOL and ATOL of `depart` lie between the two.
"""

from dataclasses import replace

import numpy as np

from milestones.compare import form_agrees, numbers_agree, numbers_beside, right_array
from milestones.compared import Compared
from milestones.m4_cache_equivalence.depart import logits_beside, same, sequence_of
from milestones.spec import Answer, Answers, Files, ReadTable, Verdict, check, failed, passed
from milestones.understanding import understanding_checks

MOVED = 1e-6  # a changed token moves a logit by far more (the draw sees to 1e-3), rounding by less
NEARLY_RIGHT = 5e-7  # of the largest logit: single precision is nearer, named mistakes are far off
NEARLY = (
    "That is right but for the last digits: is something float32, or the 1e-6 of `norm` missing? "
    "Everything is float64 here."
)
COUNTS = "m4_cache_equivalence/counts.json"


def counts_beside(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
    """Put the counts beside the right ones, those with a cache apart from those without."""
    asked = list(answers.under("counts"))
    return [
        numbers_beside([a for a in asked if a.call.args["use_cache"] is used], truth.json(COUNTS))
        for used in (True, False)
    ]


@check(
    points=2,
    topics=["whole"],
    compare=logits_beside("whole"),
    think="Take the one-token sequence first: attention is the value itself there, so only the "
    "rest can be off. Then two tokens.",
)
def full_logits_right(answers: Answers, truth: Files) -> Verdict:
    """Without a cache, the logits of whole sequences are right, from one token to the longest."""
    return _logits_agree(answers, truth, "whole")


@check(
    points=1.5,
    topics=["order"],
    think="Which keys may a query at position t see: those of 0 to t, or more?",
)
def only_the_past_counts(answers: Answers, truth: Files) -> Verdict:
    """A token's logits depend on the tokens up to it, and on none that come later."""
    expected = _truth(truth, "order")
    asked = {answer.call.id.split("/")[1]: answer for answer in answers.under("order")}
    for answer in asked.values():
        formed = _form_agrees(answer, expected[answer.call.id])
        if not formed.passed:
            return formed
    whole, start, new_last, new_first = (
        asked[name].value for name in ("whole", "start", "new_last", "new_first")
    )
    if not (same(whole[: len(start)], start) and same(whole[:-1], new_last[:-1])):
        return failed(
            "It differs from the same call with another last token before that token, or a prefix "
            "has other logits alone than inside the sequence.",
            remark="logits of earlier tokens change with the tokens that come later",
            asked=str(asked["new_last"].call),
        )
    if not (_moved(whole[-1], new_last[-1]) and _moved(whole[-1], new_first[-1])):
        return failed(
            "Its last logits are the same as with another first token.",
            remark="the last logits do not change with an earlier token, or with their own",
            asked=str(asked["new_first"].call),
        )
    return passed()


@check(
    points=1.5,
    topics=["large"],
    compare=logits_beside("large"),
    think="What does exp do with a score of 1,000? What may be taken off every score of a row "
    "without changing the weights?",
)
def large_scores(answers: Answers, truth: Files) -> Verdict:
    """Attention scores in the thousands overflow nowhere: logits stay finite and right."""
    return _logits_agree(answers, truth, "large")


@check(
    points=2.5,
    topics=["steps"],
    compare=logits_beside("steps"),
    think="Compare each step with the same row of `full_logits`: position, keys and values of "
    "all layers, the new token among them.",
)
def every_step(answers: Answers, truth: Files) -> Verdict:
    """Decoded one token at a time, each step's logits equal those of the whole sequence."""
    return _logits_agree(answers, truth, "steps")


@check(
    points=2,
    topics=["grouped"],
    compare=logits_beside("grouped"),
    think="Write down which KV head each query head reads: head h reads h // (n_heads / "
    "n_kv_heads).",
)
def grouped_heads(answers: Answers, truth: Files) -> Verdict:
    """Where query heads share KV heads, each uses the right one, with and without a cache."""
    return _logits_agree(answers, truth, "grouped")


@check(
    points=2,
    topics=["swapped"],
    compare=logits_beside("swapped"),
    think="What is stored, and what is computed again? Keys and values of old tokens are stored.",
)
def old_entries_stay(answers: Answers, truth: Files) -> Verdict:
    """When parameters change between two steps, old keys and values stay as they were."""
    return _logits_agree(answers, truth, "swapped")


@check(
    points=1.5,
    topics=["apart"],
    compare=logits_beside("apart"),
    think="Where do keys and values live? Each call of `new_cache` makes a place of its own.",
)
def caches_are_apart(answers: Answers, truth: Files) -> Verdict:
    """Two sequences decoded in turn do not disturb each other, and a new cache starts empty."""
    return _logits_agree(answers, truth, "apart")


@check(
    points=1,
    topics=["counts"],
    compare=counts_beside,
    think="Write the steps down for 4 tokens: how many keys does a layer compute in each, with "
    "and without a cache?",
)
def projections_counted(answers: Answers, truth: Files) -> Verdict:
    """For 16 tokens a layer computes 16 keys with a cache and 136 without; so for any length."""
    return numbers_agree(answers.under("counts"), truth.json(COUNTS))


# ---------------------------------------------------------------- comparing logits


def _truth(truth: Files, topic: str) -> dict[str, np.ndarray]:
    """Return the right logits of one topic, by call id."""
    return truth.arrays(f"m4_cache_equivalence/logits/{topic}.npz")


def _logits_agree(answers: Answers, truth: Files, topic: str) -> Verdict:
    """Compare logits by call id; say where the first wrong ones depart, and in what way."""
    expected = _truth(truth, topic)
    for answer in answers.under(topic):
        if answer.call.returns == "kept":  # a new cache: nobody looks into it
            continue
        right = expected[answer.call.id]
        verdict = _form_agrees(answer, right)
        if not verdict.passed:
            return verdict
        if not same(np.asarray(answer.value), right):
            told = sequence_of(answer, answers, expected).told()
            verdict = failed(told, _where(answer), asked=str(answer.call))
            return replace(verdict, think=NEARLY) if _nearly(answer.value, right) else verdict
    return passed()


def _nearly(value: np.ndarray, right: np.ndarray) -> bool:
    return bool(np.abs(value - right).max() <= NEARLY_RIGHT * np.abs(right).max())


def _form_agrees(answer: Answer, expected: np.ndarray) -> Verdict:
    tokens = answer.call.args.get("tokens")
    right_array(
        expected, expected.shape[-1:] if tokens is None else (len(tokens), *expected.shape[-1:])
    )
    form = "(number of tokens, vocabulary)" if expected.ndim == 2 else "(vocabulary,)"
    return form_agrees(answer, expected.shape, f"another shape than {form}", "logits")


def _where(answer: Answer) -> str:
    name = f"`{answer.call.function}`"
    if answer.call.function == "full_logits":
        return f"the logits of {name} are off"
    if answer.call.id.endswith("/0"):
        return f"{name} is off at the first token of a sequence, where the cache is empty"
    return f"{name} is right for the first token and off later"


def _moved(a: np.ndarray, b: np.ndarray) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        return bool((np.abs(a - b) > MOVED).any())


CHECKS = (
    full_logits_right,
    only_the_past_counts,
    large_scores,
    every_step,
    grouped_heads,
    old_entries_stay,
    caches_are_apart,
    projections_counted,
    *understanding_checks("m4_cache_equivalence"),
)
