"""What holds for any config: sizes grow, batches add up, groups hold the whole, nothing crashes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.capacity import CachePlan, CacheSize, ConfigRefusedError, read_plan, size_cache
from solutions.capacity.build import SHAPING
from solutions.capacity.collect import KEYS
from solutions.capacity.heads import HEAD_SIZE, KV_HEADS, QUERY_HEADS, WIDTH
from solutions.capacity.plans import LAYERS
from solutions.capacity.tables import families
from tests.solutions.capacity_shapes import SHAPES, Config

PLANS = {shape.name: read_plan(shape.config) for shape in SHAPES}
plans = st.sampled_from(list(PLANS.values()))
contexts = st.integers(0, 200_000)
few = settings(max_examples=40, deadline=None)


def sized(config: Any, context: int, **how: int) -> CacheSize | ConfigRefusedError:
    try:
        return size_cache(config, context, **how)
    except ConfigRefusedError as refused:
        return refused


@few
@given(plans, contexts, st.integers(0, 1_000))
def test_a_longer_context_never_keeps_less(plan: CachePlan, context: int, more: int) -> None:
    assert plan.kv_bytes(context + more) >= plan.kv_bytes(context)
    longer = size_cache(plan, context + more).allocated_bytes
    assert longer >= size_cache(plan, context).allocated_bytes


@few
@given(plans, contexts)
def test_the_next_token_adds_what_is_said(plan: CachePlan, context: int) -> None:
    grown = plan.kv_bytes(context + 1) - plan.kv_bytes(context)
    assert plan.kv_bytes_per_token(context) == grown


@few
@given(plans, contexts, st.integers(1, 1_000))
def test_a_batch_keeps_as_many_times_what_one_request_does(
    plan: CachePlan, context: int, batch: int
) -> None:
    one, many = size_cache(plan, context), size_cache(plan, context, batch_size=batch)
    assert many.batch_kv_bytes == batch * one.kv_bytes
    assert many.batch_allocated_bytes == batch * one.allocated_bytes


@few
@given(plans, contexts, st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 512))
def test_a_group_of_gpus_holds_at_least_the_whole(
    plan: CachePlan, context: int, tp: int, block: int
) -> None:
    size = sized(plan, context, tp=tp, block_size=block)
    if isinstance(size, ConfigRefusedError):
        assert size.keys == ("tp",)
        return
    assert size.allocated_bytes >= size.kv_bytes + size.state_bytes_engine
    assert size.allocated_bytes_per_gpu * tp == size.allocated_bytes


@few
@given(plans, contexts)
def test_fewer_bits_never_keep_more(plan: CachePlan, context: int) -> None:
    sixteen, eight, four = (plan.kv_bytes(context, bits) for bits in (16, 8, 4))
    assert four <= eight <= sixteen


NAMES = sorted(
    {*SHAPING, *KEYS, *HEAD_SIZE, *KV_HEADS, *QUERY_HEADS, *WIDTH, *LAYERS, "text_config"}
)
names = st.sampled_from(NAMES)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 130),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["full_attention", "sliding_attention", "mamba", "M*-", "LLLG", "auto"]),
)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
types = st.one_of(st.sampled_from(sorted(families())), anything)


def answered(config: Any) -> None:
    """A size or a refusal: any other exception fails the test."""
    size = sized(config, 1_000)
    if isinstance(size, ConfigRefusedError):
        assert size.keys
        assert size.reason
    else:
        assert size.allocated_bytes >= size.kv_bytes >= 0


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(names, anything, max_size=12), types)
def test_any_json_is_sized_or_refused(config: Config, model_type: Any) -> None:
    answered(config | {"model_type": model_type})


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SHAPES), names, anything)
def test_a_real_config_with_one_odd_key_is_sized_or_refused(
    shape: Any, key: str, value: Any
) -> None:
    text = shape.config.get("text_config")
    answered(shape.config | {"text_config": text | {key: value}} if text else shape.config)
    answered(shape.config | {key: value})


@settings(max_examples=80, deadline=None)
@given(anything)
def test_any_value_at_all_is_refused_or_sized(config: Any) -> None:
    answered(config)


@pytest.mark.parametrize("model_type", sorted(families()))
def test_a_model_type_with_nothing_else_is_refused(model_type: str) -> None:
    with pytest.raises(ConfigRefusedError):
        read_plan({"model_type": model_type})
