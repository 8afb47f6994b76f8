"""Lab x1's truth: its formats against ml_dtypes, fractions against floats, counts one by one."""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from solutions.draft import Draft, Source
from solutions.lesson import Reference
from solutions.small_lm import inference
from solutions.x1_quantized_cache.formats import FP8, Scheme, bits_of, in_double, sharing, through
from solutions.x1_quantized_cache.oracle import MARGIN, cache_size, draw, profiled

SLUG = "x1_quantized_cache"
NO_RUNS: Any = None  # this lab's draw reads no runs
TYPES: dict[str, Any] = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
SCHEMES: list[Scheme] = [
    *({"format": "int", "bits": 3, "share": share} for share in ("tensor", "token", "channel")),
    *({"format": "groups", "bits": 4, "group": 4, "along": a} for a in ("tokens", "channels")),
]


@pytest.fixture(scope="module")
def lesson() -> dict[str, Any]:
    return Reference(SLUG).namespace


@pytest.fixture(scope="module", params=[0, 1, 2])
def draft(request: pytest.FixtureRequest) -> Draft:
    return draw(Source(np.random.default_rng(request.param), NO_RUNS, NO_RUNS, NO_RUNS))


def every_half() -> np.ndarray:
    """Every float16, infinities and NaN among them: all ties of both formats are there."""
    return np.arange(2**16, dtype=np.uint16).view(np.float16)


def saturated(x: np.ndarray, kind: str) -> np.ndarray:
    """What ml_dtypes encodes, of numbers that are within reach; beyond, it does not saturate.

    It takes float64 through float32, and so rounds twice: hence nothing here is a float64.
    """
    largest = np.asarray(FP8[kind].largest, dtype=x.dtype)
    codes: np.ndarray = np.clip(x, -largest, largest).astype(TYPES[kind]).view(np.uint8)
    return codes


@pytest.mark.parametrize("kind", FP8)
def test_all_codes_stand_for_what_ml_dtypes_says(kind: str, lesson: dict[str, Any]) -> None:
    right = np.arange(256, dtype=np.uint8).view(TYPES[kind]).astype(np.float64)
    walked = np.array([FP8[kind].value(code) for code in range(256)])
    for values in (walked, lesson["from_fp8"](list(range(256)), kind)):
        assert np.array_equal(values, right, equal_nan=True)
        known = ~np.isnan(right)
        assert np.array_equal(np.signbit(values[known]), np.signbit(right[known]))


@pytest.mark.parametrize("kind", FP8)
def test_the_lesson_encodes_every_half_as_ml_dtypes_does(kind: str, lesson: dict[str, Any]) -> None:
    x = every_half()
    known = ~np.isnan(x)
    codes = lesson["to_fp8"](x, kind)
    assert np.array_equal(codes[known], saturated(x[known], kind))
    assert np.isnan(codes[~known].view(TYPES[kind]).astype(np.float64)).all()


@pytest.mark.parametrize("kind", FP8)
def test_the_oracle_encodes_as_ml_dtypes_does(kind: str) -> None:
    rng = np.random.default_rng(0)
    halves = every_half()
    x = halves[np.isfinite(halves)][:: 2**4].astype(np.float32)
    wide = (rng.normal(size=2_000) * 10.0 ** rng.uniform(-6, 6, 2_000)).astype(np.float32)
    numbers = np.concatenate([x, wide])
    codes = np.array([FP8[kind].code(float(number)) for number in numbers])
    assert np.array_equal(codes, saturated(numbers, kind))


