"""What milestone 2 promises: figures worked by hand, every rule asked, no guess about a config."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader.judge import judge
from grader.report import MilestoneReport
from milestones.m2_kv_bytes import MILESTONE as WHOLE_MILESTONE
from milestones.m2_kv_bytes import keys
from milestones.m2_kv_bytes.calls import RUNGS
from milestones.spec import Answer, Answers, Call, Files, Verdict
from solutions.draft import Draft, Source
from solutions.exam import (
    generators,
    named_mistakes,
    public_runs,
    reference,
    write_questions,
)
from solutions.lesson import ROOT, answer_all
from solutions.m2_kv_bytes.oracle import draw
from solutions.m2_kv_bytes.rungs import FAMILIES
from tests.milestones.closing import without_closing

MILESTONE = without_closing(WHOLE_MILESTONE)
CHECKS = MILESTONE.checks
SEEDS = range(20)
CONFIGS = ROOT.parent / "shared" / "configs"
CORE = ("plain", "spelled", "windowed", "latent")
SIZED = (*CORE, *RUNGS)
JUNK: tuple[Any, ...] = (
    *(None, True, False, "3", "", [], [3], {}, {"bytes": 3}, -1, -0.5),
    *(float("nan"), float("inf"), 1e308, 2**1000, -(2**1000)),
)
JUNK_RAISED: tuple[Any, ...] = (
    {"returned": "int"},
    {"returned": "NoneType"},
    {"raised": ["KeyError", "LookupError", "Exception"], "message": "'layer_types'"},
    {"raised": ["ValueError", "Exception"], "message": ""},
    {"raised": ["ValueError", "Exception"], "message": "this config cannot be read"},
    {"raised": ["ValueError", "Exception"], "message": " ".join(sorted(keys.KEYS))},
)

Config = dict[str, Any]
from_config: Callable[..., int] = reference("m2_kv_bytes").namespace["kv_bytes_from_config"]


@dataclass(frozen=True)
class Exam:
    """One drawn split of the milestone: its calls, its right answers and its truth."""

    calls: tuple[Call, ...]
    truth: Files

    def right(self, call: Call) -> Any:
        """Return the answer that the truth asks for."""
        if call.topic == "runs":
            return self.truth.arrays("m2_kv_bytes/runs.npz")["kv_bytes"].astype(float)
        expected = self.truth.json("m2_kv_bytes/answers.json")[call.id]
        if call.topic == "refused":
            return {"raised": ["ValueError", "Exception"], "message": f"no {expected[0]} here"}
        return expected

    def judged(self, answer: Callable[[Call], Any]) -> dict[str, Verdict]:
        """Judge every check on the answers that `answer` gives."""
        given = Answers({call.id: Answer(call, answer(call)) for call in self.calls})
        return {check.name: check.judge(given, self.truth) for check in CHECKS}


@pytest.fixture(scope="module")
def exam(tmp_path_factory: pytest.TempPathFactory) -> Exam:
    folder: Path = tmp_path_factory.mktemp("m2") / "split"
    write_questions(folder, (11).to_bytes(32, "big"), 0, slugs=(MILESTONE.slug,))
    calls = tuple(MILESTONE.calls(Files(folder / "questions")))
    return Exam(calls, Files(folder / "truth"))


def drawn(seed: int) -> Draft:
    """Draw the milestone's questions; its runs do not matter to the configs."""
    runs = public_runs("train").head(50)
    rng = generators(seed.to_bytes(32, "big"), 0)["m2_kv_bytes"]
    return draw(Source(rng=rng, runs=runs, train=runs, known=runs))


@pytest.fixture(scope="module", params=SEEDS)
def draft(request: pytest.FixtureRequest) -> Draft:
    return drawn(request.param)


def asked(draft: Draft, topic: str) -> list[dict[str, Any]]:
    questions: list[dict[str, Any]] = draft.questions["questions.json"][topic]
    return questions


def inner(config: Config) -> Config:
    return dict(config.get("text_config") or config)


# ---------------------------------------------------------------- figures worked by hand


def test_the_named_shapes_are_the_truth(exam: Exam) -> None:
    right = exam.truth.json("m2_kv_bytes/answers.json")
    assert [right[f"known_shapes/{i}"] for i in range(3)] == [327_680, 131_072, 524_288]


def test_qwen3_names_a_head_that_is_not_width_over_heads() -> None:
    config = {"hidden_size": 1_024, "num_attention_heads": 16, "num_key_value_heads": 8}
    config |= {"num_hidden_layers": 28, "head_dim": 128}
    assert from_config(config, 1, 1, 16) == 2 * 28 * 8 * 128 * 2


