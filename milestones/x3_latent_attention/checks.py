"""The checks of lab x3: what a token costs, both forms of attention, and what they do not share.

The bound on arrays and its argument stand in `arrays`. Counts are whole numbers, asked exactly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from milestones.compare import numbers_agree, numbers_beside
from milestones.compared import Compared
from milestones.m4_cache_equivalence.depart import same
from milestones.spec import Answer, Answers, Files, ReadTable, Verdict, check, failed, passed
from milestones.understanding import understanding_checks
from milestones.x3_latent_attention.arrays import (
    array_agrees,
    arrays_agree,
    arrays_beside,
    form_agrees,
    truth_of,
)

COUNTS = "x3_latent_attention/counts.json"


def values_beside(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
    """Put the values a token costs beside the right ones, latent models apart from the others."""
    asked = list(answers.under("values"))
    right = truth.json(COUNTS)
    return [
        numbers_beside([a for a in asked if _is_latent(a) is latent], right)
        for latent in (True, False)
    ]


def work_beside(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
    """Put the counts of one form beside the right ones, apart from those of the other."""
    asked = list(answers.under("work"))
    right = truth.json(COUNTS)
    return [
        numbers_beside([a for a in asked if a.call.args["absorbed"] is form], right)
        for form in (True, False)
    ]


def _is_latent(answer: Answer) -> bool:
    return "kv_lora_rank" in answer.call.args["config"]


@check(
    points=0.5,
    topics=["values"],
    bonus=True,
    compare=values_beside,
    think="Write down what one token leaves behind in one layer: with heads, a key and a value of "
    "each KV head; with a latent, the latent and one rotary key, whatever the number of heads.",
)
def values_counted(answers: Answers, truth: Files) -> Verdict:
    """DeepSeek-V2 keeps 576 values a token a layer, 34,560 in all; and so for any config."""
    return numbers_agree(answers.under("values"), truth.json(COUNTS), unit="values")


@check(
    points=0.25,
    topics=["rope"],
    bonus=True,
    compare=arrays_beside("rope"),
    think="Turn a single vector of two numbers at position 1 on paper: by one radian. Then look "
    "which numbers are a pair in a longer one: i and i + half of the size.",
)
def rope_turns(answers: Answers, truth: Files) -> Verdict:
    """Vectors are turned to their positions: pair i by its position times 10,000^(-i / half)."""
    return arrays_agree(answers, truth, "rope")


@check(
    points=0.5,
    topics=["whole"],
    bonus=True,
    compare=arrays_beside("whole"),
    think="Take the one-token sequence first: its output is its own value, so only w_dkv, w_uv and "
    "w_o are in it. Then two tokens: a score is the sum of two dot products, over one root.",
)
def whole_sequence(answers: Answers, truth: Files) -> Verdict:
    """With keys and values rebuilt for every head, a layer's outputs for a sequence are right."""
    return arrays_agree(answers, truth, "whole")


@check(
    points=0.75,
    topics=["cache"],
    bonus=True,
    think="Which part of a row depends on the token's position, and which does not?",
)
def latent_cache(answers: Answers, truth: Files) -> Verdict:
    """A token adds one row to the cache: its latent, unturned, and one key, turned."""
    expected = truth_of(truth, "cache")
    latent_dims = truth.json("x3_latent_attention/latent_dims.json")
    for answer in answers.under("cache"):
        right = expected[answer.call.id]
        formed = form_agrees(answer, right)
        if not formed.passed:
            return formed
        if answer.call.function == "extend_cache" and not same(answer.value, right):
            return _wrong_part(answer, right, latent_dims[answer.call.id.split("/")[1]])
    return passed()


def _wrong_part(answer: Answer, right: np.ndarray, latent_dim: int) -> Verdict:
    """Say which part of a cache is wrong, and in which rows."""
    value = answer.value
    parts = {
        "the latent": same(value[:, :latent_dim], right[:, :latent_dim]),
        "the rotary key": same(value[:, latent_dim:], right[:, latent_dim:]),
    }
    wrong = " and ".join(part for part, is_right in parts.items() if not is_right)
    rows = [t for t in range(len(right)) if not same(value[t], right[t])]
    verdict = failed(
        f"Wrong in {len(rows)} of {len(right)} rows, first in row {rows[0]}: {wrong}.",
        remark=f"in the rows of the cache {wrong} is off",
        asked=str(answer.call),
    )
    return replace(verdict, think=array_agrees(answer, right).think)


@check(
    points=0.5,
    topics=["absorbed"],
    bonus=True,
    compare=arrays_beside("absorbed"),
    think="The cache here was made by nobody's code: its last row is the new token's. Carry one "
    "head's query through w_uk by hand: which of the axes is summed over?",
)
def absorbed_step(answers: Answers, truth: Files) -> Verdict:
    """From a cache alone, a new token's output is right, whatever the cache holds."""
    return arrays_agree(answers, truth, "absorbed")


@check(
    points=0.5,
    topics=["huge"],
    needs=["absorbed_step"],
    bonus=True,
    think="Each product is finite in one order and overflows in the other: never multiply a cached "
    "latent by w_uk or w_uv. Multiply the query by w_uk, and by w_uv what the weights have mixed.",
)
def no_key_per_head(answers: Answers, truth: Files) -> Verdict:
    """No head's key or value is built: one too large for a float64 does no harm."""
    return arrays_agree(answers, truth, "huge")


@check(
    points=0.5,
    topics=["logits"],
    needs=["absorbed_step"],  # else decoding anew from the tokens would pass
    bonus=True,
    compare=arrays_beside("logits"),
    think="Compare step t with row t of `full_logits`. Both norm a layer's input once; the cache "
    "gets the new token's row before the token attends.",
)
def same_logits(answers: Answers, truth: Files) -> Verdict:
    """Decoded step by step in the absorbed form, logits equal those of the unabsorbed form."""
    return arrays_agree(answers, truth, "logits")


@check(
    points=0.25,
    topics=["swapped"],
    needs=["same_logits"],
    bonus=True,
    compare=arrays_beside("swapped"),
    think="What is stored is the latent. Of which weights are the keys of old tokens made, then: "
    "those of their own step, or those of this one?",
)
def old_keys_follow(answers: Answers, truth: Files) -> Verdict:
    """When weights change between two steps, old latents stay and old keys follow the weights."""
    return arrays_agree(answers, truth, "swapped")


@check(
    points=0.25,
    topics=["between"],
    bonus=True,
    compare=arrays_beside("between"),
    think="Write the score of a turned query and a turned key: which of the two turns is left when "
    "they are put together, and on which axis does it act?",
)
def matrix_of_a_distance(answers: Answers, truth: Files) -> Verdict:
    """Were keys from the latent turned, each distance would need a matrix of its own."""
    return arrays_agree(answers, truth, "between")


@check(
    points=0.25,
    topics=["work"],
    bonus=True,
    compare=work_beside,
    think="Count for two new tokens after three old ones: the pairs of a query and a key, what a "
    "pair costs, and how many tokens pass through w_uk and w_uv.",
)
def work_counted(answers: Answers, truth: Files) -> Verdict:
    """The multiplications of either form are counted, for one new token or for many at once."""
    return numbers_agree(answers.under("work"), truth.json(COUNTS), unit="multiplications")


CHECKS = (
    values_counted,
    rope_turns,
    whole_sequence,
    latent_cache,
    absorbed_step,
    no_key_per_head,
    same_logits,
    old_keys_follow,
    matrix_of_a_distance,
    work_counted,
    *understanding_checks("x3_latent_attention", bonus=True),
)
