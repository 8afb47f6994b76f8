"""The checks of lab x2: what is kept, what attention sees, and what is gone for good.

The bound on logits is that of milestone 4 (`depart`): float64 sums of fewer than 100 terms of order
1 through at most 2 layers differ by 1e-15 to 1e-12 between two right programs, and scores that
decide an eviction lie further apart than 1e-6, while a wrong entry moves a logit by far more.

`decode` calls the other functions. Where one of those is wrong by itself, a failing check of
`decode` says to mend that one first: what its own numbers look like would lead astray.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from milestones.compare import (
    array_agrees,
    first_failure,
    form_agrees,
    right_array,
)
from milestones.compared import Compared
from milestones.m4_cache_equivalence.depart import ATOL, RTOL, Sequenced, same
from milestones.spec import (
    Answer,
    Answers,
    Check,
    Compare,
    Files,
    ReadTable,
    Verdict,
    check,
    failed,
    passed,
)
from milestones.understanding import understanding_checks

SLUG = "x2_eviction"
MOVED = 1e-6  # a kept token moves a logit by far more (the draw sees to 1e-3), rounding by less
SHOWN = 12  # entries of a kept set that a person still reads
SINGLE = 1e-5  # of the largest number: float32 rounds by 6e-8, and some ten roundings follow
TO_SINGLE_PRECISION = (
    "These numbers are right but for their last digits, as after a stay in float32: do your "
    "arrays, or what you gather the results in, keep the precision of the model's?"
)


def beside(topic: str) -> Compare:
    """Put the arrays of a topic beside the right ones; nothing where an answer is no such array."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        return [
            Compared(np.atleast_2d(value), np.atleast_2d(right))
            for value, right in _pairs(answers, truth, topic)
        ]

    return compare


def flat_beside(topic: str) -> Compare:
    """Put the numbers of a topic's arrays beside the right ones, as one column."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        pairs = _pairs(answers, truth, topic)
        if not pairs or any(value.shape != right.shape for value, right in pairs):
            return []
        flat = [(value.ravel(), right.ravel()) for value, right in pairs]
        values, wanted = (np.concatenate(column) for column in zip(*flat, strict=True))
        return [Compared(values, wanted, numbers="numbers")]

    return compare


def _pairs(answers: Answers, truth: Files, topic: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the answers of a topic and the right ones, if all are arrays of as many axes."""
    right = _truth(truth, topic)
    pairs = [(answer.value, right[answer.call.id]) for answer in answers.under(topic)]
    fit = all(isinstance(value, np.ndarray) and value.ndim == one.ndim for value, one in pairs)
    return pairs if fit else []


@check(
    points=0.5,
    topics=["recent"],
    bonus=True,
    compare=beside("recent"),
    think="Of 10 entries with room for 6 and 2 sinks: 0 and 1, then the last four. What is left "
    "for the newest when the sinks have taken theirs?",
)
def first_and_last_kept(answers: Answers, truth: Files) -> Verdict:
    """The entries kept are the first ones and the newest, as many as there is room for."""
    return _kept(answers, truth, "recent")


@check(
    points=0.75,
    topics=["attend"],
    bonus=True,
    compare=flat_beside("attend"),
    think="Write down the position of the query and of each key: in the text those they came with, "
    "in the cache 0, 1, 2 and so on, the query standing last. Then the score of a key, over which "
    "root, and what a query head's weights add up to.",
)
def keys_turned_to_their_place(answers: Answers, truth: Files) -> Verdict:
    """A query attends to keys turned to their place in the text, or in the cache, as it is told."""
    expected = _truth(truth, "attend")
    return first_failure(
        _numbers(answer, expected[answer.call.id], "(query heads, head_dim)")
        for answer in answers.under("attend")
    )


@check(
    points=0.5,
    topics=["received"],
    bonus=True,
    compare=flat_beside("received"),
    think="One entry of a KV head is read by a whole group of query heads: which rows are they?",
)
def attention_added_up(answers: Answers, truth: Files) -> Verdict:
    """What an entry received is the sum over the query heads that read its KV head."""
    expected = _truth(truth, "received")
    return first_failure(
        _numbers(answer, expected[answer.call.id], "(KV heads, entries)")
        for answer in answers.under("received")
    )


@check(
    points=0.75,
    topics=["heavy"],
    bonus=True,
    compare=beside("heavy"),
    think="Set the newest aside first, room - room // 2 of them. Which of the others have the "
    "highest scores, in each head for itself? List them in the order of the text.",
)
def heavy_hitters_kept(answers: Answers, truth: Files) -> Verdict:
    """Each KV head keeps the newest entries and, of the others, those that got most attention."""
    return _kept(answers, truth, "heavy")