@pytest.mark.parametrize("kind", FP8)
def test_ties_go_to_the_even_code_on_both_sides(kind: str) -> None:
    values = FP8[kind].values
    for code in range(FP8[kind].n_finite - 1):
        tie = float((values[code] + values[code + 1]) / 2)
        assert FP8[kind].code(tie) == code + code % 2
        assert FP8[kind].code(-tie) == 128 + code + code % 2
        assert FP8[kind].margin(tie) == 0


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: f"{s['format']}-{list(s.values())[-1]}")
def test_fractions_floats_and_the_lesson_agree(scheme: Scheme, lesson: dict[str, Any]) -> None:
    x = np.random.default_rng(3).normal(size=(11, 2, 8)) * 3 + 1
    exact = through(x, scheme)
    assert np.allclose(in_double(scheme)(x), exact.seen, rtol=0, atol=1e-12)
    assert np.allclose(lesson["as_seen"](x, scheme), exact.seen, rtol=0, atol=1e-12)
    single = lesson["as_seen"](x.astype(np.float32), scheme)
    assert single.dtype == np.float32, "the model goes on in single precision"
    assert np.allclose(single, exact.seen, rtol=0, atol=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: f"{s['format']}-{list(s.values())[-1]}")
def test_no_number_comes_back_more_than_half_a_step_off(scheme: Scheme) -> None:
    x = np.random.default_rng(4).normal(size=(9, 3, 8))
    seen = through(x, scheme).seen.ravel()
    grouped = np.zeros(x.size, dtype=bool)
    for places in sharing(x.shape, scheme):
        numbers = x.ravel()[places]
        codes = 2 ** scheme["bits"]
        widest = (
            np.abs(numbers).max() / (codes // 2 - 1)
            if scheme["format"] == "int"
            else np.ptp(numbers) / (codes - 1)
        )
        assert np.abs(seen[places] - numbers).max() <= widest / 2 + 1e-12
        assert not grouped[places].any(), "a number has one scale"
        grouped[places] = True
    assert np.array_equal(seen[~grouped], x.ravel()[~grouped]), "who waits comes back as it is"


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: f"{s['format']}-{list(s.values())[-1]}")
@pytest.mark.parametrize("shape", [(1, 1, 4), (7, 3, 8), (12, 2, 16)])
def test_bits_are_those_of_the_numbers_and_scales_counted_one_by_one(
    scheme: Scheme, shape: tuple[int, int, int]
) -> None:
    groups = sharing(shape, scheme)
    coded = sum(len(places) for places in groups)
    each = 16 if scheme["format"] == "int" else 32
    waiting = int(np.prod(shape)) - coded
    assert bits_of(*shape, scheme) == scheme["bits"] * coded + each * len(groups) + 16 * waiting


def test_sizes_known_from_paper() -> None:
    small = {"n_layers": 4, "n_kv_heads": 2, "head_dim": 32, "n_tokens": 512}
    plain = {"format": "16 bits"}
    assert cache_size(**small, keys=plain, values=plain) == 512 * 1024
    by_token = {"format": "int", "bits": 8, "share": "token"}
    assert cache_size(**small, keys=by_token, values=by_token) == 512 * 544
    keys = {"format": "groups", "bits": 2, "group": 32, "along": "tokens"}
    values = keys | {"along": "channels"}
    assert cache_size(**small, keys=keys, values=values) == 512 * 192  # 3 bits a number
    waiting = small | {"n_tokens": 543}  # 31 tokens' keys in 16 bits, their values in 3
    assert cache_size(**waiting, keys=keys, values=values) == 512 * 192 + 31 * (512 + 96)


def test_a_profile_tells_an_outlier_channel_and_whom_it_hurts() -> None:
    x = np.random.default_rng(5).normal(size=(64, 2, 8))
    ratio, by_token, by_channel = profiled(x, bits=4, group=8)
    assert ratio < 2
    assert by_token == pytest.approx(by_channel, rel=0.1)
    x[:, 1, 3] *= 20
    ratio, by_token, by_channel = profiled(x, bits=4, group=8)
    assert ratio > 10
    others = np.delete(x.reshape(64, 16), 11, axis=1)
    scheme = {"format": "groups", "bits": 4, "group": 8, "along": "channels"}
    lost = np.delete((in_double(scheme)(x) - x).reshape(64, 16), 11, axis=1)
    hurt = np.linalg.norm(lost[:, 8:]) / np.linalg.norm(others[:, 8:])
    assert hurt > 3 * by_channel, "by token, the neighbours of the outlier"


