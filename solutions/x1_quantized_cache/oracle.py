"""Draws lab x1's questions: arrays to quantize, caches to size, and text for the small model.

Drawn numbers keep their distance from ties, where two right programs may part by their last bit;
ties that are asked for lie where every float is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from solutions.draft import Draft, Source
from solutions.small_lm.inference import FOLDER, load_lm, logits_of, losses
from solutions.x1_quantized_cache.formats import FP8, Scheme, bits_of, in_double, through

MARGIN = 1e-4  # of a step: what single precision does to a quotient is a tenth of it
LEAST_STEP = 0.02  # what comes back is compared within 1e-4
DECIMALS, DIGITS = 4, 6  # of drawn numbers
LENGTHS = (27, 64)  # tokens of the two texts: unlike, so that a mean of means shows
NEAR = 5e-6  # of a step: single precision moves the model's keys and values by some 1e-6
LEAST_EFFECT = 0.04  # of a scheme on perplexity; the check allows 0.01
APART = 0.03  # of a mistake's perplexity from the right one
Given = dict[str, Any]


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng = source.rng
    questions: Given = {}
    arrays: Given = {}
    truth: Given = {}
    for part in (_ints, _fp8, _groups, _seen, _profiles, _model, _texts):
        asked, given, right = part(rng)
        questions |= asked
        arrays |= given
        truth |= right
    sizes = _sizes(rng)
    questions["bytes"] = sizes
    truth["bytes.json"] = {f"bytes/{i}": cache_size(**asked) for i, asked in enumerate(sizes)}
    return Draft({"questions.json": questions, "arrays.json": arrays}, truth)


Part = tuple[Given, Given, Given]
"""Questions, arrays that go with them, and truth files."""


# ---------------------------------------------------------------- arrays to quantize


def _numbers(rng: np.random.Generator, shape: Sequence[int], scale: float = 2.0) -> np.ndarray:
    return np.asarray(np.round(rng.normal(size=tuple(shape)) * scale, DECIMALS))


def _clear(draw_x: Callable[[], np.ndarray], *schemes: Scheme) -> np.ndarray:
    """Draw an array until none of its numbers lies near a tie under any of the schemes."""
    while True:
        x = draw_x()
        found = [through(x, scheme) for scheme in schemes]
        if all(each.margin > MARGIN and each.step > LEAST_STEP for each in found):
            return x


def _ints(rng: np.random.Generator) -> Part:
    asked: dict[str, Given] = {
        "eight_bits": {"bits": 8, "share": "token"},
        "four_bits": {"bits": 4, "share": "channel"},
        "few_bits": {"bits": int(rng.integers(2, 4)), "share": "tensor"},
        "with_zeros": {"bits": int(rng.integers(5, 8)), "share": "token"},
        "at_ties": {"bits": 8, "share": "token"},
    }

    def drawn(name: str) -> np.ndarray:
        shape = (int(rng.integers(5, 8)), int(rng.integers(2, 4)), int(rng.integers(5, 9)))
        x = _numbers(rng, shape, 8.0)
        if name == "four_bits":
            x[:, 1, 2] = np.round(x[:, 1, 2] * 10, DECIMALS)  # one channel far larger
        if name == "few_bits":
            x[2, 1, 3] = -np.abs(x).max() * 1.5  # the largest is below zero
        if name == "with_zeros":
            x[1, 0] = 0.0
        return np.round(x, DECIMALS)

    arrays = {
        name: _clear(partial(drawn, name), {"format": "int", **scheme})
        for name, scheme in asked.items()
        if name != "at_ties"
    }
    arrays["at_ties"] = _ties(rng)
    found = {name: through(x, {"format": "int", **asked[name]}) for name, x in arrays.items()}
    return (
        {"ints": asked},
        {"ints": {name: x.tolist() for name, x in arrays.items()}},
        {
            "ints.npz": {f"ints/{name}": each.codes for name, each in found.items()},
            "back.npz": {f"back/{name}": each.seen for name, each in found.items()},
        },
    )


def _ties(rng: np.random.Generator) -> np.ndarray:
    """Return numbers halfway between two codes; every scale is a power of two, so all is exact."""
    codes = rng.integers(-126, 126, size=(4, 2, 6)) + 0.5
    codes[..., 0] = rng.choice([-127.0, 127.0], size=(4, 2))  # the largest, which sets the scale
    exponents = rng.integers(-6, 1, size=(4, 2, 1))
    return np.asarray(codes * 2.0**exponents)


# ---------------------------------------------------------------- FP8


def _fp8(rng: np.random.Generator) -> Part:
    codes = {kind: [int(code) for code in rng.permutation(256)] for kind in FP8}
    rounded = {kind: _within_reach(rng, kind) for kind in FP8}
    edges = {kind: _edges(rng, kind) for kind in FP8}
    right: Given = {
        "decoded.npz": {
            f"decoded/{kind}": np.array([FP8[kind].value(code) for code in codes[kind]])
            for kind in FP8
        },
        "again.npz": {
            f"again/{kind}": np.array([_again(kind, code) for code in codes[kind]]) for kind in FP8
        },
    }
    for topic, numbers in (("rounded", rounded), ("edges", edges)):
        right[f"{topic}.npz"] = {
            f"{topic}/{kind}": np.array([float(FP8[kind].code(number)) for number in numbers[kind]])
            for kind in FP8
        }
    given = {"rounded": rounded, "edges": edges}
    right["inputs.npz"] = {
        f"{topic}/{kind}": np.array(numbers[kind])
        for topic, numbers in given.items()
        for kind in FP8
    }
    # A call shows an array by its name: one that cannot be taken for a kind.
    arrays = {
        topic: {f"values_{kind}": numbers[kind] for kind in FP8} for topic, numbers in given.items()
    }
    return {"codes": codes}, arrays, right


def _again(kind: str, code: int) -> float:
    """Return the code that a code's value has; -1 for NaN, which has several."""
    value = FP8[kind].value(code)
    return -1.0 if np.isnan(value) else float(FP8[kind].code(np.clip(value, -1e6, 1e6)))


