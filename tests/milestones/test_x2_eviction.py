"""Lab x2: its truth against the model's own pass and a recomputation, its checks against junk."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader.ask import with_arrays
from milestones.m4_cache_equivalence.depart import ATOL, RTOL
from milestones.spec import Answer, Answers, Call, Check, Files, Tree
from milestones.x2_eviction import MILESTONE as WHOLE_MILESTONE
from milestones.x2_eviction.checks import TO_SINGLE_PRECISION
from solutions.draft import Draft
from solutions.lesson import read_lesson
from solutions.small_lm.inference import logits_of, norm, rotate, softmax
from solutions.x2_eviction.drawn import draw as draw_closing
from solutions.x2_eviction.evicting import LM, N_SINKS, decoded
from solutions.x2_eviction.oracle import CLEAR, draw
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
def models() -> dict[str, LM]:
    found = with_arrays(drawn(11).questions["models.json"])
    assert isinstance(found, dict)
    return found


# ---------------------------------------------------------------- truth, put another way


def within(value: np.ndarray, right: np.ndarray, share: float) -> bool:
    """Whether `value` differs from `right` by at most a share of what the checks allow."""
    return bool((np.abs(value - right) <= share * (ATOL + RTOL * np.abs(right))).all())


class Lists:
    """An honest solution of another build: each KV head is a list of entries, its own and plain."""

    def __init__(self, lm: LM, budget: int, policy: str, within_cache: bool) -> None:
        self.lm, self.budget, self.policy, self.within_cache = lm, budget, policy, within_cache
        heads = range(lm["n_kv_heads"])
        self.entries: list[list[list[dict[str, Any]]]] = [[[] for _ in heads] for _ in lm["layers"]]

    def make_room(self, held: list[dict[str, Any]]) -> None:
        if len(held) < self.budget:
            return
        room = self.budget - 1
        if self.policy == "heavy":
            older = range(len(held) - (room - room // 2))
            del held[min(older, key=lambda i: float(held[i]["score"]))]
        else:
            del held[N_SINKS if self.policy == "sinks" else 0]

    def step(self, t: int, token: int) -> np.ndarray:
        lm = self.lm
        x, size = lm["embedding"][token], lm["head_dim"]
        group = lm["n_heads"] // lm["n_kv_heads"]
        for layer, heads in zip(lm["layers"], self.entries, strict=True):
            y = norm(x)
            q, k, v = ((y @ layer[w]).reshape(-1, size) for w in ("w_q", "w_k", "w_v"))
            mixed = []
            for head, held in enumerate(heads):
                self.make_room(held)
                held.append({"key": k[head], "value": v[head], "t": t, "score": 0.0})
                at = [i if self.within_cache else e["t"] for i, e in enumerate(held)]
                keys = rotate(np.array([[e["key"]] for e in held]), np.array(at))[:, 0]
                for query in q[head * group : (head + 1) * group]:
                    weights = softmax(
                        keys @ rotate(query[None, None], np.array(at[-1:]))[0, 0] / size**0.5
                    )
                    for entry, weight in zip(held, weights, strict=True):
                        entry["score"] += weight
                    mixed.append(weights @ np.array([e["value"] for e in held]))
            x = x + np.concatenate(mixed) @ layer["w_o"]
            y = norm(x)
            gate = y @ layer["w_gate"]
            x = x + (gate / (1 + np.exp(-gate)) * (y @ layer["w_up"])) @ layer["w_down"]
        return np.asarray(norm(x) @ lm["unembedding"])


def streamed(lm: LM, tokens: list[int], budget: int, policy: str, within_cache: bool) -> np.ndarray:
    lists = Lists(lm, budget, policy, within_cache)
    return np.array([lists.step(t, token) for t, token in enumerate(tokens)])


@pytest.mark.parametrize("seed", [0, 1])
def test_truth_is_what_lists_of_entries_give_far_inside_the_bound(seed: int) -> None:
    draft = drawn(seed)
    models = with_arrays(draft.questions["models.json"])
    asked = draft.questions["questions.json"]
    for topic in ("whole", "streamed", "hitters"):
        for name, case in asked[topic].items():
            other = {key: value for key, value in case.items() if key != "model"}
            right = draft.truth[f"{topic}.npz"][f"{topic}/{name}"]
            assert within(streamed(models[case["model"]], **other), right, 0.05), (topic, name)


@pytest.mark.parametrize("policy", ["window", "sinks", "heavy"])
@pytest.mark.parametrize("within_cache", [True, False])
def test_a_cache_with_room_for_all_gives_the_models_own_pass(
    policy: str, within_cache: bool, models: dict[str, LM]
) -> None:
    tokens = [3, 1, 4, 1, 5, 2, 6, 5, 3, 5]
    for lm in models.values():
        found = decoded(lm, tokens, 10, policy, within_cache).logits
        # the pass divides scores by a float32: a root of 6 is off by 2e-8 of itself there
        np.testing.assert_allclose(found, logits_of(lm, np.array(tokens)), rtol=1e-5, atol=1e-6)


def test_renumbering_a_plain_window_changes_nothing_and_with_sinks_it_does(
    models: dict[str, LM],
) -> None:
    tokens = [int(t) for t in np.random.default_rng(0).integers(0, 7, 40)]
    for policy, stays in (("window", True), ("sinks", False)):
        one, other = (decoded(models["deep"], tokens, 8, policy, c).logits for c in (True, False))
        assert within(one, other, 0.05) == stays


def test_a_window_reaches_one_window_further_with_each_layer(models: dict[str, LM]) -> None:
    budget, n_layers = 4, len(models["deep"]["layers"])
    tokens = [int(t) for t in np.random.default_rng(1).integers(0, 7, 20)]
    base = decoded(models["deep"], tokens, budget, "window").logits[-1]
    moved = []
    for back in range(len(tokens)):
        other = list(tokens)
        other[-1 - back] = (other[-1 - back] + 1) % 7
        last = decoded(models["deep"], other, budget, "window").logits[-1]
        moved.append(bool((last != base).any()))
    reach = 1 + n_layers * (budget - 1)
    assert moved == [True] * reach + [False] * (len(tokens) - reach)
    asked = draw_closing(np.random.default_rng(0))["reach"]
    assert ({"n_layers": 32, "budget": 4_096, "n_tokens": 1_000_000}, 131_041) in asked
    assert all(
        right == min(a["n_tokens"], 1 + a["n_layers"] * (a["budget"] - 1)) for a, right in asked
    )
    assert any(right == args["n_tokens"] for args, right in asked)


def test_no_query_ever_sees_more_than_the_budget(models: dict[str, LM]) -> None:
    tokens = [int(t) for t in np.random.default_rng(2).integers(0, 7, 25)]
    for policy in ("window", "sinks", "heavy"):
        for alive in decoded(models["deep"], tokens, 6, policy).alive:
            seen = alive.sum(axis=-1)  # of each KV head and query
            assert (seen == np.minimum(np.arange(1, 26), 6)).all()


# ---------------------------------------------------------------- what is drawn


@pytest.mark.parametrize("seed", range(6))
def test_evictions_are_never_decided_by_a_near_tie_and_heads_differ(seed: int) -> None:
    draft = drawn(seed)
    models = with_arrays(draft.questions["models.json"])
    for case in draft.questions["questions.json"]["hitters"].values():
        other = {key: value for key, value in case.items() if key != "model"}
        found = decoded(models[case["model"]], **other)
        assert found.clearest > CLEAR
        assert any((alive != alive[:1]).any() for alive in found.alive)
    for table in draft.questions["heavy.json"].values():
        scores = np.sort(np.array(table), axis=1)
        assert (np.diff(scores, axis=1) > 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_newest_entry_has_the_top_score_in_every_head_that_must_choose(seed: int) -> None:
    draft = drawn(seed)
    for name, table in draft.questions["heavy.json"].items():
        scores, room = np.array(table), draft.questions["questions.json"]["heavy"][name]["room"]
        n_older = scores.shape[1] - (room - room // 2)
        if n_older <= room // 2:
            continue
        assert (scores.argmax(axis=1) > n_older).all()
        right = draft.truth["heavy.npz"][f"heavy/{name}"]
        top = np.argsort(-scores, axis=1)[:, : room // 2]
        newest = np.tile(np.arange(n_older, scores.shape[1]), (len(scores), 1))
        joined = np.sort(np.concatenate((top, newest), axis=1), axis=1)
        assert (joined != right).any(axis=1).all()
        # one of the newest too few, one heavy hitter too many
        swapped = np.argsort(-scores[:, : n_older + 1], axis=1)[:, : room // 2 + 1]
        assert (np.sort(swapped, axis=1) != right[:, : room // 2 + 1]).any()


@pytest.mark.parametrize("seed", [4, 5, 11])
def test_leaving_out_its_own_query_changes_what_stays_in_every_sequence(seed: int) -> None:
    draft = drawn(seed)
    models = with_arrays(draft.questions["models.json"])
    for name, case in draft.questions["questions.json"]["hitters"].items():
        other = {key: value for key, value in case.items() if key != "model"}
        wrong = decoded(models[case["model"]], **other, own_counts=False).logits
        assert not within(wrong, draft.truth["hitters.npz"][f"hitters/{name}"], 1e6), name


def test_another_seed_asks_something_else_in_every_file() -> None:
    one, other = drawn(1), drawn(2)
    for name in one.questions:
        assert one.questions[name] != other.questions[name], name
    assert drawn(1).questions == one.questions


def test_question_files_are_small(split: Path) -> None:
    size = sum(path.stat().st_size for path in (split / "questions").rglob("*") if path.is_file())
    assert size < 300_000  # bytes


# ---------------------------------------------------------------- how answers are judged


def age(n_entries: int, room: int, n_sinks: int) -> list[int]:
    held = list(range(n_entries))
    while len(held) > room:
        del held[n_sinks]
    return held


def weigh(weights: np.ndarray, n_kv_heads: int) -> np.ndarray:
    return np.array([rows.sum(axis=0) for rows in np.split(weights, n_kv_heads)])


def choose(scores: np.ndarray, room: int) -> np.ndarray:
    n = scores.shape[1]
    rows = []
    for row in scores:
        older = range(n - (room - room // 2))
        heavy = sorted(older, key=lambda i: -row[i])[: room // 2]
        rows.append(sorted({*heavy, *range(max(0, len(older)), n)}) if n > room else list(range(n)))
    return np.array(rows)


def one_step(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, positions: np.ndarray, within_cache: bool
) -> tuple[np.ndarray, None]:
    group, mixed = len(q) // len(keys), []
    for head, query in enumerate(q):
        kv = head // group
        at = np.arange(keys.shape[1]) if within_cache else positions[kv]
        turned = rotate(keys[kv][:, None], at)[:, 0]
        scores = turned @ rotate(query[None, None], at[-1:])[0, 0] / keys.shape[2] ** 0.5
        mixed.append(softmax(scores) @ values[kv])
    return np.array(mixed), None


HONEST: dict[str, Callable[..., Any]] = {
    "sinks_and_recent": age,
    "attend": one_step,
    "attention_received": weigh,
    "heavy_and_recent": choose,
    "decode": lambda lm, tokens, budget, policy, within_cache: (
        streamed(lm, tokens, budget, policy, within_cache),
        None,
    ),
}


def put(functions: Mapping[str, Callable[..., Any]], split: Path) -> Answers:
    """Ask functions in this process, as a room would, without its packing."""
    files, found = Files(split / "questions"), {}
    for call in MILESTONE.calls(files):
        args = {name: _given(value, files) for name, value in call.args.items()}
        value = functions[call.function](**args)
        value = value[0] if call.returns == "array_and_kept" else value
        found[call.id] = Answer(call, np.asarray(value, dtype=float))
    return Answers(found)


def _given(value: Any, files: Files) -> Any:
    if not isinstance(value, Tree):
        return value
    node = files.json(value.path.removeprefix("questions/"))
    for step in value.pick:
        node = node[step]
    return with_arrays(node)


@pytest.fixture(scope="module")
def honest(split: Path) -> Answers:
    return put(HONEST, split)


def failing(answers: Answers, truth: Files) -> list[str]:
    return [check.name for check in MILESTONE.checks if not check.judge(answers, truth).passed]


def test_another_honest_build_passes_every_check(honest: Answers, truth: Files) -> None:
    assert failing(honest, truth) == []


def test_a_window_computed_again_from_its_tokens_is_told_from_a_cache(
    split: Path, truth: Files
) -> None:
    def again(lm: LM, tokens: list[int], budget: int, **_: Any) -> tuple[np.ndarray, None]:
        rows = [
            decoded(lm, tokens[max(0, t + 1 - budget) : t + 1], budget, "window").logits[-1]
            for t in range(len(tokens))
        ]
        return np.array(rows), None

    found = failing(put({**HONEST, "decode": again}, split), truth)
    # entries of a second layer carry what their own tokens saw: a window that starts again does not
    assert found == ["streams_decoded", "heavy_hitters_decoded", "evicted_is_gone"]


def test_logits_that_never_change_pass_nowhere(split: Path, truth: Files) -> None:
    def constant(lm: LM, tokens: list[int], **_: Any) -> tuple[np.ndarray, None]:
        return np.ones((len(tokens), len(lm["embedding"]))), None

    decoding = [check.name for check in MILESTONE.checks if check.topics[0] in
                ("whole", "streamed", "hitters", "gone")]  # fmt: skip
    assert failing(put({**HONEST, "decode": constant}, split), truth) == decoding


def junk(rng: np.random.Generator, right: Any) -> Iterator[Any]:
    """Yield wrong answers of many forms; `right` is what they should have been."""
    shape = np.shape(right)
    yield from (np.full(shape, -7.5), np.full(shape, np.nan), np.full(shape, np.inf))
    yield from (np.full(shape, 1e308), np.asarray(right)[..., None], np.zeros((0, *shape[1:])))
    yield from (np.asarray(right)[None], rng.normal(size=shape), np.asarray(right)[:-1])
    yield from (np.ones(()), np.ones(7), np.ones((2, 3, 4)), np.zeros(0))
    yield from (None, True, -1, 10**300, 1.5, "16", "", [], [1, [2]], {}, {"a": None})


def test_junk_never_crashes_a_check_and_never_passes(honest: Answers, truth: Files) -> None:
    rng = np.random.default_rng(0)
    columns = {name: list(junk(rng, answer.value)) for name, answer in honest.by_id.items()}
    for turn in range(len(next(iter(columns.values())))):
        answers = Answers(
            {name: Answer(a.call, columns[name][turn]) for name, a in honest.by_id.items()}
        )
        for check in MILESTONE.checks:
            verdict = check.judge(answers, truth)
            assert verdict.share == 0.0, (check.name, turn)
            assert verdict.detail
            assert verdict.asked


@pytest.mark.parametrize("check", MILESTONE.checks, ids=lambda check: check.name)
def test_one_bad_value_among_right_answers_fails_its_check(
    check: Check, honest: Answers, truth: Files
) -> None:
    last = list(honest.under(check.topics[0]))[-1]
    value = last.value.copy()
    value.flat[-1] = np.nan
    by_id = {**honest.by_id, last.call.id: Answer(last.call, value)}
    assert failing(Answers(by_id), truth) == [check.name]


def test_right_entries_in_another_order_are_told_so(honest: Answers, truth: Files) -> None:
    turned = {
        name: Answer(a.call, a.value[..., ::-1]) for name, a in honest.by_id.items()
        if a.call.topic in ("recent", "heavy")
    }  # fmt: skip
    answers = Answers({**honest.by_id, **turned})
    for name in ("first_and_last_kept", "heavy_hitters_kept"):
        check = next(c for c in MILESTONE.checks if c.name == name)
        assert "order" in check.judge(answers, truth).remark


def test_heavy_hitters_chosen_among_all_entries_are_told_that_one_stands_twice(
    split: Path, truth: Files
) -> None:
    def joined(scores: np.ndarray, room: int) -> np.ndarray:
        n = scores.shape[1]
        if n <= room:
            return np.tile(np.arange(n), (len(scores), 1))
        top = np.argsort(-scores, axis=1)[:, : room // 2]
        newest = np.tile(np.arange(n - (room - room // 2), n), (len(scores), 1))
        return np.concatenate((top, newest), axis=1)

    answers = put({**HONEST, "heavy_and_recent": joined}, split)
    assert failing(answers, truth) == ["heavy_hitters_kept"]
    assert "twice" in check_of("heavy_hitters_kept").judge(answers, truth).remark


def check_of(name: str) -> Check:
    return next(check for check in MILESTONE.checks if check.name == name)


def test_a_part_that_is_wrong_by_itself_is_named_where_decode_fails(
    split: Path, honest: Answers, truth: Files
) -> None:
    def unscaled(q: np.ndarray, *others: Any, **named: Any) -> tuple[np.ndarray, None]:
        return one_step(q * q.shape[-1] ** 0.5, *others, **named)

    wrong = put({**HONEST, "attend": unscaled}, split).by_id
    # what decode answers with it: that it is wrong is all that matters here
    off = {
        name: Answer(a.call, a.value * (1 + 0.01 * np.arange(a.value.size).reshape(a.value.shape)))
        for name, a in honest.by_id.items() if a.call.function == "decode"
    }  # fmt: skip
    decoding = ["room_for_all", "streams_decoded", "heavy_hitters_decoded"]
    for name in decoding:
        alone = check_of(name).judge(Answers({**honest.by_id, **off}), truth)
        assert (alone.passed, alone.think) == (False, "")
        both = check_of(name).judge(Answers({**wrong, **off}), truth)
        assert "`attend` is wrong by itself" in both.think
    # and it costs nothing where decode is right without it
    assert failing(Answers(wrong), truth) == ["keys_turned_to_their_place"]
    received = put({**HONEST, "attention_received": lambda **_: np.ones((1, 1))}, split).by_id
    told = check_of("heavy_hitters_decoded").judge(Answers({**received, **off}), truth).think
    assert "`attention_received`" in told


def test_single_precision_is_told_as_such(honest: Answers, truth: Files) -> None:
    rounded = {
        name: Answer(a.call, a.value.astype(np.float32).astype(float))
        for name, a in honest.by_id.items() if a.call.function in ("decode", "attend")
    }  # fmt: skip
    decoding = {n: a for n, a in rounded.items() if a.call.function == "decode"}
    for name, given in (
        ("keys_turned_to_their_place", rounded),
        ("room_for_all", decoding),
        ("streams_decoded", decoding),
        ("heavy_hitters_decoded", decoding),
    ):
        verdict = check_of(name).judge(Answers({**honest.by_id, **given}), truth)
        assert not verdict.passed
        assert verdict.think == TO_SINGLE_PRECISION


def test_what_is_said_on_a_hidden_split_holds_no_value(honest: Answers, truth: Files) -> None:
    off = Answers({name: Answer(a.call, a.value + 1) for name, a in honest.by_id.items()})
    for check in MILESTONE.checks:
        verdict = check.judge(off, truth)
        told = re.sub(r"^Off in [\d,]+ of [\d,]+", "", verdict.remark)  # a count of the whole
        assert not any(letter.isdigit() for letter in told), verdict.remark
    # shifted alike, logits move as they should
    assert check.name == "evicted_is_gone"
    assert verdict.passed


def test_arrays_reach_the_student_as_arrays_and_tokens_as_ints(split: Path) -> None:
    calls: list[Call] = MILESTONE.calls(Files(split / "questions"))
    for call in calls:
        if call.function == "decode":
            assert all(type(token) is int for token in call.args["tokens"])
            assert isinstance(call.args["lm"], Tree)
        if call.function == "attend":
            assert {type(call.args[name]) for name in ("q", "keys", "positions")} == {Tree}


# ---------------------------------------------------------------- the notebook's own cells


def plain_cells() -> list[ast.Module]:
    return [ast.parse(cell.source) for cell in read_lesson(SLUG) if cell.kind == "code"]


def test_no_cell_that_measures_binds_what_a_student_writes() -> None:
    written = set(WHOLE_MILESTONE.functions)
    for cell in plain_cells():
        for node in cell.body:
            bound = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)
                     and isinstance(n.ctx, ast.Store)]  # fmt: skip
            inside = isinstance(node, ast.FunctionDef) and node.name == "attending"
            assert inside or not written.intersection(bound)


def test_attention_that_is_watched_is_put_back_when_a_cell_fails() -> None:
    cells = (node for cell in plain_cells() for node in cell.body)
    one = next(n for n in cells if isinstance(n, ast.FunctionDef) and n.name == "attending")

    def attend(*given: float) -> float:
        return sum(given)

    names: dict[str, Any] = {
        "attend": attend,
        "functools": functools,
        "contextmanager": contextmanager,
    }
    exec(compile(ast.Module([one], []), "<attending>", "exec"), names)
    with names["attending"](lambda real, *given: 2 * real(*given)):
        assert names["attend"](1, 2) == 6
    with pytest.raises(ZeroDivisionError), names["attending"](lambda real: real()):
        raise ZeroDivisionError
    assert names["attend"] is attend


def test_a_decode_that_never_calls_attend_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    cells = (node for cell in plain_cells() for node in cell.body)
    one = next(n for n in cells if isinstance(n, ast.FunctionDef) and n.name == "attending")
    names: dict[str, Any] = {"attend": lambda: 1, "contextmanager": contextmanager}
    exec(compile(ast.Module([one], []), "<attending>", "exec"), names)
    with names["attending"](lambda real: 1 + real()):
        assert names["attend"]() == 2
    assert capsys.readouterr().out == ""
    with names["attending"](lambda real: 1 + real()):
        pass
    assert "never called `attend`" in capsys.readouterr().out
