"""The calculator against what was measured, against milestone 2's oracle, and published counts."""

from __future__ import annotations

import csv
import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from solutions.capacity import ConfigRefusedError, read_plan, size_cache
from solutions.capacity.layer_plan import RULES
from solutions.capacity.sections import decoder_section
from solutions.capacity.special import SPECIAL
from solutions.capacity.states import RULES as STATES
from solutions.capacity.tables import class_defaults, families
from solutions.capacity.weights import count_weights
from solutions.draft import Source
from solutions.lesson import ROOT
from solutions.m2_kv_bytes import oracle

CONFIGS = ROOT.parent / "shared" / "configs"
needs_configs = pytest.mark.skipif(
    not CONFIGS.is_dir(), reason="../shared/configs is not on this machine"
)
NAMES = sorted(path.stem for path in CONFIGS.glob("*.json"))


def config_of(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    return config


@cache
def truth() -> pd.DataFrame:
    return pd.read_csv(CONFIGS / "ground_truth.csv")


@needs_configs
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_every_measured_config_is_exact_to_the_byte(name: str) -> None:
    rows = truth()[truth()["config"] == name].to_dict("records")
    assert rows, "no row to compare with"
    for row in rows:
        size = size_cache(config_of(name), int(row["context_len"]))
        assert size.kv_bytes == row["serving_kv_bytes"]
        assert size.kv_bytes_per_token == row["serving_bytes_per_token_tail"]
        assert size.state_bytes == row["serving_state_bytes_bf16"]
        assert size.state_bytes_fp32 == row["serving_state_bytes_fp32ssm"]


KINDS = {"n_full": ("full",), "n_sliding": ("sliding", "chunked"), "n_latent": ("latent",)}
KINDS |= {"n_state": ("state",), "n_no_cache": ("none", "cross", "shared")}
UNCOUNTED = {"deepseek_v4"}  # the measurement counts its layers as none of these


@needs_configs
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_layers_are_counted_as_measured(name: str) -> None:
    row = truth()[truth()["config"] == name].iloc[0]
    plan = read_plan(config_of(name))
    if plan.model_type in UNCOUNTED:
        assert plan.counts == {"sliding": 2, "compressed": 41}
        return
    crossing = "cross" in plan.counts and len(plan.layers) == plan.counts["cross"]
    for column, kinds in KINDS.items():
        ours = sum(plan.counts.get(kind, 0) for kind in kinds)
        if column == "n_no_cache" and crossing:
            ours = 0  # an encoder-decoder's layer has both, and counts as full there
        assert ours == row[column], column


@needs_configs
def test_the_naive_formula_would_be_wrong_for_many_of_them() -> None:
    # The named wrong answer of this file: 2 x layers x KV heads x hidden / heads.
    naive = truth()["naive_formula_kv_bytes"] != truth()["serving_kv_bytes"]
    assert naive.mean() > 0.3


# ---------------------------------------------------------------- milestone 2

KNOWS_MORE = frozenset(
    {
        *("layers_block_type", "layer_types", "model_type", "attention_head_dim"),
        *("num_query_groups", "hybrid_override_pattern", "num_key_value_heads_per_layer"),
    }
)
"""Keys that milestone 2 asks to refuse, since it does not teach them, and that are read here."""


@pytest.fixture(scope="module", params=range(5))
def draft(request: pytest.FixtureRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    runs = pd.read_csv(ROOT / "data" / "validation.csv", nrows=5)
    drawn = oracle.draw(Source(np.random.default_rng(request.param), runs, runs, runs))
    return drawn.questions["questions.json"], drawn.truth["answers.json"]


def asked(questions: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{topic}/{i}", ask)
        for topic, asks in questions.items()
        for i, ask in enumerate(asks)
        if "config" in ask
    ]


def left_to_the_class(config: dict[str, Any]) -> bool:
    """Tell whether a size comes from the class: milestone 2 teaches files, not classes."""
    facts = [fact for layer in read_plan(config).layers for fact in layer.facts]
    return any("class default" in fact.rule for fact in facts)


def test_milestone_2_and_the_calculator_agree_on_every_question_with_a_size(
    draft: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    questions, answers = draft
    compared = 0
    for name, ask in asked(questions):
        if isinstance(answers[name], list) or left_to_the_class(ask["config"]):
            continue
        held = read_plan(ask["config"]).kv_bytes(ask["context_len"], ask["kv_bits"])
        assert held * ask["batch_size"] == answers[name], (name, ask)
        compared += 1
    assert compared > 40


def refused_keys(config: dict[str, Any]) -> tuple[str, ...]:
    try:
        read_plan(config)
    except ConfigRefusedError as refused:
        return refused.keys
    return ()


def test_what_milestone_2_refuses_is_refused_here_or_read_by_a_rule_it_does_not_teach(
    draft: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    questions, answers = draft
    refusals = [
        (ask, answers[name]) for name, ask in asked(questions) if name.startswith("refused")
    ]
    assert len(refusals) > 10
    refused = 0
    for ask, names in refusals:
        keys = refused_keys(ask["config"])
        said = {key.removeprefix("text_config.") for key in keys}
        assert said & set(names) or KNOWS_MORE & set(names), (keys, names)
        refused += bool(keys)
    assert refused > 10


# ---------------------------------------------------------------- weights


def catalog() -> list[dict[str, str]]:
    path = ROOT / "data" / "catalog" / "models.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


PUBLISHED_B = {  # billions, as their makers count them
    "mixtral-8x7b": 46.70,
    "deepseek-v3": 671.0,
    "deepseek-v2": 235.7,
    "deepseek-v2-lite": 15.71,
    "qwen3-30b-a3b": 30.53,
    "gpt-oss-120b": 116.8,
    "kimi-k2": 1_026.0,
    "dbrx-132b": 131.6,
    "phi-3.5-moe": 41.87,
    "llama-3.1-70b": 70.55,
    "gpt2": 0.1244,
    "starcoder-15b": 15.52,
}


@needs_configs
@pytest.mark.parametrize("name", PUBLISHED_B)
def test_weights_are_counted_within_a_thousandth_of_what_is_published(name: str) -> None:
    config = config_of(name)
    counted = count_weights(decoder_section(config), tuple(config)).count / 1e9
    assert counted == pytest.approx(PUBLISHED_B[name], rel=1.5e-3)


@needs_configs
def test_weights_agree_with_the_catalog_where_it_has_the_same_model() -> None:
    by_name = {row["model"]: float(row["params_total"]) for row in catalog()}
    compared = []
    for name in NAMES:
        config = config_of(name)
        try:
            counted = count_weights(decoder_section(config), tuple(k for k in config if config[k]))
        except ConfigRefusedError:
            continue
        if name in by_name:
            compared.append(counted.count / by_name[name])
            assert compared[-1] == pytest.approx(1, abs=4e-3), name
    assert len(compared) > 20
    assert max(compared) <= 1.001, "biases and norms are left out, so a count is rather below"


def test_every_model_type_has_a_source_and_every_default_a_type() -> None:
    for family in families().values():
        assert family.source, family
        assert not family.plan or family.plan.split()[0] in {*RULES, *SPECIAL}, family
        assert not family.state or family.state in STATES, family
        assert not family.text or family.text in families(), family
        assert family.defaults in families(), family
    for (model_type, key), default in class_defaults().items():
        assert model_type in families(), key
        assert default.source
