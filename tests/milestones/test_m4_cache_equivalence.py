"""Milestone 4: its truth against scalar arithmetic, its checks against junk and honest variety."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader.ask import Desk, with_arrays
from grader.places import Places
from grader.trouble import Trouble
from milestones.m4_cache_equivalence import MILESTONE as WHOLE_MILESTONE
from milestones.m4_cache_equivalence.depart import ATOL, RTOL
from milestones.spec import Answer, Answers, Check, Files, Result, Tree
from solutions.draft import Draft
from solutions.m4_cache_equivalence.oracle import MAX_LEN, OVERFLOWS, draw
from solutions.m4_cache_equivalence.transformer import Params, chain, first_scores, stretch
from tests.milestones.closing import without_closing
from tests.milestones.drawing import drawn_by, write_split

MILESTONE = without_closing(WHOLE_MILESTONE)
SLUG = MILESTONE.slug


def drawn(seed: int) -> Draft:
    return drawn_by(draw, seed)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_split(drawn(11), tmp_path_factory.mktemp("split"), SLUG)


@pytest.fixture(scope="module")
def truth(split: Path) -> Files:
    return Files(split / "truth")


@pytest.fixture(scope="module")
def models(split: Path) -> dict[str, Params]:
    found = with_arrays(Files(split / "questions").json(f"{SLUG}/models.json"))
    assert isinstance(found, dict)
    return found


# ---------------------------------------------------------------- a model in plain scalars

Vector = list[float]


def times(x: Vector, w: np.ndarray) -> Vector:
    return [math.fsum(x[i] * float(w[i, j]) for i in range(len(x))) for j in range(w.shape[1])]


def normed(x: Vector) -> Vector:
    root = math.sqrt(math.fsum(a * a for a in x) / len(x) + 1e-6)
    return [a / root for a in x]


class Scalars:
    """A decoder with a cache that knows no arrays: one number at a time, sums without rounding."""

    def __init__(self, params: Params) -> None:
        self.kept: list[list[tuple[Vector, Vector]]] = [[] for _ in params["layers"]]

    def step(self, params: Params, token: int) -> Vector:
        t, size = len(self.kept[0]), params["head_dim"]
        x = [
            float(a) + float(b)
            for a, b in zip(params["embedding"][token], params["position"][t], strict=True)
        ]
        for kept, layer in zip(self.kept, params["layers"], strict=True):
            h = normed(x)
            kept.append((times(h, layer["w_k"]), times(h, layer["w_v"])))
            q = times(h, layer["w_q"])
            out: Vector = []
            for head in range(params["n_heads"]):
                shared_by = params["n_heads"] // params["n_kv_heads"]
                at = (head // shared_by) * size
                dots = [
                    math.fsum(q[head * size + c] * k[at + c] for c in range(size)) for k, _ in kept
                ]
                odds = [math.exp((dot - max(dots)) / math.sqrt(size)) for dot in dots]
                for c in range(size):
                    mixed = math.fsum(o * v[at + c] for o, (_, v) in zip(odds, kept, strict=True))
                    out.append(mixed / math.fsum(odds))
            x = [a + b for a, b in zip(x, times(out, layer["w_o"]), strict=True)]
            up = [max(a, 0.0) for a in times(normed(x), layer["w_up"])]
            x = [a + b for a, b in zip(x, times(up, layer["w_down"]), strict=True)]
        return times(normed(x), params["unembedding"])


def within(value: Any, right: Any, share: float) -> bool:
    """Whether `value` differs from `right` by at most a share of what the checks allow."""
    bound = ATOL + RTOL * np.abs(right)
    return bool((np.abs(np.asarray(value) - right) <= share * bound).all())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_truth_is_what_scalar_arithmetic_gives_far_inside_the_bound(seed: int) -> None:
    draft = drawn(seed)
    models = with_arrays(draft.questions["models.json"])
    asked = draft.questions["questions.json"]
    for topic in ("large", "grouped", "steps", "swapped"):
        for name, case in asked[topic].items():
            scalars = Scalars(models[case["models"][0]])
            for t, (model, token) in enumerate(zip(case["models"], case["tokens"], strict=True)):
                right = draft.truth[f"logits/{topic}.npz"][f"{topic}/{name}/{t}"]
                assert within(scalars.step(models[model], token), right, share=0.05), (topic, name)


def test_one_token_attends_to_itself_alone_whatever_the_queries() -> None:
    # Embedding (3, 4) has mean square 12.5; values pass through, w_o doubles, so x = e + 2 norm(e).
    eye = np.eye(2)
    layer = {"w_q": 5 * eye, "w_k": 7 * eye, "w_v": eye, "w_o": 2 * eye}
    params: Params = {
        "n_heads": 1,
        "n_kv_heads": 1,
        "head_dim": 2,
        "embedding": np.array([[3.0, 4.0]]),
        "position": np.zeros((1, 2)),
        "layers": [{**layer, "w_up": np.zeros((2, 1)), "w_down": np.zeros((1, 2))}],
        "unembedding": eye,
    }
    logits, _ = stretch(params, [0])
    # 3 : 4 stays 3 : 4, and the last norm makes the mean square 1: (3, 4) / sqrt(12.5).
    assert logits[0] == pytest.approx([3 / math.sqrt(12.5), 4 / math.sqrt(12.5)], rel=1e-6)


def test_stretches_of_any_length_give_what_the_whole_sequence_gives(
    models: dict[str, Params],
) -> None:
    tokens = [1, 2, 3, 3, 5, 1]
    whole, _ = stretch(models["grouped"], tokens)
    first, past = stretch(models["grouped"], tokens[:2])
    second, _ = stretch(models["grouped"], tokens[2:], past)
    assert within(np.concatenate([first, second]), whole, share=0.05)


def test_a_change_of_parameters_is_neither_all_old_nor_all_new(models: dict[str, Params]) -> None:
    old, new = models["multi_head"], models["multi_head_new"]
    tokens = [4, 5, 6, 7]
    mixed = chain(list(zip([old, old, new, new], tokens, strict=True)))
    all_old, all_new = stretch(old, tokens)[0], stretch(new, tokens)[0]
    assert within(mixed[:2], all_old[:2], share=0.05)
    assert np.abs(mixed[2:] - all_old[2:]).max() > 1e-2
    assert np.abs(mixed[2:] - all_new[2:]).max() > 1e-2


# ---------------------------------------------------------------- what is drawn


def test_sixteen_tokens_take_16_key_projections_with_a_cache_and_136_without(split: Path) -> None:
    asked = json.loads((split / "questions" / SLUG / "questions.json").read_text())["counts"]
    right = json.loads((split / "truth" / SLUG / "counts.json").read_text())
    found = {
        (entry["n_tokens"], entry["use_cache"]): right[f"counts/{i}"]
        for i, entry in enumerate(asked)
    }
    assert found[16, True] == 16
    assert found[16, False] == 136
    assert found[1, True] == found[1, False] == 1
    assert all(n == (t if cached else t * (t + 1) // 2) for (t, cached), n in found.items())


@pytest.mark.parametrize("seed", range(10))
def test_models_differ_in_every_size_and_hold_the_kinds_of_attention(seed: int) -> None:
    models = with_arrays(drawn(seed).questions["models.json"])
    kinds = set()
    for params in models.values():
        heads, kv, size = params["n_heads"], params["n_kv_heads"], params["head_dim"]
        vocab, width = params["embedding"].shape
        assert heads * size != width
        assert 11 <= vocab <= 40
        assert 1 <= len(params["layers"]) <= 3
        kinds.add("MHA" if kv == heads else "MQA" if kv == 1 else "GQA")
    assert kinds == {"MHA", "GQA", "MQA"}


@pytest.mark.parametrize("seed", range(10))
def test_large_scores_overflow_a_naive_softmax_and_one_that_cuts_scores_off(seed: int) -> None:
    draft = drawn(seed)
    params = with_arrays(draft.questions["models.json"])["large"]
    case = draft.questions["questions.json"]["large"]["large"]
    scores = first_scores(params, case["tokens"])
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(scores)).sum(axis=-1).max() >= 2
    assert (scores > OVERFLOWS).any()
    assert np.isfinite(draft.truth["logits/large.npz"]["large/large/all"]).all()


def test_weights_survive_the_way_to_the_student_and_one_chain_fills_every_position(
    split: Path,
) -> None:
    draft = drawn(11)
    written = json.loads((split / "questions" / SLUG / "models.json").read_text())
    assert written == draft.questions["models.json"]
    asked = draft.questions["questions.json"]["steps"]["multi_head"]["tokens"]
    assert len(asked) == MAX_LEN
    assert len(set(asked)) < len(asked), "a repeated token"


def test_tokens_reach_the_student_as_ints_and_models_as_arrays(split: Path) -> None:
    for call in MILESTONE.calls(Files(split / "questions")):
        if call.function == "full_logits":
            assert all(type(token) is int for token in call.args["tokens"])
        if call.function == "decode_step":
            assert type(call.args["token"]) is int
            assert isinstance(call.args["params"], Tree)
            assert isinstance(call.args["cache"], Result)


def test_question_files_are_small(split: Path) -> None:
    size = sum(path.stat().st_size for path in split.rglob("*") if path.is_file())
    assert size < 600_000  # bytes


# ---------------------------------------------------------------- how answers are judged


def put(functions: Mapping[str, Callable[..., Any]], split: Path) -> Answers:
    """Ask functions in this process, as a room would, without its packing."""
    models = json.loads((split / "questions" / SLUG / "models.json").read_text())
    kept: dict[str, Any] = {}
    found = {}
    for call in MILESTONE.calls(Files(split / "questions")):
        args = dict(call.args)
        if "params" in args:
            args["params"] = with_arrays(models[args["params"].pick[0]])
        if "cache" in args:
            passed_on = kept[args["cache"].call_id]
            args["cache"] = passed_on if args["cache"].item is None else passed_on[1]
        value = kept[call.id] = functions[call.function](**args)
        if call.returns == "kept":
            value = None
        found[call.id] = Answer(call, value[0] if call.returns == "array_and_kept" else value)
    return Answers(found)


def verdicts(answers: Answers, truth: Files) -> dict[str, bool]:
    return {check.name: check.judge(answers, truth).passed for check in MILESTONE.checks}


def lists_of_tuples() -> dict[str, Callable[..., Any]]:
    """An honest solution of another build: scalars, a cache that is copied at every step."""

    def step(params: Params, cache: Scalars, token: int) -> tuple[np.ndarray, Scalars]:
        grown = Scalars(params)
        grown.kept = [list(layer) for layer in cache.kept]
        return np.array(grown.step(params, token)), grown

    def full(params: Params, tokens: Sequence[int]) -> np.ndarray:
        scalars = Scalars(params)
        return np.array([scalars.step(params, token) for token in tokens])

    def count(n_tokens: int, use_cache: bool) -> int:
        return sum(1 if use_cache else t + 1 for t in range(n_tokens))

    return {
        "full_logits": full,
        "new_cache": Scalars,
        "decode_step": step,
        "count_key_projections": count,
    }


def test_another_honest_build_passes_every_check(split: Path, truth: Files) -> None:
    assert all(verdicts(put(lists_of_tuples(), split), truth).values())


def test_a_step_that_recomputes_from_tokens_is_told_by_changed_parameters(
    split: Path, truth: Files
) -> None:
    honest = lists_of_tuples()

    def step(params: Params, cache: list[int], token: int) -> tuple[np.ndarray, list[int]]:
        tokens = [*cache, token]
        return honest["full_logits"](params, tokens)[-1], tokens

    functions = honest | {"new_cache": lambda params: [], "decode_step": step}  # noqa: ARG005
    failed = [name for name, good in verdicts(put(functions, split), truth).items() if not good]
    assert failed == ["old_entries_stay"]


def test_a_cache_that_keeps_the_first_parameters_is_told_too(split: Path, truth: Files) -> None:
    honest = lists_of_tuples()

    def new(params: Params) -> tuple[Params, Scalars]:
        return params, Scalars(params)

    def step(params: Params, cache: tuple[Params, Scalars], token: int) -> tuple[np.ndarray, Any]:  # noqa: ARG001
        return np.array(cache[1].step(cache[0], token)), cache

    functions = honest | {"new_cache": new, "decode_step": step}
    failed = [name for name, good in verdicts(put(functions, split), truth).items() if not good]
    assert failed == ["old_entries_stay"]


def test_single_precision_is_not_close_enough(split: Path, truth: Files) -> None:
    honest = put(lists_of_tuples(), split)
    rounded = {
        key: Answer(
            answer.call,
            answer.value.astype(np.float32).astype(np.float64)
            if isinstance(answer.value, np.ndarray)
            else answer.value,
        )
        for key, answer in honest.by_id.items()
    }
    found = verdicts(Answers(rounded), truth)
    assert not found["full_logits_right"]
    assert not found["every_step"]
    of_sequences = next(c for c in MILESTONE.checks if c.name == "full_logits_right")
    assert "float32" in of_sequences.judge(Answers(rounded), truth).think
    flipped = {
        key: Answer(a.call, -a.value if isinstance(a.value, np.ndarray) else a.value)
        for key, a in honest.by_id.items()
    }
    assert of_sequences.judge(Answers(flipped), truth).think == ""


def test_logits_of_the_other_sign_pass_as_causal_and_as_nothing_else(
    split: Path, truth: Files
) -> None:
    honest = put(lists_of_tuples(), split)
    negated = {
        key: Answer(a.call, None if a.value is None else -a.value)
        for key, a in honest.by_id.items()
    }
    passing = [name for name, good in verdicts(Answers(negated), truth).items() if good]
    assert passing == ["only_the_past_counts"]


def junk(rng: np.random.Generator, right: Any) -> Iterator[Any]:
    """Yield wrong answers of many forms; `right` is what they should have been, or None."""
    if isinstance(right, np.ndarray):
        shape = right.shape
        yield from (np.zeros(shape), np.full(shape, np.nan), np.full(shape, np.inf))
        yield from (-np.full(shape, np.inf), np.full(shape, 1e308), right.T[..., None])
        yield from (rng.normal(size=shape), np.zeros((0, *shape[1:])), right[:-1], right[None])
        yield np.array([1e308, -1e308])[rng.integers(0, 2, size=shape)]
    yield from (np.float64(3.0) * np.ones(()), np.ones(7), np.ones((2, 3, 4)), np.zeros(0))
    yield from (None, True, False, -1, 0, 10**300, 1.5, "16", "", [], [1, [2]], {}, {"a": None})


def test_junk_never_crashes_a_check_and_never_passes(split: Path, truth: Files) -> None:
    calls = MILESTONE.calls(Files(split / "questions"))
    right = {
        name: row
        for path in (split / "truth" / SLUG / "logits").iterdir()
        for name, row in truth.arrays(f"{SLUG}/logits/{path.name}").items()
    }
    rng = np.random.default_rng(0)
    columns = {call.id: list(junk(rng, right.get(call.id))) for call in calls}
    for turn in range(max(map(len, columns.values()))):
        answers = Answers(
            {c.id: Answer(c, columns[c.id][turn % len(columns[c.id])]) for c in calls}
        )
        for check in MILESTONE.checks:
            assert check.judge(answers, truth).share == 0.0, (check.name, turn)


@pytest.mark.parametrize("check", MILESTONE.checks, ids=lambda check: check.name)
def test_one_bad_value_among_right_answers_fails_its_check(
    check: Check, split: Path, truth: Files
) -> None:
    honest = put(lists_of_tuples(), split)
    last = [a for a in honest.under(check.topics[0]) if a.value is not None][-1]
    value = last.value.copy() if isinstance(last.value, np.ndarray) else last.value
    if isinstance(value, np.ndarray):
        value.flat[0] = np.nan
    else:
        value += 1
    by_id = {**honest.by_id, last.call.id: Answer(last.call, value)}
    assert not check.judge(Answers(by_id), truth).passed


def test_what_is_said_on_a_hidden_split_holds_no_value(split: Path, truth: Files) -> None:
    zeros: dict[str, Callable[..., Any]] = {
        "full_logits": lambda params, tokens: np.zeros((len(tokens), len(params["embedding"]))),
        "new_cache": lambda params: None,  # noqa: ARG005
        "decode_step": lambda params, cache, token: (  # noqa: ARG005
            np.zeros(len(params["embedding"])),
            None,
        ),
        "count_key_projections": lambda n_tokens, use_cache: 0,  # noqa: ARG005
    }
    answers = put(zeros, split)
    for check in MILESTONE.checks:
        verdict = check.judge(answers, truth)
        assert not verdict.passed
        told = re.sub(r"^Off in \d+ of \d+ answers", "", verdict.remark)  # a count of the whole
        assert not any(letter.isdigit() for letter in told), verdict.remark
        assert not any(name in verdict.remark for name in ("one_layer", "multi_head", "grouped"))


@pytest.mark.parametrize(
    "returned", [None, np.ones(20), (np.ones(20),), [np.ones(20)] * 3, (None, None), {}]
)
def test_a_step_that_returns_no_pair_ends_its_chain_in_a_sentence(
    split: Path, returned: Any
) -> None:
    namespace = {"new_cache": lambda params: None, "decode_step": lambda **_: returned}  # noqa: ARG005
    desk = Desk(Places(split, split / "questions"))
    for call in MILESTONE.calls(Files(split / "questions")):
        if call.function == "decode_step":
            assert isinstance(desk.ask(namespace, call), Trouble)
        elif call.function == "new_cache":
            assert desk.ask(namespace, call) == ("none", b"")


def test_points_add_up_to_fifteen() -> None:
    assert WHOLE_MILESTONE.points == 15