def test_deepseek_v2_keeps_576_values_a_token_a_layer() -> None:
    config = {"num_hidden_layers": 60, "num_attention_heads": 128, "num_key_value_heads": 128}
    config |= {"hidden_size": 5_120, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert from_config(config, 1, 1, 16) == 60 * 576 * 2


def test_mistral_with_a_full_window_stops_growing() -> None:
    config = {"hidden_size": 4_096, "num_attention_heads": 32, "num_key_value_heads": 8}
    config |= {"num_hidden_layers": 32, "sliding_window": 4_096}
    assert from_config(config, 4_095, 1, 16) == 4_095 * 131_072
    assert from_config(config, 131_072, 1, 16) == 4_096 * 131_072


# ---------------------------------------------------------------- the truth, layer by layer


def by_brute_force(config: Config, context_len: int, batch_size: int, kv_bits: int) -> int:
    """Add up the bits of every layer, request by request, straight from the handout's table."""
    part = inner(config)
    part |= part.get("attn_config") or {}

    def one_of(names: tuple[str, ...]) -> int:
        return next((int(part[name]) for name in names if part.get(name)), 0)

    query_heads = one_of(keys.QUERY_HEADS)
    heads = one_of(keys.KV_HEADS) or query_heads
    if part.get("multi_query_attention"):
        heads = int(part["multi_query_group_num"])
    if part.get("multi_query") and not part.get("new_decoder_architecture"):
        heads = 1
    head = one_of(keys.HEAD_SIZE) or one_of(keys.WIDTH) // query_heads
    in_force = part.get("sliding_window") and part.get("use_sliding_window", True)
    bits, layers = 0, one_of(keys.LAYERS)
    for layer in range(layers):
        plan = part.get("layer_types")
        kind = plan[layer] if plan else ("sliding_attention" if in_force else "attention")
        if not plan:
            kind = other_plan(part, layer) or kind
        held = {"sliding_attention": min(context_len, part.get("sliding_window") or context_len)}
        held |= {"full_attention": context_len, "attention": context_len}
        held |= {"chunked_attention": min(context_len, part.get("attention_chunk_size") or 0)}
        if layer >= layers - (part.get("num_kv_shared_layers") or 0):
            continue
        if part.get("block_configs"):
            group = part["block_configs"][layer]["attention"]["n_heads_in_group"]
            heads = query_heads // group if group else 0
        stored = 2 * heads * head
        if part.get("kv_lora_rank"):
            stored = part["kv_lora_rank"] + part["qk_rope_head_dim"]
        for _ in range(batch_size):
            bits += held.get(kind, 0) * stored * kv_bits
    return bits // 8


def other_plan(part: Config, layer: int) -> str:
    """Say what a layer is by a plan of the bonus table; nothing where there is none."""
    place = layer + 1  # counted from 1, unlike in the lesson
    if every := part.get("full_attention_interval"):
        return "full_attention" if place / every == place // every else "linear_attention"
    if every := part.get("sliding_window_pattern"):
        return "full_attention" if place / every == place // every else "sliding_attention"
    if period := part.get("attn_layer_period"):
        attending = range(part["attn_layer_offset"], part["num_hidden_layers"], period)
        return "full_attention" if layer in attending else "mamba"
    if signs := part.get("hybrid_override_pattern"):
        return {"*": "full_attention"}.get(signs[layer], "mamba")
    if part.get("attention_chunk_size"):
        return ("full_attention", "chunked_attention")[part["no_rope_layers"][layer]]
    return ""


def test_the_oracle_agrees_with_a_sum_over_layers(draft: Draft) -> None:
    right = draft.truth["answers.json"]
    for topic in SIZED:
        for i, question in enumerate(asked(draft, topic)):
            assert by_brute_force(**question) == right[f"{topic}/{i}"], (topic, question)


def test_the_runs_are_sized_row_by_row() -> None:
    draft = drawn(0)
    runs = public_runs("train").head(50)
    columns = (runs[name] for name in ("n_layers", "n_kv_heads", "head_dim", "kv_bits"))
    expected = [
        2 * layers * heads * head_dim * bits // 8
        for layers, heads, head_dim, bits in zip(*columns, strict=True)
    ]
    assert list(draft.truth["runs.npz"]["kv_bytes"]) == expected


# ---------------------------------------------------------------- every rule, on every seed


def test_every_topic_varies_batch_bits_and_context(draft: Draft) -> None:
    for topic in SIZED:
        questions = asked(draft, topic)
        assert all(q["batch_size"] > 1 for q in questions)
        assert {q["kv_bits"] for q in questions} == {8, 16}, topic
        assert len({q["batch_size"] for q in questions}) >= 3
        assert len({q["context_len"] for q in questions}) >= 3


def test_other_shapes_hold_every_head_size_and_both_widths(draft: Draft) -> None:
    shapes = asked(draft, "other_shapes")
    assert {s["kv_bits"] for s in shapes} == {8, 16}
    assert len({s["head_dim"] for s in shapes}) == 6
    assert len({s["n_kv_heads"] for s in shapes}) == 10
    assert len({s["n_layers"] for s in shapes}) == len(shapes)


@pytest.mark.parametrize("by_layer", [False, True])
def test_a_window_is_asked_below_and_above(draft: Draft, by_layer: bool) -> None:
    sides = {
        q["context_len"] > q["config"]["sliding_window"]
        for q in asked(draft, "windowed")
        if q["config"].get("sliding_window") and by_layer == ("layer_types" in q["config"])
    }
    assert sides == {False, True}


Rule = Callable[[Config], Any]


def has(key: str) -> Rule:
    return lambda c: key in inner(c)


def alone(key: str) -> Rule:
    return lambda c: inner(c).get(key) and "multi_query" not in c


def has_sign(sign: str) -> Rule:
    return lambda c: sign in c.get("hybrid_override_pattern", "")


def has_block(what: str) -> Rule:
    return lambda c: any(block["attention"][what] for block in c.get("block_configs") or ())


def lists(kind: str) -> Rule:
    return lambda c: kind in (c.get("layer_types") or ())


RULES: Mapping[str, Rule] = {
    "nested": lambda c: "text_config" in c,
    **{f"layers as {k}": has(k) for k in keys.LAYERS},
    **{f"query heads as {k}": has(k) for k in keys.QUERY_HEADS},
    **{f"{k} alone": alone(k) for k in keys.KV_HEADS[:3]},
    "kv_n_heads in attn_config": lambda c: "kv_n_heads" in c.get("attn_config", {}),
    "no KV heads": lambda c: not any(k in inner(c) for k in (*keys.KV_HEADS, "multi_query")),
    "multi_query": lambda c: c.get("multi_query") and not c.get("new_decoder_architecture"),
    "multi_query with named heads": lambda c: (
        c.get("multi_query") and c.get("num_kv_heads") and not c["new_decoder_architecture"]
    ),
    "multi_query off": lambda c: c.get("multi_query") is False,
    "new decoder": lambda c: c.get("new_decoder_architecture") and c.get("multi_query"),
    "groups": lambda c: c.get("multi_query_attention"),
    "groups off": lambda c: (
        c.get("multi_query_attention") is False and c.get("multi_query_group_num")
    ),
    "head_dim": lambda c: (
        c.get("head_dim") and c["head_dim"] * c["num_attention_heads"] != c["hidden_size"]
    ),
    "kv_channels": lambda c: (
        c.get("kv_channels") and c["kv_channels"] * c["num_attention_heads"] != c["hidden_size"]
    ),
    **{f"width as {k}": has(k) for k in keys.WIDTH},
    "latent": lambda c: c.get("kv_lora_rank"),
    "null, 0 and empty": lambda c: {None, 0} <= {v for v in c.values() if not isinstance(v, list)},
    "window off": lambda c: c.get("sliding_window") and c.get("use_sliding_window") is False,
    "window on by flag": lambda c: c.get("sliding_window") and c.get("use_sliding_window"),
    "window without flag": lambda c: c.get("sliding_window") and "use_sliding_window" not in c,
    **{
        kind: lists(kind)
        for kind in (
            *("full_attention", "attention", "sliding_attention"),
            *("linear_attention", "mamba", "conv"),
        )
    },
    "layer_types decides over a plan": lambda c: (
        c.get("layer_types") and c.get("sliding_window_pattern")
    ),
    "layer_types makes a type readable": lambda c: (
        c.get("layer_types") and c.get("model_type") in keys.PLAN_IN_CODE
    ),
    "the file around a text_config has keys too": lambda c: (
        "text_config" in c and "hidden_size" in c
    ),
    "positions below the context": lambda c: c.get("n_positions"),
    **{f"bonus: {k}": has(k) for k in (*keys.BONUS_PLANS, *keys.BONUS_CACHES)},
    "bonus: chunks by layer_types": lists("chunked_attention"),
    "bonus: offset": lambda c: c.get("attn_layer_offset"),
    **{f"bonus: {sign} in a pattern": has_sign(sign) for sign in "*ME-"},
    **{
        f"bonus: {what}": has_block(what)
        for what in ("n_heads_in_group", "no_op", "replace_with_linear")
    },
}


def test_every_rule_of_the_handout_is_asked(draft: Draft) -> None:
    configs = [q["config"] for topic in SIZED for q in asked(draft, topic)]
    unasked = [rule for rule, holds in RULES.items() if not any(map(holds, configs))]
    assert not unasked


def test_the_released_figures_are_asked_once_of_each_family(draft: Draft) -> None:
    asked_layers = {
        (inner(q["config"])["model_type"], inner(q["config"])["num_hidden_layers"])
        for rung in RUNGS
        for q in asked(draft, rung)
    }
    for family, facts in FAMILIES.items():
        assert (family, facts["layers"]) in asked_layers
        assert facts["model"]
        assert facts["source"]


def test_no_question_of_the_core_needs_a_key_that_earns_a_bonus(draft: Draft) -> None:
    """Whoever refuses those keys keeps every point of the core."""
    earning = {*keys.BONUS_PLANS, *keys.BONUS_CACHES}
    for topic in (*CORE, "refused"):
        for question in asked(draft, topic):
            config = inner(question["config"])
            there = {key for key in earning if config.get(key)}
            assert not there or (config.get("layer_types") and there <= {"sliding_window_pattern"})


def test_whoever_stops_at_the_core_has_its_fifteen_points(tmp_path: Path) -> None:
    write_questions(tmp_path, (12).to_bytes(32, "big"), 0, slugs=(MILESTONE.slug,))
    (core_only,) = (m for m in named_mistakes(MILESTONE.slug) if m.name == "core_only")
    calls = WHOLE_MILESTONE.calls(Files(tmp_path / "questions"))
    with reference(MILESTONE.slug).with_edits(core_only.edits) as namespace:
        answers = Answers(answer_all(namespace, calls, tmp_path / "questions", MILESTONE.slug))
    reports = judge(WHOLE_MILESTONE, answers, Files(tmp_path / "truth"), (), public=True)
    report = MilestoneReport(MILESTONE.slug, "", "", reports)
    assert (report.points, report.points_max) == (15, 15)
    assert (report.bonus, report.bonus_max) == (0, 3)


BASE: Config = {"num_hidden_layers": 8, "num_attention_heads": 8, "hidden_size": 1_024}


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"full_attention_interval": 4, "attn_layer_period": 4}, "full_attention_interval"),
        ({"sliding_window_pattern": "LLLG", "sliding_window": 512}, "sliding_window_pattern"),
        ({"sliding_window_pattern": 4}, "sliding_window"),
        ({"attn_layer_period": 4}, "attn_layer_offset"),
        ({"hybrid_override_pattern": "M-M*M-Q*"}, "hybrid_override_pattern"),
        ({"hybrid_override_pattern": "M-M*"}, "layer_types"),
        ({"attention_chunk_size": 512}, "attention_chunk_size"),
        ({"no_rope_layers": [1, 0] * 4}, "no_rope_layers"),
        ({"attention_chunk_size": 512, "no_rope_layers": [1, 0]}, "layer_types"),
        ({"layer_types": ["chunked_attention"] * 8}, "attention_chunk_size"),
        ({"num_kv_shared_layers": 8}, "num_kv_shared_layers"),
        ({"block_configs": [{"attention": {"n_heads_in_group": 4}}]}, "block_configs"),
        ({"block_configs": [{"attention": {"n_heads_in_group": None}}] * 8}, "block_configs"),
        (
            {"block_configs": [{"attention": {"n_heads_in_group": 4, "window_length": 9}}] * 8},
            "block_configs",
        ),
    ],
)
def test_the_reference_refuses_a_rung_that_says_too_little_or_too_much(
    more: Config, key: str
) -> None:
    with pytest.raises(ValueError, match=rf"\b{key}\b"):
        from_config(BASE | more, 4_096, 1, 16)