def _within_reach(rng: np.random.Generator, kind: str) -> list[float]:
    """Return numbers between codes of every kind, exact ties among them."""
    form = FP8[kind]
    values = [float(value) for value in form.values]
    normal = 2 * form.stretch  # from here on codes stand for normal numbers, and steps grow
    drawn = [_between(rng, kind, int(code)) for code in rng.integers(normal, form.n_finite - 1, 24)]
    drawn += [_between(rng, kind, int(code)) for code in rng.integers(0, form.stretch, 8)]
    last = form.stretch * rng.integers(2, form.n_finite // form.stretch, 6) - 1
    drawn += [_between(rng, kind, int(code), least=0.55) for code in last]  # up, to a power of two
    for first in (0, 1):  # ties above an even code, and above an odd one
        places = 2 * rng.integers(0, form.n_finite // 2 - 1, 5) + first
        places[0] = 2 + first  # one among the subnormal numbers
        drawn += [(values[place] + values[place + 1]) / 2 for place in places]
    signs = rng.choice([-1.0, 1.0], len(drawn))
    return [float(sign * number) for sign, number in zip(signs, drawn, strict=True)]


def _between(rng: np.random.Generator, kind: str, code: int, least: float = 0.0) -> float:
    """Draw a number between a code's value and the next one's, away from the tie."""
    below, above = (float(value) for value in FP8[kind].values[code : code + 2])
    while True:
        number = float(f"{below + (above - below) * rng.uniform(least, 1):.{DIGITS}g}")
        if FP8[kind].margin(number) > MARGIN:
            return number


def _edges(rng: np.random.Generator, kind: str) -> list[float]:
    """Return the largest number and larger ones, zeros, and numbers that become zero."""
    largest, least = float(FP8[kind].largest), float(FP8[kind].smallest)
    beyond = [float(f"{largest * factor:.{DIGITS}g}") for factor in rng.uniform(1.001, 1.03, 2)]
    far = [float(f"{largest * factor:.{DIGITS}g}") for factor in 10.0 ** rng.uniform(0.2, 3, 3)]
    tiny = [float(f"{least * factor:.{DIGITS}g}") for factor in rng.uniform(0.01, 0.45, 2)]
    some = float(f"{least * rng.uniform(0.55, 0.95):.{DIGITS}g}")
    sizes = [largest, *beyond, *far, 0.0, least / 2, *tiny, some]
    edges = [sign * size for size in sizes for sign in (1.0, -1.0)]
    # another order in each split: the codes of these numbers are nearly the same in all
    return [edges[i] for i in rng.permutation(len(edges))]


# ---------------------------------------------------------------- groups, schemes, profiles


def _groups(rng: np.random.Generator) -> Part:
    bits = [int(number) for number in rng.permutation([2, 3, 4])]
    asked: dict[str, Given] = {
        "along_tokens": {"bits": bits[0], "group": 4, "along": "tokens"},
        "tokens_waiting": {"bits": bits[1], "group": 5, "along": "tokens"},
        "along_channels": {"bits": bits[2], "group": 4, "along": "channels"},
        "all_alike": {"bits": 4, "group": 8, "along": "channels"},
    }
    # Three or four wait: of two, smallest and largest, nothing would be lost.
    n_tokens = {"along_tokens": 8, "tokens_waiting": 5 + int(rng.integers(3, 5))}

    def draw_x(name: str) -> np.ndarray:
        x = _numbers(rng, (n_tokens.get(name, 5), 2, 8))
        x[:, 1, 3] += 8  # a channel away from zero
        if name == "all_alike":
            x[2, 0] = x[2, 0, 0]
        return np.round(x, DECIMALS)

    arrays = {
        name: _clear(partial(draw_x, name), {"format": "groups", **scheme})
        for name, scheme in asked.items()
    }
    right = {
        f"groups/{name}": through(x, {"format": "groups", **asked[name]}).seen
        for name, x in arrays.items()
    }
    return (
        {"groups": asked},
        {"groups": {name: x.tolist() for name, x in arrays.items()}},
        {"groups.npz": right},
    )


def _seen(rng: np.random.Generator) -> Part:
    bits = [int(number) for number in rng.permutation([2, 3, 4, 5])]
    schemes: dict[str, Scheme] = {
        "sixteen_bits": {"format": "16 bits"},
        "e4m3": {"format": "e4m3"},
        "e5m2": {"format": "e5m2"},
        "one_scale": {"format": "int", "bits": 8, "share": "tensor"},
        "by_token": {"format": "int", "bits": bits[0], "share": "token"},
        "by_channel": {"format": "int", "bits": bits[1], "share": "channel"},
        "along_tokens": {"format": "groups", "bits": bits[2], "group": 4, "along": "tokens"},
        "along_channels": {"format": "groups", "bits": bits[3], "group": 4, "along": "channels"},
    }
    x = _clear(partial(_numbers, rng, (7, 2, 8)), *schemes.values())
    right = {f"seen/{name}": through(x, scheme).seen for name, scheme in schemes.items()}
    return {"seen": schemes}, {"seen": {"x": x.tolist()}}, {"seen.npz": right}


def _profiles(rng: np.random.Generator) -> Part:
    asked = {}
    arrays = {}
    for name in ("plain", "channel", "token", "offset", "two_heads"):
        x = _numbers(rng, (22 + int(rng.integers(1, 4)), 2, 8))
        if name == "channel":
            x[:, 1, int(rng.integers(8))] *= 12
        if name == "token":
            x[int(rng.integers(20)), :] *= 12
        if name == "offset":
            x[:, 0, int(rng.integers(8))] += 25
        if name == "two_heads":
            x[:, 0] *= 6
        arrays[name] = np.round(x, DECIMALS)
        asked[name] = {"bits": int(rng.integers(2, 5)), "group": int(rng.choice([4, 8]))}
    right = {f"profiles/{name}": profiled(x, **asked[name]) for name, x in arrays.items()}
    return (
        {"profiles": asked},
        {"profiles": {name: x.tolist() for name, x in arrays.items()}},
        {"profiles.npz": right},
    )


def profiled(x: np.ndarray, bits: int, group: int) -> np.ndarray:
    """Return largest over median channel, and the error of groups of one token, of one channel."""
    largest = sorted(float(np.max(np.abs(channel))) for channel in x.reshape(len(x), -1).T)
    middle = len(largest) // 2
    median = (largest[middle] + largest[-middle - 1]) / 2
    errors = []
    for along in ("channels", "tokens"):
        scheme = {"format": "groups", "bits": bits, "group": group, "along": along}
        lost = in_double(scheme)(x) - x
        errors.append(float(np.linalg.norm(lost) / np.linalg.norm(x)))
    return np.array([largest[-1] / median, *errors])


# ---------------------------------------------------------------- the small model


@cache
def _lm() -> Given:
    """Return the small language model in double precision."""
    lm = load_lm(FOLDER)
    for name in ("embedding", "unembedding"):
        lm[name] = lm[name].astype(np.float64)
    lm["layers"] = [
        {name: weight.astype(np.float64) for name, weight in layer.items()}
        for layer in lm["layers"]
    ]
    return lm


@cache
def _held_out() -> np.ndarray:
    with np.load(FOLDER / "held_out.npz") as stored:
        return np.asarray(stored["tokens"], dtype=np.int64)


def _text(rng: np.random.Generator, n_tokens: int) -> list[int]:
    """Draw held-out text of n_tokens, the start token first."""
    rows = _held_out()
    row = rows[rng.integers(len(rows))]
    start = rng.integers(len(row) - n_tokens + 2)
    return [0, *(int(token) for token in row[start : start + n_tokens - 1])]


def _model(rng: np.random.Generator) -> Part:
    asked: list[Given] = [
        {"tokens": _text(rng, n_tokens), "bits": bits, "group": group}
        for n_tokens, bits, group in ((37, 3, 16), (24, 2, 8))
    ]
    right = {f"model/{i}": _profiles_of_lm(**each) for i, each in enumerate(asked)}
    return {"model": asked}, {}, {"model.npz": right}


def _profiles_of_lm(tokens: Sequence[int], bits: int, group: int) -> np.ndarray:
    found = np.full((_lm()["n_layers"], 2, 3), np.nan)

    def keep(of: int) -> Callable[[int, np.ndarray], np.ndarray]:
        def hook(layer: int, x: np.ndarray) -> np.ndarray:
            found[layer, of] = profiled(x, bits, group)
            return x

        return hook

    logits_of(_lm(), np.array(tokens), keep(0), keep(1))
    return found


def _texts(rng: np.random.Generator) -> Part:
    plain: Scheme = {"format": "16 bits"}
    cases: dict[str, dict[str, Scheme]] = {
        "sixteen_bits": {"keys": plain, "values": plain},
        "keys_alone": {"keys": _in_groups("tokens", 24), "values": plain},
        "values_alone": {
            "keys": plain,
            "values": {"format": "int", "bits": 2, "share": "token"},
        },
        "both": {
            "keys": {"format": "int", "bits": 2, "share": "channel"},
            "values": _in_groups("channels", 16) | {"bits": 4},
        },
    }
    while True:
        pieces = [_text(rng, n_tokens) for n_tokens in LENGTHS]
        margins: list[float] = []
        found = {name: perplexity(pieces, **case, margins=margins) for name, case in cases.items()}
        if min(margins) > NEAR and _tells_mistakes(pieces, cases, found):
            break
    right = {f"perplexity/{name}": value for name, value in found.items()}
    return {"texts": pieces, "perplexity": cases}, {}, {"perplexities.json": right}


def _in_groups(along: str, group: int) -> Scheme:
    return {"format": "groups", "bits": 2, "group": group, "along": along}


def perplexity(
    pieces: Sequence[Sequence[int]],
    keys: Scheme,
    values: Scheme,
    margins: list[float] | None = None,
) -> float:
    """Return the small model's perplexity over pieces, in double precision."""
    return float(np.exp(np.concatenate(_losses(pieces, keys, values, margins)).mean()))


def _losses(
    pieces: Sequence[Sequence[int]],
    keys: Scheme,
    values: Scheme,
    margins: list[float] | None = None,
) -> list[np.ndarray]:
    on_keys, on_values = in_double(keys, margins), in_double(values, margins)
    arrays = [np.array(piece) for piece in pieces]
    return [
        losses(logits_of(_lm(), each, lambda _, k: on_keys(k), lambda _, v: on_values(v)), each)
        for each in arrays
    ]


def _tells_mistakes(
    pieces: list[list[int]], cases: dict[str, dict[str, Scheme]], found: dict[str, float]
) -> bool:
    """Tell whether keys alone show, values alone do, and so does each common mistake."""
    plain = found["sixteen_bits"]
    alone = (found["keys_alone"], found["values_alone"])
    if min(abs(each / plain - 1) for each in alone) < LEAST_EFFECT:
        return False
    plain_keys, plain_values = cases["sixteen_bits"].values()
    by_piece = [np.exp(each.mean()) for each in _losses(pieces, plain_keys, plain_values)]
    if abs(np.mean(by_piece) / plain - 1) < APART:
        return False
    keys, values, right = cases["both"]["keys"], cases["both"]["values"], found["both"]
    mistaken = (
        perplexity(pieces, one, other)
        for one, other in ((keys, keys), (values, values), (values, keys))
    )
    return all(abs(each / right - 1) > APART for each in mistaken)


# ---------------------------------------------------------------- sizes


def _sizes(rng: np.random.Generator) -> list[Given]:
    small: Given = {"n_layers": 4, "n_kv_heads": 2, "head_dim": 32}
    large: Given = {"n_layers": 32, "n_kv_heads": 8, "head_dim": 128}
    schemes: list[tuple[Scheme, Scheme]] = [
        ({"format": "16 bits"}, {"format": "16 bits"}),
        ({"format": "e4m3"}, {"format": "e5m2"}),
        (_in_groups("tokens", 32), _in_groups("channels", 32)),
    ]
    asked = [{**small, "n_tokens": 512, "keys": keys, "values": values} for keys, values in schemes]
    kinds = ("tensor", "token", "channel")
    for share in kinds:
        other = str(rng.choice([kind for kind in kinds if kind != share]))
        bits = [int(number) for number in rng.choice([8, 6, 5, 4, 3, 2], 2, replace=False)]
        asked.append(
            {
                **(large if share == "token" else _shape(rng)),
                "n_tokens": int(rng.integers(100, 9_000)),
                "keys": {"format": "int", "bits": bits[0], "share": share},
                "values": {"format": "int", "bits": bits[1], "share": other},
            }
        )
    for along, other in (("tokens", "channels"), ("channels", "tokens"), ("tokens", "tokens")):
        group = int(rng.choice([16, 32]))
        waiting = int(rng.integers(1, group))
        asked.append(
            {
                **(large if other == "tokens" else _shape(rng)),
                "n_tokens": group * int(rng.integers(3, 200)) + waiting,
                "keys": _in_groups(along, group) | {"bits": int(rng.integers(2, 5))},
                "values": _in_groups(other, 32) | {"bits": int(rng.integers(2, 5))},
            }
        )
    return asked + [_odd_size(rng, last) for last in ((1, 2, 3), (5, 6, 7))]


def _odd_size(rng: np.random.Generator, last: Sequence[int]) -> Given:
    """Draw a cache whose bits fill no whole byte: it matters how often, and which way, one rounds.

    `last` are the bits that may be left over at the very end.
    """
    while True:
        shape: Given = {
            "n_layers": int(rng.integers(5, 60)),
            "n_kv_heads": int(rng.choice([1, 3, 5])),
            "head_dim": int(rng.choice([45, 63, 81, 99])),  # 3 and 9 divide each
            "n_tokens": int(rng.integers(100, 2_000)),
        }
        one: Scheme = {"format": "int", "bits": int(rng.choice([3, 5, 7])), "share": "token"}
        other = _in_groups("channels", int(rng.choice([3, 9]))) | {"bits": int(rng.choice([3, 5]))}
        keys, values = (one, other) if rng.random() < 0.5 else (other, one)
        n_layers, n_kv_heads, head_dim, n_tokens = shape.values()
        bits = [bits_of(n_tokens, n_kv_heads, head_dim, each) for each in (keys, values)]
        exact = n_layers * sum(bits)
        size_in_bytes = _whole_bytes(exact)
        each_layer = n_layers * _whole_bytes(sum(bits))
        each_part = n_layers * sum(map(_whole_bytes, bits))
        if exact % 8 in last and size_in_bytes < each_layer < each_part:
            return {**shape, "keys": keys, "values": values}


def _whole_bytes(bits: int) -> int:
    return (bits + 7) // 8


def _shape(rng: np.random.Generator) -> Given:
    return {
        "n_layers": int(rng.integers(5, 60)),
        "n_kv_heads": int(rng.integers(3, 12)),
        "head_dim": int(rng.choice([64, 96, 128, 192])),
    }


def cache_size(
    n_layers: int, n_kv_heads: int, head_dim: int, n_tokens: int, keys: Scheme, values: Scheme
) -> int:
    """Return the bytes of a whole cache, a last part of a byte counted as one."""
    bits = n_layers * sum(bits_of(n_tokens, n_kv_heads, head_dim, each) for each in (keys, values))
    return _whole_bytes(bits)
