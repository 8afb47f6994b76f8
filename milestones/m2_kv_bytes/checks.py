"""The checks of milestone 2. Byte counts are exact: every bound here is equality."""

from collections.abc import Sequence

import numpy as np

from milestones.compare import (
    TruthError,
    array_agrees,
    first_failure,
    named,
    numbers_agree,
    right_array,
)
from milestones.m2_kv_bytes.beside import IN_BYTES, TRUTH, configs, runs, shapes
from milestones.m2_kv_bytes.keys import KEYS, MOST_NAMED, named_in
from milestones.spec import Answer, Answers, Files, Verdict, check, failed, passed
from milestones.understanding import understanding_checks

A_TOKEN = (
    "What does one token leave behind? In each layer, for each KV head, a key and a value of "
    "`head_dim` numbers, of `kv_bits` bits each."
)


@check(points=2, topics=["known_shapes"], compare=shapes("known_shapes"), think=A_TOKEN)
def known_shapes(answers: Answers, truth: Files) -> Verdict:
    """A token of Llama-3-70B costs 327,680 bytes, of Llama-3-8B 131,072, of Llama-2-7B 524,288."""
    return numbers_agree(answers.under("known_shapes"), truth.json(TRUTH), unit=IN_BYTES)


@check(points=2, topics=["other_shapes"], compare=shapes("other_shapes"), think=A_TOKEN)
def other_shapes(answers: Answers, truth: Files) -> Verdict:
    """The count is right for any layers, KV heads, head size and cache dtype."""
    return numbers_agree(answers.under("other_shapes"), truth.json(TRUTH), unit=IN_BYTES)


@check(
    points=2,
    topics=["runs"],
    compare=runs,
    think="Work the row out by hand from its columns, and compare it with `kv_bytes_per_token`.",
)
def every_run(answers: Answers, truth: Files) -> Verdict:
    """The bytes per token of every run of the table are right, in the order of its rows."""
    stored = truth.arrays("m2_kv_bytes/runs.npz")["kv_bytes"]
    expected = right_array(stored, (len(truth.table("runs.csv")),)).astype(np.float64)
    return array_agrees(answers.by_id["runs"], expected, rel=0.0, unit=IN_BYTES)


@check(
    points=2,
    topics=["plain"],
    compare=configs("plain"),
    think="Read four numbers from the file (layers, query heads, KV heads, head size), then size "
    "the cache of all requests: context, batch and bytes a number.",
)
def plain_configs(answers: Answers, truth: Files) -> Verdict:
    """From a config file you size the whole cache of a batch, with or without `head_dim` in it."""
    return numbers_agree(answers.under("plain"), truth.json(TRUTH), unit=IN_BYTES)


@check(
    points=1.5,
    topics=["spelled"],
    compare=configs("spelled"),
    think="Which key of this file holds the layers, the heads, the head size? The handout lists "
    "the spellings.",
)
def other_spellings(answers: Answers, truth: Files) -> Verdict:
    """You read other families' key names, multi-query flags and a config in `text_config`."""
    return numbers_agree(answers.under("spelled"), truth.json(TRUTH), unit=IN_BYTES)


@check(
    points=1.5,
    topics=["windowed"],
    compare=configs("windowed"),
    think="Go through the layers one by one: how many tokens does each keep at this context?",
)
def layers_that_hold_less(answers: Answers, truth: Files) -> Verdict:
    """A sliding layer holds min(context, window) tokens and a recurrent layer none."""
    return numbers_agree(answers.under("windowed"), truth.json(TRUTH), unit=IN_BYTES)


@check(
    points=1.5,
    topics=["latent"],
    compare=configs("latent"),
    think="What does latent attention keep of a token? One latent and one rope key in each layer.",
)
def latent_attention(answers: Answers, truth: Files) -> Verdict:
    """Latent attention holds one latent and one rope key a token a layer, whatever its heads."""
    return numbers_agree(answers.under("latent"), truth.json(TRUTH), unit=IN_BYTES)


@check(
    points=1,
    topics=["planned"],
    bonus=True,
    compare=configs("planned"),
    think="Write down what the first eight layers are, counted from 0 as the handout's table does.",
)
def other_layer_plans(answers: Answers, truth: Files) -> Verdict:
    """You read the plan of layers in four other languages, from a period to a string."""
    return numbers_agree(answers.under("planned"), truth.json(TRUTH), unit=IN_BYTES)


@check(
    points=0.5,
    topics=["chunked"],
    bonus=True,
    compare=configs("chunked"),
    think="Which layers are chunked, and how many tokens does such a layer keep at most?",
)
def chunked_attention(answers: Answers, truth: Files) -> Verdict:
    """A layer of chunked attention holds at most one chunk."""
    return numbers_agree(answers.under("chunked"), truth.json(TRUTH), unit=IN_BYTES)


@check(
    points=0.5,
    topics=["shared"],
    bonus=True,
    compare=configs("shared"),
    think="Which layers keep keys and values of their own, and of which kind are those that do?",
)
def shared_caches(answers: Answers, truth: Files) -> Verdict:
    """Layers that read the cache of an earlier layer have none of their own."""
    return numbers_agree(answers.under("shared"), truth.json(TRUTH), unit=IN_BYTES)


@check(
    points=1,
    topics=["by_layer"],
    bonus=True,
    compare=configs("by_layer"),
    think="Take the blocks one by one: how many KV heads does this one have, if it attends at all?",
)
def heads_by_layer(answers: Answers, truth: Files) -> Verdict:
    """KV heads may differ from layer to layer, down to none."""
    return numbers_agree(answers.under("by_layer"), truth.json(TRUTH), unit=IN_BYTES)


@check(
    points=1.5,
    topics=["refused"],
    needs=["plain_configs"],
    reads=["returned", "raised"],
    think="Which key of this file leaves the size of the cache open? Raise ValueError with its "
    "name.",
)
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
            f"A value of type {value['returned']}; ValueError was expected, for the key "
            f"{keys[0]!r}: its cache has no one size, so any number is a guess.",
            asked=named(answer.call),
        )
    if "ValueError" not in value["raised"]:
        return failed(
            f"It raised {value['raised'][0]}; ValueError was expected, with the key {keys[0]!r}.",
            asked=named(answer.call),
        )
    keys_named = named_in(value["message"])
    if len(keys_named) > MOST_NAMED:
        return failed(
            f"The message names {len(keys_named)} keys; at most {MOST_NAMED} count as an answer.",
            "A message that names nearly every key does not say which one to look at.",
            asked=named(answer.call),
        )
    if not keys_named & set(keys):
        return failed(f"The message does not name the key {keys[0]!r}.", asked=named(answer.call))
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
    other_layer_plans,
    chunked_attention,
    shared_caches,
    heads_by_layer,
    *understanding_checks("m2_kv_bytes"),
)