def test_an_offset_of_zero_is_an_offset() -> None:
    config = BASE | {"attn_layer_period": 4, "attn_layer_offset": 0}
    assert from_config(config, 100, 1, 16) == 2 * 100 * 2 * 1_024 * 2


def test_the_worked_example_of_the_handout_is_right() -> None:
    handout = (ROOT / "milestones/m2_kv_bytes/handout.md").read_text(encoding="utf-8")
    example = json.loads(handout.partition("```json\n")[2].partition("```")[0])
    assert f"{from_config(example, 8_192, 2, 16):,} bytes" in handout


def test_every_refusal_of_the_handout_is_asked(draft: Draft) -> None:
    named = [set(draft.truth["answers.json"][f"refused/{i}"]) for i in range(21)]
    assert len(asked(draft, "refused")) == len(named)
    for key in (
        *("num_hidden_layers", "num_attention_heads", "hidden_size", "multi_query_group_num"),
        *("qk_rope_head_dim", "layer_types", "sliding_window", "max_window_layers", "model_type"),
    ):
        assert any(key in found for found in named), key
    assert sum(len(found & set(keys.LAYER_PLANS)) for found in named) >= 3
    assert sum(len(found & set(keys.OTHER_CACHES)) for found in named) >= 3
    configs = [inner(q["config"]) for q in asked(draft, "refused")]
    listed = {
        int(np.sign(len(c["layer_types"]) - c["num_hidden_layers"]))
        for c in configs
        if c.get("layer_types") and c.get("num_hidden_layers")
    }
    assert listed == {-1, 0, 1}


