"""Lab x4: its truth against second formulations, its checks against junk, constants and honesty."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from milestones.questions import read_questions
from milestones.spec import Answer, Answers, Call, Check, Files
from milestones.x4_ceiling import MILESTONE as WHOLE_MILESTONE
from milestones.x4_ceiling.calls import FUNCTIONS
from milestones.x4_ceiling.checks import CACHE_RTOL
from solutions.draft import Draft
from solutions.small_lm.inference import logits_of
from solutions.x4_ceiling import oracle
from solutions.x4_ceiling.allocator import play
from solutions.x4_ceiling.oracle import FIRST, POLICIES, draw
from tests.milestones.closing import without_closing
from tests.milestones.drawing import drawn_by, write_split

MILESTONE = without_closing(WHOLE_MILESTONE)
SLUG = MILESTONE.slug
LLAMA_8B = {"n_layers": 32, "n_kv_heads": 8, "head_dim": 128, "params_b": 8.0303}
H100 = {"gpu_memory_gb": 80.0, "gpu_bandwidth_gbps": 3350.0, "gpu_tflops": 989.0}


def drawn(seed: int) -> Draft:
    return drawn_by(draw, seed)


def asked(seed: int, topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = drawn(seed).questions["questions.json"][topic]
    return found


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_split(drawn(11), tmp_path_factory.mktemp("split"), SLUG)


@pytest.fixture(scope="module")
def truth(split: Path) -> Files:
    return Files(split / "truth")


@pytest.fixture(scope="module")
def calls(split: Path) -> list[Call]:
    return MILESTONE.calls(Files(split / "questions"))


# ---------------------------------------------------------------- points


def test_the_lab_is_worth_five_bonus_points_and_none_of_the_course() -> None:
    assert WHOLE_MILESTONE.points == 0
    assert WHOLE_MILESTONE.bonus == 5
    assert [question.points for question in read_questions(SLUG)] == [0.25] * 3


# ---------------------------------------------------------------- limits


def test_the_machine_of_the_notebook_has_the_limits_that_its_text_derives() -> None:
    found = oracle.limits(model=LLAMA_8B, gpu=H100, weight_bits=16, kv_bits=16, context_len=4096)
    assert found["cache_batch"] == pytest.approx(29.9, abs=0.05)
    assert found["compute_batch"] == pytest.approx(295, abs=0.5)
    assert found["memory_batch"] == 107
    assert found["first"] == "cache"


@pytest.mark.parametrize("seed", range(3))
def test_at_each_limit_the_times_are_equal_and_the_memory_is_full(seed: int) -> None:
    firsts, nothing = set(), 0
    for args in asked(seed, "ceilings"):
        right = oracle.limits(**args)
        model, gpu = args["model"], args["gpu"]
        weights = model["params_b"] * 1e9 * args["weight_bits"] / 8
        token = 2 * model["n_layers"] * model["n_kv_heads"] * model["head_dim"]
        request = token * args["kv_bits"] / 8 * args["context_len"]
        read_s = weights / (gpu["gpu_bandwidth_gbps"] * 1e9)
        cache_s = right["cache_batch"] * request / (gpu["gpu_bandwidth_gbps"] * 1e9)
        work = 2 * model["params_b"] * 1e9 * right["compute_batch"]
        assert cache_s == pytest.approx(read_s, rel=1e-9)
        assert work / (gpu["gpu_tflops"] * 1e12) == pytest.approx(read_s, rel=1e-9)
        usable = args.get("memory_fraction", 0.92) * gpu["gpu_memory_gb"] * 1e9
        held = right["memory_batch"]
        assert weights + (held + 1) * request > usable
        assert held == 0 or weights + held * request <= usable
        firsts.add(right["first"])
        nothing += weights > usable
    assert firsts == set(FIRST)
    assert nothing >= 2


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("seed", range(3))
def test_waste_in_closed_form_is_what_looking_step_by_step_gives(seed: int) -> None:
    for args in asked(seed, "waste"):
        policy, size, longest = args["policy"], args["block_size"], args["max_len"]
        held = [prompt + made for prompt, out in args["requests"] for made in range(1, out + 1)]
        kept = [
            {
                "longest": longest,
                "exact": prompt + out,
                "power_of_two": min(longest, prompt + 2 ** math.ceil(math.log2(out))),
                "paged": math.ceil((prompt + made) / size) * size,
            }[policy]
            for prompt, out in args["requests"]
            for made in range(1, out + 1)
        ]
        assert oracle.wasted(**args) == pytest.approx(1 - sum(held) / sum(kept), rel=1e-12)


def test_three_requests_in_six_blocks_run_as_the_notebook_plays_them_on_paper() -> None:
    played = play("paged", [[3, 4]] * 3, 12, 8, 2)
    assert [batch for batch, _ in played.steps] == [3, 2, 2, 1, 1, 1, 1, 1]
    assert played.put_back == 2


@pytest.mark.parametrize("seed", range(3))
def test_every_schedule_makes_every_token_within_the_memory(seed: int) -> None:
    seen = set()
    for args in asked(seed, "schedule"):
        played = play(**args)
        outputs = sum(output for _, output in args["requests"])
        assert sum(batch for batch, _ in played.steps) == outputs
        assert max(tokens for _, tokens in played.steps) <= args["capacity_tokens"]
        assert played.put_back == 0 or args["policy"] == "paged"
        assert len(played.steps) >= max(output for _, output in args["requests"])
        seen.add((args["policy"], played.put_back > 0, played.overtaken))
    assert {policy for policy, _, _ in seen} == set(POLICIES)
    assert ("paged", True, True) in seen


def test_paging_never_takes_more_steps_than_the_longest_piece_on_a_long_queue() -> None:
    rng = np.random.default_rng(0)
    requests = [[int(p), int(o)] for p, o in rng.integers(2, 40, (60, 2))]
    n_steps = {policy: len(play(policy, requests, 300, 80, 4).steps) for policy in POLICIES}
    assert n_steps["paged"] <= n_steps["exact"] <= n_steps["power_of_two"] < n_steps["longest"]


# ---------------------------------------------------------------- shared beginnings


@pytest.mark.parametrize(
    ("prompts", "shared", "blocks"),
    [
        ([[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7]], False, 4),
        ([[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7]], True, 3),
        ([[9, 9, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6]], True, 4),
        ([[1, 2, 3, 4], [1, 2, 3, 4]], True, 1),
        ([[1, 2, 3, 4, 1, 2, 3, 4]], True, 2),  # the same tokens, other tokens before them
        ([[5], [5]], True, 2),
    ],
)
def test_only_full_blocks_with_the_same_past_are_shared(
    prompts: list[list[int]], shared: bool, blocks: int
) -> None:
    assert oracle.blocks_of_prompts(prompts, 4, shared) == blocks


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize("seed", range(3))
def test_entropies_are_sums_over_shares_and_lie_between_none_and_eight_bits(seed: int) -> None:
    for args in asked(seed, "entropy"):
        shares = np.unique(args["data"], return_counts=True)[1] / len(args["data"])
        found = oracle.entropy(args["data"])
        assert found == pytest.approx(-np.sum(shares * np.log2(shares)), rel=1e-12)
        assert 0.05 < found <= 8
    assert oracle.entropy(range(8)) == 3


@pytest.mark.parametrize("seed", range(3))
def test_planes_put_together_by_the_formats_definition_are_the_numbers(seed: int) -> None:
    fields = {"float16": (5, 10, 15), "bfloat16": (8, 7, 127)}  # exponent, mantissa, bias
    for args in asked(seed, "planes"):
        n_exponent, n_mantissa, bias = fields[args["kind"]]
        for number, high, low in zip(args["numbers"], *oracle.planes(**args), strict=True):
            word = 256 * high + low
            exponent = (word >> n_mantissa) % 2**n_exponent
            fraction = word % 2**n_mantissa / 2**n_mantissa
            size = 0.0 if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - bias)
            assert number == size * (1 - 2 * (word >> 15))


def test_another_precision_moves_a_caches_entropies_far_less_than_their_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def exact(lm: dict[str, Any], tokens: np.ndarray, **hooks: Any) -> np.ndarray:
        weights = {
            **lm,
            "embedding": lm["embedding"].astype(np.float64),
            "layers": [
                {k: w.astype(np.float64) for k, w in layer.items()} for layer in lm["layers"]
            ],
        }
        return logits_of(weights, tokens, **hooks)

    cases = [args for seed in range(4) for args in asked(seed, "cache")]
    single = np.array([oracle.entropies_of_cache(**args) for args in cases])
    monkeypatch.setattr(oracle, "logits_of", exact)
    double = np.array([oracle.entropies_of_cache(**args) for args in cases])
    assert np.abs(double / single - 1).max() < CACHE_RTOL / 2


# ---------------------------------------------------------------- how answers are judged


def right_answers(calls: list[Call], truth: Files) -> dict[str, Any]:
    """Return the right answers by call id, in the form that they arrive in."""
    right: dict[str, Any] = truth.json(f"{SLUG}/numbers.json")
    for topic, (_, returns) in FUNCTIONS.items():
        if returns == "array":
            right |= truth.arrays(f"{SLUG}/{topic}.npz")
    assert right.keys() == {call.id for call in calls}
    return right


def answered(calls: list[Call], values: dict[str, Any]) -> Answers:
    return Answers({call.id: Answer(call, values[call.id]) for call in calls})


def test_right_answers_pass_every_check(calls: list[Call], truth: Files) -> None:
    answers = answered(calls, right_answers(calls, truth))
    assert all(check.judge(answers, truth).passed for check in MILESTONE.checks)


@pytest.mark.parametrize("check", MILESTONE.checks, ids=lambda check: check.name)
def test_no_answer_that_is_the_same_for_every_question_passes(
    check: Check, calls: list[Call], truth: Files
) -> None:
    right = right_answers(calls, truth)
    for call in calls:
        if call.topic in check.topics:
            same = answered(
                calls, right | {c.id: right[call.id] for c in calls if c.topic == call.topic}
            )
            assert check.judge(same, truth).share == 0.0, call.id


def junk(right: Any) -> Iterator[Any]:
    """Yield wrong answers of many forms."""
    if isinstance(right, np.ndarray):
        shape = right.shape
        yield from (np.zeros(shape), np.full(shape, np.nan), np.full(shape, np.inf))
        yield from (np.full(shape, -1e308), right[None], right[:-1], right.astype(float) + 1)
    yield from (np.ones(()), np.ones(7), np.ones((2, 3, 4)), np.zeros((0, 2)), np.zeros(0))
    yield from (None, True, False, -1, 10**300, -1.5, "16", "", [], [1, [2]], {}, {"a": None})
    yield from ({"first": []}, {"first": "all"}, {"cache_batch": "many", "first": 3})
    yield {"cache_batch": 1e308, "compute_batch": 0, "memory_batch": -1, "first": None}


def test_junk_never_crashes_a_check_or_its_comparison_and_never_passes(
    calls: list[Call], truth: Files
) -> None:
    right = right_answers(calls, truth)
    columns = {call.id: list(junk(right[call.id])) for call in calls}
    for turn in range(max(map(len, columns.values()))):
        values = {name: column[turn % len(column)] for name, column in columns.items()}
        answers = answered(calls, values)
        for check in MILESTONE.checks:
            verdict = check.judge(answers, truth)
            assert verdict.share == 0.0, (check.name, turn)
            assert verdict.detail, (check.name, turn)
            if check.compare is not None:
                check.compare(answers, truth, lambda path: pd.DataFrame())  # noqa: ARG005


def test_what_is_said_on_a_hidden_split_holds_no_value(calls: list[Call], truth: Files) -> None:
    right = right_answers(calls, truth)
    for value in (0, None, np.zeros(3), {"first": "memory"}):
        answers = answered(calls, dict.fromkeys(right, value))
        for check in MILESTONE.checks:
            verdict = check.judge(answers, truth)
            told = verdict.remark.removeprefix("Off in ")
            assert not any(letter.isdigit() for letter in told.partition(" answers")[2])


def test_question_files_and_truth_are_small(split: Path) -> None:
    for kind in ("questions", "truth"):
        size = sum(path.stat().st_size for path in (split / kind).rglob("*") if path.is_file())
        assert size < 150_000  # bytes