@check(
    points=0.5,
    topics=["whole"],
    bonus=True,
    compare=beside("whole"),
    think="Nothing is evicted here: is each token's entry in the cache when its own query attends, "
    "is the cache filled to the last of its entries before any has to go, and is the last vector "
    "normed before it becomes logits?",
)
def room_for_all(answers: Answers, truth: Files) -> Verdict:
    """With room for every token, each policy gives the logits of a cache that forgets nothing."""
    return _logits(answers, truth, "whole")


@check(
    points=0.5,
    topics=["streamed"],
    bonus=True,
    compare=beside("streamed"),
    think="How many entries may attention see, the newest among them? So how many may stay when a "
    "token comes into a full cache? And which position does an entry remember?",
)
def streams_decoded(answers: Answers, truth: Files) -> Verdict:
    """Decoded through a window, with and without sinks, each token's logits are right."""
    return _logits(answers, truth, "streamed")


@check(
    points=0.5,
    topics=["hitters"],
    bonus=True,
    compare=beside("hitters"),
    think="An entry's score is all the attention it got while it was in the cache, that of its own "
    "query among it: it is added to at every step, and goes where its entry goes.",
)
def heavy_hitters_decoded(answers: Answers, truth: Files) -> Verdict:
    """Decoded with the entries that got most attention, each token's logits are right."""
    return _logits(answers, truth, "hitters")


@check(
    points=0.25,
    topics=["gone"],
    needs=["first_and_last_kept"],  # else any sum over four guessed entries would pass
    bonus=True,
    think="Count the entries that the last query sees. Nothing of an evicted one may be left, and "
    "nothing of a kept one may be lost.",
)
def evicted_is_gone(answers: Answers, truth: Files) -> Verdict:
    """An evicted token no longer changes the logits; one that is still in the cache does."""
    return _parts_first(_gone(answers), answers, truth, "gone")


def _gone(answers: Answers) -> Verdict:
    asked = {answer.call.id.partition("/")[2]: answer for answer in answers.under("gone")}
    for answer in asked.values():
        n_tokens = len(answer.call.args["tokens"])
        formed = _formed(answer, (n_tokens, None), "(number of tokens, vocabulary)")
        if not formed.passed:
            return formed
    for name, answer in asked.items():
        base = asked[f"{name.partition('/')[0]}/base"]
        if answer.value.shape != base.value.shape:
            return failed(
                f"Arrays of shape {base.value.shape} and {answer.value.shape}.",
                remark="two sequences of one length have logits of different shapes",
                asked=str(answer.call),
            )
        one, other = base.value[-1], answer.value[-1]
        if "evicted" in name and not same(other, one):
            return failed(
                f"The last logits move by up to {np.abs(other - one).max():.3g} when a token is "
                "changed that no entry in the cache can know of.",
                remark="the last logits change with a token that was evicted",
                asked=str(answer.call),
            )
        if "kept" in name and not np.abs(other - one).max() > MOVED:
            return failed(
                "The last logits stay as they are when a token is changed that is in the cache.",
                remark="the last logits do not change with a token that is in the cache",
                asked=str(answer.call),
            )
    return passed()


# ---------------------------------------------------------------- what decode is made of

PARTS: dict[str, tuple[tuple[str, Check], ...]] = {
    "whole": (("attend", keys_turned_to_their_place),),
    "streamed": (
        ("attend", keys_turned_to_their_place),
        ("sinks_and_recent", first_and_last_kept),
    ),
    "hitters": (
        ("attend", keys_turned_to_their_place),
        ("attention_received", attention_added_up),
        ("heavy_and_recent", heavy_hitters_kept),
    ),
    "gone": (
        ("attend", keys_turned_to_their_place),
        ("sinks_and_recent", first_and_last_kept),
    ),
}
"""The functions that `decode` calls for a topic, and the check of each by itself."""


def _parts_first(verdict: Verdict, answers: Answers, truth: Files, topic: str) -> Verdict:
    """Let a failure think of the first function that is wrong by itself, if there is one."""
    if verdict.passed:
        return verdict
    for name, alone in PARTS[topic]:
        if not alone.judge(answers, truth).passed:
            return replace(
                verdict,
                think=f"`{name}` is wrong by itself, and `decode` calls it: mend it first. This "
                "may then pass as it is.",
            )
    return verdict


