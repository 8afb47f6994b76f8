"""The checks of milestone 2. Byte counts are exact: every bound here is equality."""

from collections.abc import Sequence

import numpy as np

from milestones.compare import (
    TruthError,
    array_agrees,
    first_failure,
    numbers_agree,
    right_array,
)
from milestones.m2_kv_bytes.keys import KEYS, MOST_NAMED, named_in
from milestones.spec import Answer, Answers, Files, Verdict, check, failed, passed

TRUTH = "m2_kv_bytes/answers.json"


@check(points=2, topics=["known_shapes"])
def known_shapes(answers: Answers, truth: Files) -> Verdict:
    """A token of Llama-3-70B costs 327,680 bytes, of Llama-3-8B 131,072, of Llama-2-7B 524,288."""
    return numbers_agree(answers.under("known_shapes"), truth.json(TRUTH))


@check(points=2, topics=["other_shapes"])
def other_shapes(answers: Answers, truth: Files) -> Verdict:
    """The count is right for any layers, KV heads, head size and cache dtype."""
    return numbers_agree(answers.under("other_shapes"), truth.json(TRUTH))


@check(points=3, topics=["runs"])
def every_run(answers: Answers, truth: Files) -> Verdict:
    """The bytes per token of every run of the table are right, in the order of its rows."""
    stored = truth.arrays("m2_kv_bytes/runs.npz")["kv_bytes"]
    expected = right_array(stored, (len(truth.table("runs.csv")),)).astype(np.float64)
    return array_agrees(answers.by_id["runs"], expected, rel=0.0)


@check(points=2, topics=["plain"])
def plain_configs(answers: Answers, truth: Files) -> Verdict:
    """From a config file you size the whole cache of a batch, with or without `head_dim` in it."""
    return numbers_agree(answers.under("plain"), truth.json(TRUTH))


@check(points=1.5, topics=["spelled"])
def other_spellings(answers: Answers, truth: Files) -> Verdict:
    """You read other families' key names, multi-query flags and a config in `text_config`."""
    return numbers_agree(answers.under("spelled"), truth.json(TRUTH))


@check(points=1.5, topics=["windowed"])
def layers_that_hold_less(answers: Answers, truth: Files) -> Verdict:
    """A sliding layer holds min(context, window) tokens and a recurrent layer none."""
    return numbers_agree(answers.under("windowed"), truth.json(TRUTH))


@check(points=1.5, topics=["latent"])
def latent_attention(answers: Answers, truth: Files) -> Verdict:
    """Latent attention holds one latent and one rope key a token a layer, whatever its heads."""
    return numbers_agree(answers.under("latent"), truth.json(TRUTH))


@check(points=1.5, topics=["refused"], needs=["plain_configs"], reads=["returned", "raised"])
def unreadable_configs(answers: Answers, truth: Files) -> Verdict:
    """A config that cannot be read raises ValueError with the name of the key at fault."""
    expected = truth.json(TRUTH)
    return first_failure(
        _refused(answer, expected[answer.call.id]) for answer in answers.under("refused")
    )


def _refused(answer: Answer, keys: Sequence[str]) -> Verdict:
    """Judge one refusal; a message that names most keys of the handout has told nothing."""
    if not (isinstance(keys, list) and keys and KEYS.issuperset(keys)):
        raise TruthError(f"{keys!r} where keys belong")
    value = answer.value
    if "returned" in value:
        return failed(
            f"{answer.call} returned a value of type {value['returned']}; a guess is worse "
            f"than an error. The key at fault is {keys[0]!r}."
        )
    if "ValueError" not in value["raised"]:
        return failed(f"{answer.call} raised {value['raised'][0]}; expected ValueError.")
    named = named_in(value["message"])
    if len(named) > MOST_NAMED:
        return failed(
            f"{answer.call}: the message names {len(named)} keys, at most {MOST_NAMED} count as "
            "an answer.",
            "a message that names nearly every key does not say which one is at fault.",
        )
    if not named & set(keys):
        return failed(f"{answer.call}: the message does not name the key {keys[0]!r}.")
    return passed()


CHECKS = (
    known_shapes,
    other_shapes,
    every_run,
    plain_configs,
    other_spellings,
    layers_that_hold_less,
    latent_attention,
    unreadable_configs,
)
