"""Lab x3: its truth against scalars and fractions, its checks against honest variety and junk."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from grader.ask import with_arrays
from milestones.compare import TruthError
from milestones.m4_cache_equivalence.depart import ATOL, RTOL
from milestones.spec import Answer, Answers, Check, Files
from milestones.x3_latent_attention import MILESTONE as WHOLE_LAB
from solutions.draft import Draft
from solutions.lesson import ROOT, Reference, answer_all
from solutions.x3_latent_attention.drawn import IN_THE_NOTEBOOK
from solutions.x3_latent_attention.drawn import draw as draw_cuts
from solutions.x3_latent_attention.mistakes import MISTAKES
from solutions.x3_latent_attention.mla import Layer, Params, between, chain, whole
from solutions.x3_latent_attention.oracle import GIANT, _n_multiplications, draw
from tests.milestones.closing import without_closing
from tests.milestones.drawing import drawn_by, write_split

LAB = without_closing(WHOLE_LAB)
SLUG = LAB.slug
Vector = list[float]
Functions = dict[str, Callable[..., Any]]


def drawn(seed: int) -> Draft:
    return drawn_by(draw, seed)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_split(drawn(11), tmp_path_factory.mktemp("split"), SLUG)


@pytest.fixture(scope="module")
def truth(split: Path) -> Files:
    return Files(split / "truth")


def within(value: Any, right: Any, share: float = 0.05) -> bool:
    """Whether `value` differs from `right` by at most a share of what the checks allow."""
    bound = ATOL + RTOL * np.abs(right)
    return bool((np.abs(np.asarray(value, dtype=float) - right) <= share * bound).all())


# ---------------------------------------------------------------- a layer in plain scalars


def times(x: Vector, w: np.ndarray) -> Vector:
    return [math.fsum(x[i] * float(w[i, j]) for i in range(len(x))) for j in range(w.shape[1])]


def turned(x: Vector, position: float) -> Vector:
    half = len(x) // 2
    out = [0.0] * len(x)
    for i in range(half):
        angle = position / 10_000 ** (i / half)
        out[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        out[i + half] = x[i] * math.sin(angle) + x[i + half] * math.cos(angle)
    return out


def normed(x: Vector) -> Vector:
    root = math.sqrt(math.fsum(a * a for a in x) / len(x) + 1e-6)
    return [a / root for a in x]


def one_head(x: Vector, head: int, size: int) -> Vector:
    return x[head * size : (head + 1) * size]


def scalar_row(layer: Layer, x: Vector, position: int) -> Vector:
    return times(x, layer["w_dkv"]) + turned(times(x, layer["w_kr"]), position)


def scalar_output(layer: Layer, rows: list[Vector], x: Vector) -> Vector:
    """Return the output of the last token: heads are built, number by number."""
    latent, position = layer["latent_dim"], len(rows) - 1
    source = times(x, layer["w_dq"]) if "w_dq" in layer else x
    out: Vector = []
    for h in range(layer["n_heads"]):
        query = one_head(times(source, layer["w_uq"]), h, layer["nope_dim"])
        query += turned(one_head(times(source, layer["w_qr"]), h, layer["rope_dim"]), position)
        scores = []
        for row in rows:
            key = one_head(times(row[:latent], layer["w_uk"]), h, layer["nope_dim"]) + row[latent:]
            dot = math.fsum(a * b for a, b in zip(query, key, strict=True))
            scores.append(dot / math.sqrt(len(key)))
        odds = [math.exp(score - max(scores)) for score in scores]
        values = [one_head(times(row[:latent], layer["w_uv"]), h, layer["v_dim"]) for row in rows]
        for c in range(layer["v_dim"]):
            mixed = math.fsum(odd * value[c] for odd, value in zip(odds, values, strict=True))
            out.append(mixed / math.fsum(odds))
    return times(out, layer["w_o"])


def scalar_logits(steps: list[tuple[Params, int]]) -> list[Vector]:
    rows: list[list[Vector]] = []
    found = []
    for params, token in steps:
        x = [float(a) for a in params["embedding"][token]]
        for i, layer in enumerate(params["layers"]):
            if len(rows) <= i:
                rows.append([])
            h = normed(x)
            rows[i].append(scalar_row(layer, h, len(rows[i])))
            x = [a + b for a, b in zip(x, scalar_output(layer, rows[i], h), strict=True)]
        found.append(times(normed(x), params["unembedding"]))
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_truth_is_what_scalar_arithmetic_gives_far_inside_the_bound(seed: int) -> None:
    draft = drawn(seed)
    layers, models, cases = (
        with_arrays(draft.questions[f"{name}.json"]) for name in ("layers", "models", "cases")
    )
    asked = draft.questions["asked.json"]
    for name, model in asked["whole"].items():
        x = cases["whole"][name].tolist()
        rows = [scalar_row(layers[model], row, t) for t, row in enumerate(x)]
        out = [scalar_output(layers[model], rows[: t + 1], row) for t, row in enumerate(x)]
        assert within(out, draft.truth["whole.npz"][f"whole/{name}"])
    for name in asked["cache"]:
        xs = cases["cache"][name].values()
        rows = [scalar_row(layers[name], x.tolist(), t) for t, x in enumerate(xs)]
        assert within(rows, draft.truth["cache.npz"][f"cache/{name}/{len(rows) - 1}"])
    for name, model in asked["absorbed"].items():
        case = cases["absorbed"][name]
        out_t = scalar_output(layers[model], case["cache"].tolist(), case["x_t"].tolist())
        assert within(out_t, draft.truth["absorbed.npz"][f"absorbed/{name}"])
    for topic in ("logits", "swapped"):
        for name, case in asked[topic].items():
            steps = zip(case["models"], case["tokens"], strict=True)
            for t, row in enumerate(scalar_logits([(models[m], token) for m, token in steps])):
                assert within(row, draft.truth[f"{topic}.npz"][f"{topic}/{name}/{t}"]), (name, t)


def test_a_whole_sequence_and_its_steps_have_the_same_truth() -> None:
    params = with_arrays(drawn(3).questions["models.json"])["compressed"]
    tokens = [4, 1, 1, 6, 0]
    assert within(chain([(params, token) for token in tokens]), whole(params, tokens))


def test_with_other_ups_one_layer_goes_on_as_if_it_had_always_had_them() -> None:
    models = with_arrays(drawn(3).questions["models.json"])
    old = {**models["compressed"], "layers": models["compressed"]["layers"][:1]}
    new_up = {**models["new_up"], "layers": models["new_up"]["layers"][:1]}
    tokens = [4, 1, 7, 6, 0]
    mixed = chain(list(zip([old, old, new_up, new_up, new_up], tokens, strict=True)))
    assert within(mixed[:2], whole(old, tokens)[:2])
    assert within(mixed[2:], whole(new_up, tokens)[2:])
    assert np.abs(mixed[2:] - whole(old, tokens)[2:]).max() > 1e-2


# ---------------------------------------------------------------- keys that no float64 can hold


def exact(layer: Layer, case: Mapping[str, np.ndarray]) -> Vector:
    """Return the output with every key and value built, in fractions: nothing overflows there."""

    def dot(x: list[Fraction], w: np.ndarray, column: int) -> Fraction:
        return sum(
            (a * Fraction(float(b)) for a, b in zip(x, w[:, column], strict=True)), Fraction(0)
        )

    latent, position = layer["latent_dim"], len(case["cache"]) - 1
    x = [Fraction(float(a)) for a in case["x_t"]]
    cached = [[Fraction(float(a)) for a in row] for row in case["cache"]]
    root = Fraction(math.sqrt(layer["nope_dim"] + layer["rope_dim"]))
    out: list[Fraction] = []
    for h in range(layer["n_heads"]):
        at = range(h * layer["nope_dim"], (h + 1) * layer["nope_dim"])
        query = [dot(x, layer["w_uq"], c) for c in at]
        plain = one_head(times([float(a) for a in x], layer["w_qr"]), h, layer["rope_dim"])
        query += [Fraction(a) for a in turned(plain, position)]
        scores = []
        for row in cached:
            key = [dot(row[:latent], layer["w_uk"], c) for c in at] + row[latent:]
            scores.append(sum((a * b for a, b in zip(query, key, strict=True)), Fraction(0)) / root)
        largest = max(scores)
        odds = [math.exp(float(max(s - largest, Fraction(-1000)))) for s in scores]
        weights = [Fraction(odd / math.fsum(odds)) for odd in odds]
        for c in range(h * layer["v_dim"], (h + 1) * layer["v_dim"]):
            values = [dot(row[:latent], layer["w_uv"], c) for row in cached]
            out.append(sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0)))
    return [float(dot(out, layer["w_o"], c)) for c in range(layer["w_o"].shape[1])]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_huge_key_and_a_huge_value_count_for_nothing_in_exact_arithmetic(seed: int) -> None:
    draft = drawn(seed)
    layers, cases = (with_arrays(draft.questions[f"{n}.json"]) for n in ("layers", "cases"))
    for name, case in cases["huge"].items():
        right = draft.truth["huge.npz"][f"huge/{name}"]
        assert within(exact(layers[f"huge_{name}"], case), right, share=0.5)
        assert np.abs(case["cache"]).max() > GIANT / 100


# ---------------------------------------------------------------- counts


def test_the_figures_of_the_paper_come_of_the_shapes_and_the_bits() -> None:
    draft = drawn(0)
    asked, right = draft.questions["asked.json"]["values"], draft.truth["counts.json"]
    v2, old, lite = (right[f"values/{i}"] for i in range(3))
    assert (v2, old, lite) == (60 * 576, 194_560, 27 * 576)
    assert v2 / asked[0]["config"]["num_hidden_layers"] / (2 * 128) == 2.25
    (shapes, all_16), (also_bits, _) = (
        (draw_cuts(np.random.default_rng(0))["cache_cut"][i][1], IN_THE_NOTEBOOK[i]) for i in (0, 1)
    )
    assert all_16 == (v2, 16, old, 16)
    assert round(shapes, 3) == 0.822
    assert round(also_bits, 3) == 0.933


@pytest.mark.parametrize("seed", range(5))
def test_every_cut_saves_a_share_of_its_own(seed: int) -> None:
    cuts = [right for _, right in draw_cuts(np.random.default_rng(seed))["cache_cut"]]
    assert all(0.5 < cut < 1 for cut in cuts)
    assert len(set(cuts)) == len(cuts)


@pytest.mark.parametrize(("n_new", "n_before"), [(1, 0), (1, 4), (3, 2), (4, 0)])
def test_multiplications_are_those_that_loops_make_one_by_one(n_new: int, n_before: int) -> None:
    heads, latent, nope, rope, v = 2, 5, 3, 2, 4
    config = {
        "num_attention_heads": heads,
        "kv_lora_rank": latent,
        "qk_nope_head_dim": nope,
        "qk_rope_head_dim": rope,
        "v_head_dim": v,
    }
    made = {True: 0, False: 0}
    tokens = range(n_before + n_new)
    for _head in range(heads):
        for _token in tokens:
            made[False] += sum(1 for _ in product(range(latent), range(nope)))  # its key
            made[False] += sum(1 for _ in product(range(latent), range(v)))  # its value
        for t in tokens[n_before:]:
            made[True] += sum(1 for _ in product(range(nope), range(latent)))  # the query, carried
            made[True] += sum(1 for _ in product(range(latent), range(v)))  # the mixture, out
            for _seen in range(t + 1):
                made[False] += nope + rope + v
                made[True] += latent + rope + latent
    function = Reference(SLUG).namespace["multiplications"]
    for absorbed in (True, False):
        assert _n_multiplications(config, n_new, n_before, absorbed) == made[absorbed]
        assert function(config, n_new, n_before, absorbed) == made[absorbed]


# ---------------------------------------------------------------- what is drawn


@pytest.mark.parametrize("seed", range(10))
def test_no_two_sizes_that_could_be_mixed_up_are_alike(seed: int) -> None:
    layers = with_arrays(drawn(seed).questions["layers.json"])
    assert "w_dq" in layers["compressed"]
    assert "w_dq" not in layers["plain"]
    for layer in layers.values():
        sizes = [layer[name] for name in ("nope_dim", "rope_dim", "v_dim", "latent_dim")]
        assert len(set(sizes)) == 4
        assert layer["n_heads"] > 1
        assert layer["latent_dim"] % 2 == layer["nope_dim"] % 2 == layer["rope_dim"] % 2 == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_matrix_changes_with_its_distance_and_never_with_the_position(seed: int) -> None:
    layer = with_arrays(drawn(seed).questions["layers.json"])["plain"]
    matrices = [between(layer, 0, distance) for distance in (0, 1, 5)]
    assert all(np.abs(a - b).max() > 1e-2 for a, b in pairwise(matrices))
    part = slice(0, layer["nope_dim"])
    assert within(matrices[0], layer["w_uq"][:, part] @ layer["w_uk"][:, part].T)


def test_files_are_small(split: Path) -> None:
    for kind in ("questions", "truth"):
        size = sum(path.stat().st_size for path in (split / kind).rglob("*") if path.is_file())
        assert size < 200_000  # bytes; the stored answers of mistakes come on top


def test_the_oracle_knows_nothing_of_the_lesson() -> None:
    for name in ("mla", "oracle", "drawn"):
        tree = ast.parse((ROOT / f"solutions/{SLUG}/{name}.py").read_text(encoding="utf-8"))
        imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert not any(str(module).endswith("lesson") for module in imported)


# ---------------------------------------------------------------- how answers are judged


def put(functions: Functions, split: Path) -> Answers:
    questions = split / "questions"
    return Answers(answer_all(functions, LAB.calls(Files(questions)), questions, SLUG))


def failing(answers: Answers, truth: Files) -> list[str]:
    """Return the checks that fail; one that gets no answer fails without being asked."""
    found = []
    for check in LAB.checks:
        asked = [answer for topic in check.topics for answer in answers.under(topic)]
        unanswered = any(answer.problem is not None for answer in asked)
        if unanswered or not check.judge(answers, truth).passed:
            found.append(check.name)
    return found


@pytest.fixture(scope="module")
def honest() -> Functions:
    """Another honest build: matrices absorbed in advance on both sides, heads all at once."""

    def turn(x: np.ndarray, positions: Any) -> np.ndarray:
        at = np.broadcast_to(np.asarray(positions).reshape(-1, *[1] * (x.ndim - 2)), x.shape[:-1])
        rows = zip(x.reshape(-1, x.shape[-1]).tolist(), at.ravel().tolist(), strict=True)
        return np.array([turned(row, position) for row, position in rows]).reshape(x.shape)

    def extend(layer: Layer, cache: np.ndarray, x_t: np.ndarray) -> np.ndarray:
        return np.concatenate([cache, [scalar_row(layer, x_t.tolist(), len(cache))]])

    def attend(layer: Layer, cache: np.ndarray, x_t: np.ndarray) -> np.ndarray:
        heads, latent = layer["n_heads"], layer["latent_dim"]
        source = x_t @ layer["w_dq"] if "w_dq" in layer else x_t
        by_head = {n: layer[n].reshape(len(layer[n]), heads, -1) for n in ("w_uq", "w_uk", "w_uv")}
        into = np.einsum("qhc,lhc->hql", by_head["w_uq"], by_head["w_uk"])
        out_of = np.einsum(
            "lhv,hvd->hld", by_head["w_uv"], layer["w_o"].reshape(heads, -1, len(x_t))
        )
        at = len(cache) - 1
        q_turned = turn((source @ layer["w_qr"]).reshape(1, heads, -1), [at])[0]
        scores = (source @ into) @ cache[:, :latent].T + q_turned @ cache[:, latent:].T
        scores = scores / (layer["nope_dim"] + layer["rope_dim"]) ** 0.5
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = odds / odds.sum(axis=1, keepdims=True)
        return np.asarray(np.einsum("hl,hld->d", weights @ cache[:, :latent], out_of))

    def new(params: Params) -> list[np.ndarray]:
        return [np.empty((0, one["latent_dim"] + one["rope_dim"])) for one in params["layers"]]

    def step(params: Params, caches: list[np.ndarray], token: int) -> tuple[np.ndarray, Any]:
        x, grown = params["embedding"][token], []
        for layer, cache in zip(params["layers"], caches, strict=True):
            h = np.array(normed(x.tolist()))
            grown.append(extend(layer, cache, h))
            x = x + attend(layer, grown[-1], h)
        return np.array(times(normed(x.tolist()), params["unembedding"])), tuple(grown)

    def outputs(layer: Layer, x: np.ndarray) -> np.ndarray:
        cache = np.empty((0, layer["latent_dim"] + layer["rope_dim"]))
        out = []
        for row in x:
            cache = extend(layer, cache, row)
            out.append(attend(layer, cache, row))
        return np.array(out)

    def full(params: Params, tokens: list[int]) -> np.ndarray:
        caches: Any = new(params)
        rows = []
        for token in tokens:
            logits, caches = step(params, caches, token)
            rows.append(logits)
        return np.array(rows)

    def matrix(layer: Layer, head: int, distance: int) -> np.ndarray:
        nope = layer["nope_dim"]
        w_uq, w_uk = (layer[w][:, head * nope : (head + 1) * nope] for w in ("w_uq", "w_uk"))
        return np.asarray(w_uq @ turn(np.eye(nope), [distance] * nope) @ w_uk.T)

    def values(config: dict[str, Any]) -> int:
        if "kv_lora_rank" not in config:
            kept = 2 * config["num_key_value_heads"] * config["head_dim"]
        else:
            kept = config["kv_lora_rank"] + config["qk_rope_head_dim"]
        return int(kept * config["num_hidden_layers"])

    def work(config: dict[str, Any], n_new: int, n_before: int, absorbed: bool) -> int:
        latent, rope = config["kv_lora_rank"], config["qk_rope_head_dim"]
        both = config["qk_nope_head_dim"] + config["v_head_dim"]
        pairs = sum(n_before + t for t in range(1, n_new + 1))
        through = n_new if absorbed else n_new + n_before
        each = 2 * latent + rope if absorbed else both + rope
        return int(config["num_attention_heads"] * (through * latent * both + pairs * each))

    return {
        "kv_values_per_token": values,
        "rope": turn,
        "attention_unabsorbed": outputs,
        "full_logits": full,
        "new_latent_cache": new,
        "extend_cache": extend,
        "absorbed_attention": attend,
        "decode_step": step,
        "score_matrix": matrix,
        "multiplications": work,
    }


@pytest.fixture(scope="module")
def right(honest: Functions, split: Path) -> Answers:
    return put(honest, split)


def test_another_honest_build_passes_every_check(right: Answers, truth: Files) -> None:
    assert failing(right, truth) == []


def test_heads_that_are_built_are_seen_by_what_overflows_and_by_nothing_else(
    honest: Functions, split: Path, truth: Files
) -> None:
    def attend(layer: Layer, cache: np.ndarray, x_t: np.ndarray) -> np.ndarray:
        return np.array(scalar_output(layer, cache.tolist(), x_t.tolist()))

    answers = put({**honest, "absorbed_attention": attend}, split)
    assert failing(answers, truth) == ["no_key_per_head"]


def test_a_cache_of_keys_as_in_milestone_4_does_not_follow_the_weights(
    honest: Functions, split: Path, truth: Files
) -> None:
    def new(params: Params) -> list[np.ndarray]:
        return list(honest["new_latent_cache"](params))

    kept: dict[tuple[int, int], Params] = {}

    def step(params: Params, caches: list[np.ndarray], token: int) -> tuple[np.ndarray, Any]:
        t = len(caches[0])
        x, grown = params["embedding"][token], []
        for i, layer in enumerate(params["layers"]):
            kept[i, t] = layer  # each token's key is made of the latent by weights of its own time
            h = np.array(normed(x.tolist()))
            grown.append(honest["extend_cache"](layer, caches[i], h))
            x = x + _keys_of_their_time(layer, grown[-1], h, [kept[i, s] for s in range(t + 1)])
        return np.array(times(normed(x.tolist()), params["unembedding"])), grown

    answers = put({**honest, "new_latent_cache": new, "decode_step": step}, split)
    assert failing(answers, truth) == ["old_keys_follow"]


def _keys_of_their_time(layer: Layer, cache: np.ndarray, h: np.ndarray, then: list[Layer]) -> Any:
    heads, latent = layer["n_heads"], layer["latent_dim"]
    source = h @ layer["w_dq"] if "w_dq" in layer else h
    q = (source @ layer["w_uq"]).reshape(heads, -1)
    q_turned = (source @ layer["w_qr"]).reshape(heads, -1).tolist()
    q_turned = np.array([turned(one, len(cache) - 1) for one in q_turned])
    rows = list(zip(cache[:, :latent], then, strict=True))
    k = np.array([(row @ old["w_uk"]).reshape(heads, -1) for row, old in rows])
    v = np.array([(row @ old["w_uv"]).reshape(heads, -1) for row, old in rows])
    scores = np.einsum("hc,shc->hs", q, k) + q_turned @ cache[:, latent:].T
    odds = np.exp(scores / (layer["nope_dim"] + layer["rope_dim"]) ** 0.5)
    mixed = np.einsum("hs,shv->hv", odds / odds.sum(axis=1, keepdims=True), v)
    return mixed.reshape(-1) @ layer["w_o"]


def test_rope_on_the_latent_fails_the_check_of_the_cache_and_is_named(
    honest: Functions, split: Path, truth: Files
) -> None:
    def extend(layer: Layer, cache: np.ndarray, x_t: np.ndarray) -> np.ndarray:
        grown = np.array(honest["extend_cache"](layer, cache, x_t))
        cut = layer["latent_dim"]
        grown[-1, :cut] = turned(grown[-1, :cut].tolist(), len(cache))
        return grown

    answers = put({**honest, "extend_cache": extend}, split)
    assert failing(answers, truth) == ["latent_cache"]
    check = next(c for c in LAB.checks if c.name == "latent_cache")
    told = check.judge(answers, truth)
    assert told.remark == "in the rows of the cache the latent is off"
    assert "rows, first in row 1: the latent." in told.detail  # at position 0 nothing is turned


def test_the_shape_of_a_cache_is_asked_to_the_number(
    honest: Functions, split: Path, truth: Files
) -> None:
    def wider(params: Params) -> list[np.ndarray]:
        return [np.zeros((0, cache.shape[1] + 1)) for cache in honest["new_latent_cache"](params)]

    answers = put({**honest, "new_latent_cache": wider}, split)
    assert "latent_cache" in failing(answers, truth)


def junk(rng: np.random.Generator, value: Any) -> Iterator[Any]:
    """Yield wrong answers of many forms; `value` is what they should have been."""
    if isinstance(value, np.ndarray):
        shape = value.shape
        if value.size:
            yield from (np.zeros(shape), np.full(shape, np.nan), np.full(shape, np.inf))
            yield from (np.full(shape, 1e308), -value, value.T[..., None], value[:-1])
            yield rng.normal(size=shape)
        yield from (value[None], np.zeros((1, *shape[1:])) if value.ndim else value)
    yield from (np.ones(()), np.ones(7), np.ones((2, 3, 4, 5)), np.zeros(0), np.zeros((0, 3)))
    yield from (None, True, False, -1, 0, 10**300, 1.5, "576", "", [], [1, [2]], {}, {"a": None})


def test_junk_never_crashes_a_check_and_never_passes(right: Answers, truth: Files) -> None:
    rng = np.random.default_rng(0)
    columns = {key: list(junk(rng, answer.value)) for key, answer in right.by_id.items()}
    for turn in range(max(map(len, columns.values()))):
        answers = Answers(
            {
                key: Answer(answer.call, columns[key][turn % len(columns[key])])
                for key, answer in right.by_id.items()
            }
        )
        for check in LAB.checks:
            with np.errstate(all="ignore"):  # as the judge does
                assert check.judge(answers, truth).share == 0.0, (check.name, turn)
                if check.compare is not None:
                    check.compare(answers, truth, lambda _path: pd.DataFrame())


@pytest.mark.parametrize("check", LAB.checks, ids=lambda check: check.name)
def test_one_bad_value_among_right_answers_fails_its_check(
    check: Check, right: Answers, truth: Files
) -> None:
    last = [a for a in right.under(check.topics[0]) if a.value is not None][-1]
    value = last.value.copy() if isinstance(last.value, np.ndarray) else last.value
    if isinstance(value, np.ndarray):
        value.flat[0] += 1e-6
    else:
        value += 1
    answers = Answers({**right.by_id, last.call.id: Answer(last.call, value)})
    assert not check.judge(answers, truth).passed


@pytest.mark.parametrize("check", LAB.checks, ids=lambda check: check.name)
def test_one_answer_to_all_questions_earns_nothing(
    check: Check, right: Answers, truth: Files
) -> None:
    for constant in list(right.under(check.topics[0])):
        if constant.value is None:
            continue
        answers = Answers({k: Answer(a.call, constant.value) for k, a in right.by_id.items()})
        assert not check.judge(answers, truth).passed


def test_what_is_said_on_a_hidden_split_holds_no_value(right: Answers, truth: Files) -> None:
    zeros = Answers(
        {
            key: Answer(a.call, np.zeros_like(a.value) if isinstance(a.value, np.ndarray) else 0)
            for key, a in right.by_id.items()
        }
    )
    for check in LAB.checks:
        verdict = check.judge(zeros, truth)
        assert not verdict.passed
        told = verdict.remark.partition("Off in")[0]  # a count of the whole
        assert not any(letter.isdigit() for letter in told), verdict.remark


def test_single_precision_is_not_close_enough_and_is_told(right: Answers, truth: Files) -> None:
    rounded = Answers(
        {
            key: Answer(
                a.call,
                a.value.astype(np.float32).astype(np.float64)
                if isinstance(a.value, np.ndarray) and key.split("/")[0] != "huge"
                else a.value,
            )
            for key, a in right.by_id.items()
        }
    )
    for name in ("whole_sequence", "latent_cache", "absorbed_step", "same_logits"):
        verdict = next(c for c in LAB.checks if c.name == name).judge(rounded, truth)
        assert not verdict.passed
        assert "float32" in verdict.think


def test_a_truth_that_is_no_number_is_our_fault(right: Answers, tmp_path: Path) -> None:
    draft = drawn(11)
    spoiled = {key: np.full_like(value, np.nan) for key, value in draft.truth["whole.npz"].items()}
    write_split(Draft(draft.questions, {**draft.truth, "whole.npz": spoiled}), tmp_path, SLUG)
    check = next(c for c in LAB.checks if c.name == "whole_sequence")
    with pytest.raises(TruthError):
        check.judge(right, Files(tmp_path / "truth"))


def test_each_exercise_has_two_mistakes_or_more_and_all_points_are_bonus() -> None:
    edited = [edit.function for mistake in MISTAKES for edit in mistake.edits]
    for function in WHOLE_LAB.functions:
        if function != "understanding":
            assert edited.count(function) >= 2, function
    assert WHOLE_LAB.points == 0
    assert WHOLE_LAB.bonus == 5
    assert all(check.bonus for check in WHOLE_LAB.checks)