def test_the_reference_refuses_by_a_right_name(draft: Draft) -> None:
    for i, question in enumerate(asked(draft, "refused")):
        with pytest.raises(ValueError, match=r"\w") as caught:
            from_config(**question)
        named = keys.named_in(str(caught.value))
        assert named & set(draft.truth["answers.json"][f"refused/{i}"]), (question, caught.value)
        assert len(named) <= keys.MOST_NAMED


def test_the_handout_and_the_notebook_name_the_same_keys() -> None:
    handout = (ROOT / "milestones/m2_kv_bytes/handout.md").read_text(encoding="utf-8")
    assert not [k for k in (*keys.KEYS, *keys.PLAN_IN_CODE) if f"`{k}" not in handout]
    given = reference("m2_kv_bytes").namespace
    assert given["LAYER_PLANS"] == keys.LAYER_PLANS
    assert given["OTHER_CACHES"] == keys.OTHER_CACHES
    assert given["PLAN_IN_CODE"] == keys.PLAN_IN_CODE
    assert given["BONUS_PLANS"] == keys.BONUS_PLANS
    assert given["BONUS_CACHES"] == keys.BONUS_CACHES


# ---------------------------------------------------------------- judging


def test_right_answers_earn_every_point(exam: Exam) -> None:
    assert (WHOLE_MILESTONE.points, WHOLE_MILESTONE.bonus) == (15, 3)
    assert all(verdict.passed for verdict in exam.judged(exam.right).values())


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk)[:20])
def test_junk_never_passes_and_never_crashes(exam: Exam, junk: Any) -> None:
    arrays = (np.array(3.0), np.zeros(0), np.full((2, 2), np.nan), np.full(5, np.inf))

    def answer(call: Call) -> Any:
        if call.topic == "runs":
            return arrays[JUNK.index(junk) % len(arrays)]
        return JUNK_RAISED[JUNK.index(junk) % len(JUNK_RAISED)] if call.topic == "refused" else junk

    assert not any(verdict.passed for verdict in exam.judged(answer).values())


@pytest.mark.parametrize("value", JUNK_RAISED, ids=lambda value: repr(value)[:40])
def test_no_single_refusal_fits_all(exam: Exam, value: Any) -> None:
    assert not exam.judged(lambda _: value)["unreadable_configs"].passed


def test_refusals_wait_for_a_config_that_is_read() -> None:
    check = next(check for check in CHECKS if check.name == "unreadable_configs")
    assert check.needs == ("plain_configs",)


# ---------------------------------------------------------------- released models


def measured() -> list[dict[str, str]]:
    with (CONFIGS / "ground_truth.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.skipif(
    not (CONFIGS / "ground_truth.csv").exists(),
    reason="the measured config files of released models do not lie beside this checkout",
)
def test_no_released_config_is_sized_wrongly() -> None:
    wrong, right = [], 0
    for row in measured():
        config = json.loads((CONFIGS / f"{row['config']}.json").read_text(encoding="utf-8"))
        try:
            size = from_config(config, int(row["context_len"]), 1, 16)
        except ValueError:
            continue
        if size == float(row["serving_kv_bytes"]):
            right += 1
        else:
            wrong.append((row["config"], row["context_len"], size))
    assert not wrong
    assert right >= 213