# ---------------------------------------------------------------- what is drawn


def test_drawn_numbers_are_clear_of_ties_but_where_ties_are_asked_for(draft: Draft) -> None:
    arrays, asked = draft.questions["arrays.json"], draft.questions["questions.json"]
    for name, scheme in asked["ints"].items():
        found = through(np.array(arrays["ints"][name]), {"format": "int", **scheme})
        assert (found.margin == 0) if name == "at_ties" else (found.margin > MARGIN)
    for name, scheme in asked["groups"].items():
        found = through(np.array(arrays["groups"][name]), {"format": "groups", **scheme})
        assert found.margin > MARGIN
    for kind in FP8:
        numbers = arrays["rounded"][f"values_{kind}"]
        margins = [FP8[kind].margin(number) for number in numbers]
        assert sum(margin == 0 for margin in margins) == 10
        assert all(margin == 0 or margin > Fraction(MARGIN) for margin in margins)


def test_ties_that_are_asked_for_are_exact_in_single_precision(draft: Draft) -> None:
    x = np.array(draft.questions["arrays.json"]["ints"]["at_ties"], dtype=np.float32)
    scale = np.abs(x).max(axis=2, keepdims=True) / np.float32(127)
    quotients = x / scale
    assert ((quotients - np.floor(quotients)) == 0.5).sum() == x.size - scale.size
    assert np.array_equal(np.rint(quotients), draft.truth["ints.npz"]["ints/at_ties"])


def test_numbers_of_every_kind_are_rounded(draft: Draft) -> None:
    for kind, form in FP8.items():
        numbers = draft.questions["arrays.json"]["rounded"][f"values_{kind}"]
        codes = np.array([form.code(number) for number in numbers]) % 128
        below = np.array([form.code(number) < 128 for number in numbers])
        assert (codes < form.stretch).any(), "subnormal"
        assert (codes > 2 * form.stretch).any(), "normal"
        assert 0 < below.sum() < len(numbers), "both signs"
        assert ((codes % form.stretch == 0) & (codes > 0)).any(), "up to a power of two"


def test_some_caches_do_not_end_with_a_byte_however_often_one_rounds(draft: Draft) -> None:
    odd, left = 0, set()
    for case in draft.questions["questions.json"]["bytes"]:
        shape = case["n_tokens"], case["n_kv_heads"], case["head_dim"]
        parts = [bits_of(*shape, case[name]) for name in ("keys", "values")]
        n_layers, bits = case["n_layers"], sum(parts)
        right = cache_size(**case)
        each_part = n_layers * sum(-(-part // 8) for part in parts)
        mistaken = {n_layers * bits // 8, n_layers * -(-bits // 8), each_part}
        odd += right not in mistaken and len(mistaken) == 3
        left.add(n_layers * bits % 8)
        for name in ("keys", "values"):
            if case[name].get("along") == "channels":
                assert case["head_dim"] % case[name]["group"] == 0
    assert odd >= 2
    assert left & {1, 2, 3}, "to the nearest byte is down"
    assert left & {5, 6, 7}, "to the nearest byte is up"


def test_the_truth_is_finite_where_a_check_compares_numbers(draft: Draft) -> None:
    for name, arrays in draft.truth.items():
        if name.endswith(".npz") and name != "decoded.npz":
            assert all(np.isfinite(array).all() for array in arrays.values()), name


# ---------------------------------------------------------------- the notebook's model


@pytest.mark.parametrize("name", ["load_lm", "norm", "rotate", "softmax", "logits_of", "losses"])
def test_the_notebook_is_given_the_model_as_it_is(name: str) -> None:
    source = inspect.getsource(getattr(inference, name))
    cells = "\n".join(cell.source for cell in Reference(SLUG)._cells if cell.kind == "given")
    assert source.strip() in cells