# ---------------------------------------------------------------- comparing


def _truth(truth: Files, topic: str) -> dict[str, np.ndarray]:
    """Return the right arrays of one topic, by call id."""
    return truth.arrays(f"{SLUG}/{topic}.npz")


def _formed(answer: Answer, shape: tuple[int | None, ...], form: str) -> Verdict:
    return form_agrees(answer, shape, f"another shape than {form}", "numbers")


def _numbers(answer: Answer, expected: np.ndarray, form: str) -> Verdict:
    formed = _formed(answer, right_array(expected, expected.shape).shape, form)
    if not formed.passed:
        return formed
    found = array_agrees(answer, expected, RTOL, absolute=ATOL)
    nearly = not found.passed and _to_single_precision(answer.value, expected)
    return replace(found, think=TO_SINGLE_PRECISION) if nearly else found


def _to_single_precision(value: Any, right: np.ndarray) -> bool:
    """Tell whether an array of the right shape is off by no more than float32 makes it."""
    if not isinstance(value, np.ndarray) or value.shape != right.shape:
        return False
    return bool((np.abs(value - right) <= SINGLE * np.abs(right).max()).all())  # NaN never is


def _kept(answers: Answers, truth: Files, topic: str) -> Verdict:
    """Compare which entries are kept, told by their places in the cache."""
    expected = _truth(truth, topic)
    for answer in answers.under(topic):
        right = right_array(expected[answer.call.id], expected[answer.call.id].shape)
        form = "(room,)" if right.ndim == 1 else "(KV heads, room)"
        formed = _formed(answer, right.shape, f"{form}, or of all entries where all fit")
        if not formed.passed:
            return formed
        value = answer.value
        if (value == right).all():
            continue
        in_order = np.sort(value, axis=-1)
        twice = in_order[..., 1:][np.diff(in_order, axis=-1) == 0]
        if len(twice):
            return failed(
                f"Entry {twice[0]:g} stands twice.",
                remark="an entry stands twice among those kept, so that another one is missing",
                asked=str(answer.call),
            )
        if (in_order == right).all():
            return failed(
                "The right entries, in another order.",
                remark="kept entries are not in the order of the text, the oldest first",
                asked=str(answer.call),
            )
        rows = np.atleast_2d(value), np.atleast_2d(right)
        head = int(np.flatnonzero((rows[0] != rows[1]).any(axis=1))[0])
        whose = f"KV head {head} keeps" if right.ndim == 2 else "Keeps"
        return failed(
            f"{whose} {_listed(rows[0][head])}; {_listed(rows[1][head])} was expected.",
            remark="other entries are kept than should be",
            asked=str(answer.call),
        )
    return passed()


def _listed(entries: np.ndarray) -> str:
    told = ", ".join(f"{entry:g}" for entry in entries[:SHOWN])
    return told if len(entries) <= SHOWN else f"{told} and {len(entries) - SHOWN} more"


def _logits(answers: Answers, truth: Files, topic: str) -> Verdict:
    """Compare the logits of sequences; say where the first wrong ones depart, and why they may."""
    verdict, expected = _departs(answers, truth, topic), _truth(truth, topic)
    asked = answers.under(topic)
    nearly = all(_to_single_precision(one.value, expected[one.call.id]) for one in asked)
    if not verdict.passed and nearly:
        verdict = replace(verdict, think=TO_SINGLE_PRECISION)
    return _parts_first(verdict, answers, truth, topic)


def _departs(answers: Answers, truth: Files, topic: str) -> Verdict:
    expected = _truth(truth, topic)
    for answer in answers.under(topic):
        right = expected[answer.call.id]
        right_array(right, (len(answer.call.args["tokens"]), *right.shape[1:]))
        formed = _formed(answer, right.shape, "(number of tokens, vocabulary)")
        if not formed.passed:
            return formed
        found = Sequenced(tuple(answer.value), tuple(right), "token")
        if found.departs is not None:
            full = found.departs >= answer.call.args["budget"]
            return failed(
                found.told(),
                remark=f"logits are off {'once the cache is full' if full else 'from early on'}",
                asked=str(answer.call),
            )
    return passed()


CHECKS = (
    first_and_last_kept,
    keys_turned_to_their_place,
    attention_added_up,
    heavy_hitters_kept,
    room_for_all,
    streams_decoded,
    heavy_hitters_decoded,
    evicted_is_gone,
    *understanding_checks(SLUG, bonus=True),
)
