"""The checks of milestone 2. Byte counts are exact: every bound here is equality."""

import numpy as np

from milestones.compare import array_agrees, numbers_agree
from milestones.spec import Answers, Files, Verdict, check, failed, passed

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
    expected = truth.arrays("m2_kv_bytes/runs.npz")["kv_bytes"].astype(np.float64)
    return array_agrees(answers.by_id["runs"], expected, rel=0.0)


@check(points=2, topics=["plain"])
def plain_configs(answers: Answers, truth: Files) -> Verdict:
    """From a config file you size the whole cache of a batch, with or without `head_dim` in it."""
    return numbers_agree(answers.under("plain"), truth.json(TRUTH))


@check(points=1.5, topics=["spelled"])
def other_spellings(answers: Answers, truth: Files) -> Verdict:
    """You read older key names, multi-query flags and a config nested in `text_config`."""
    return numbers_agree(answers.under("spelled"), truth.json(TRUTH))


@check(points=1.5, topics=["windowed"])
def layers_that_hold_less(answers: Answers, truth: Files) -> Verdict:
    """A sliding layer holds min(context, window) tokens and a recurrent layer none."""
    return numbers_agree(answers.under("windowed"), truth.json(TRUTH))


@check(points=1.5, topics=["latent"])
def latent_attention(answers: Answers, truth: Files) -> Verdict:
    """Latent attention holds one latent and one rope key a token a layer, whatever its heads."""
    return numbers_agree(answers.under("latent"), truth.json(TRUTH))


@check(points=1.5, topics=["refused"])
def unreadable_configs(answers: Answers, truth: Files) -> Verdict:
    """A config that cannot be read raises ValueError with the name of the key at fault."""
    expected = truth.json(TRUTH)
    for answer in answers.under("refused"):
        keys = expected[answer.call.id]
        value = answer.value
        if "returned" in value:
            return failed(
                f"{answer.call} returned a value of type {value['returned']}; a guess is worse "
                f"than an error. The key at fault is {keys[0]!r}."
            )
        if "ValueError" not in value["raised"]:
            return failed(f"{answer.call} raised {value['raised'][0]}; expected ValueError.")
        if not any(key in value["message"] for key in keys):
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
