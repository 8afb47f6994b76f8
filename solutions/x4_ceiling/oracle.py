"""Draws lab x4's questions; the truth is computed in fractions, block by block and byte by byte."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import log2
from typing import Any

import numpy as np
import pandas as pd

from solutions.draft import Draft, Source
from solutions.small_lm.inference import FOLDER, load_lm, logits_of
from solutions.world.gpus import GPU_CATALOG
from solutions.world.shapes import read_catalog
from solutions.x4_ceiling.allocator import Played, blocks_needed, play

Rng = np.random.Generator
Question = dict[str, Any]

POLICIES = ("longest", "power_of_two", "exact", "paged")
FIRST = ("cache", "compute", "memory")
APART = Fraction(11, 10)  # the first two limits differ by a tenth, so that no rounding swaps them
BOUNDARY = Fraction(1, 10**6)  # relative distance that a rounded quotient keeps from whole numbers
DEFAULT_FRACTION = "0.92"
FRACTIONS = ("0.8", "0.85", "0.9", "0.95")
N_CEILINGS = 4  # of each limit that comes first
N_RESERVED, N_WASTE, N_SCHEDULE = 4, 2, 3  # of each policy
N_PREFIX, N_ENTROPY, N_PLANES = 4, 6, 3
# Pieces of the cache question: short ones, so that their entropies differ by far more than the
# tolerance of the check, and no one answer fits two of them.
CACHE_CASES = ((0, "keys"), (0, "values"), (1, "values"), (2, "keys"), (3, "values"))
SHORTEST, LONGEST = 8, 16  # tokens of such a piece


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng = source.rng
    asked: dict[str, list[Question]] = {
        "ceilings": _ceilings(rng),
        "reserved": _reserved(rng),
        "waste": _wastes(rng),
        "schedule": _schedules(rng),
        "prefix": _prefixes(rng),
        "entropy": _byte_lists(rng),
        "planes": _number_lists(rng),
        "cache": _pieces(rng),
    }
    numbers: dict[str, Any] = {}
    arrays: dict[str, dict[str, np.ndarray]] = {"schedule": {}, "planes": {}, "cache": {}}
    for topic, answer in (
        ("ceilings", limits),
        ("reserved", reserved),
        ("waste", wasted),
        ("prefix", blocks_of_prompts),
        ("entropy", entropy),
    ):
        numbers |= {f"{topic}/{i}": answer(**args) for i, args in enumerate(asked[topic])}
    for i, args in enumerate(asked["schedule"]):
        arrays["schedule"][f"schedule/{i}"] = np.array(play(**args).steps)
    for i, args in enumerate(asked["planes"]):
        arrays["planes"][f"planes/{i}"] = np.array(planes(**args))
    for i, args in enumerate(asked["cache"]):
        arrays["cache"][f"cache/{i}"] = np.array(entropies_of_cache(**args))
    return Draft(
        {"questions.json": asked},
        {"numbers.json": numbers} | {f"{topic}.npz": found for topic, found in arrays.items()},
    )


# ---------------------------------------------------------------- limits


def quotients(
    model: Question,
    gpu: Question,
    weight_bits: int,
    kv_bits: int,
    context_len: int,
    memory_fraction: float | None = None,
) -> dict[str, Fraction]:
    """Return the three batches, none of them rounded."""
    fraction = DEFAULT_FRACTION if memory_fraction is None else str(memory_fraction)
    weights = Fraction(str(model["params_b"])) * 10**9 * weight_bits / 8
    token = Fraction(model["n_layers"] * model["n_kv_heads"] * model["head_dim"] * kv_bits, 4)
    usable = Fraction(fraction) * Fraction(str(gpu["gpu_memory_gb"])) * 10**9
    # 2 operations a parameter against weight_bits / 8 bytes a parameter: the size cancels
    peak, bandwidth = (Fraction(str(gpu[key])) for key in ("gpu_tflops", "gpu_bandwidth_gbps"))
    return {
        "cache": weights / (token * context_len),
        "compute": Fraction(weight_bits, 16) * 1000 * peak / bandwidth,
        "memory": (usable - weights) / (token * context_len),
    }


def limits(**args: Any) -> Question:
    """Return the right answer of `ceilings`."""
    exact = quotients(**args)
    fit = max(0, exact["memory"].numerator // exact["memory"].denominator)
    found: dict[str, Fraction | int] = {**exact, "memory": fit}
    return {
        "cache_batch": float(exact["cache"]),
        "compute_batch": float(exact["compute"]),
        "memory_batch": fit,
        "first": min(FIRST, key=lambda name: found[name]),
    }


@cache
def _models() -> pd.DataFrame:
    return read_catalog()


@cache
def _gpus() -> pd.DataFrame:
    return pd.read_csv(GPU_CATALOG)


def _ceilings(rng: Rng) -> list[Question]:
    """Draw machines, as many of each limit that comes first; two of them hold no request."""
    wanted = [*FIRST * N_CEILINGS, "nothing", "nothing"]
    found: list[Question] = []
    while wanted:
        args = _machine(rng, len(found))
        exact = quotients(**args)
        first, second, _ = sorted(exact.values())
        quotient = exact["memory"]
        if quotient < 0:
            kind = "nothing"
            apart = True
        else:
            kind = min(exact, key=lambda name: exact[name])
            nearest = max(1, round(quotient))
            apart = second > APART * first and abs(quotient - nearest) > BOUNDARY * nearest
            # Rounded down it must stay the first, or not become it.
            apart &= first > 2 and second > first + 1
        if kind in wanted and apart and quotient < 5_000:
            wanted.remove(kind)
            found.append(args)
    return found


def _machine(rng: Rng, number: int) -> Question:
    model = _models().iloc[int(rng.integers(len(_models())))]
    gpu = _gpus().iloc[int(rng.integers(len(_gpus())))]
    args: Question = {
        "model": {key: int(model[key]) for key in ("n_layers", "n_kv_heads", "head_dim")}
        | {"params_b": float(model["params_b"])},
        "gpu": {
            key: float(gpu[key]) for key in ("gpu_memory_gb", "gpu_bandwidth_gbps", "gpu_tflops")
        },
        "weight_bits": int(rng.choice((16, 8, 4))),
        "kv_bits": int(rng.choice((16, 8))),
        "context_len": round(float(np.exp(rng.uniform(np.log(64), np.log(32_768))))),
    }
    if number % 3 == 0:
        args["memory_fraction"] = float(rng.choice(FRACTIONS))
    return args


# ---------------------------------------------------------------- memory


def reserved(
    policy: str, prompt: int, made: int, output: int, max_len: int, block_size: int
) -> int:
    """Return the right answer of `reserved_tokens`."""
    blocks = blocks_needed(policy, prompt, made, output, max_len, block_size)
    return blocks * (block_size if policy == "paged" else 1)


def wasted(policy: str, requests: Sequence[Sequence[int]], max_len: int, block_size: int) -> float:
    """Return the right answer of `waste`, from sums in closed form."""
    held = kept = 0
    for prompt, output in requests:
        held += output * prompt + output * (output + 1) // 2
        if policy == "paged":
            kept += _rounded_up(prompt + output, block_size) - _rounded_up(prompt, block_size)
        else:
            kept += output * reserved(policy, prompt, 1, output, max_len, block_size)
    return float(1 - Fraction(held, kept))


def _rounded_up(n: int, block_size: int) -> int:
    """Return the sum of 1, 2, ..., n, each rounded up to whole blocks, in tokens."""
    full, rest = divmod(n, block_size)
    return block_size * (block_size * full * (full + 1) // 2 + rest * (full + 1))


def _reserved(rng: Rng) -> list[Question]:
    """Draw requests of which no two policies reserve the same, a full block among them."""
    found: list[Question] = []
    for number in range(N_RESERVED * len(POLICIES)):
        policy = POLICIES[number % len(POLICIES)]
        block_size = int(rng.choice((8, 16, 32)))
        output = int(rng.integers(5, 400))
        if output & (output - 1) == 0:
            output += 1  # a power of two needs no rounding; one such comes below
        made = int(rng.integers(1, output))
        prompt = int(rng.integers(1, 2_000))
        if number == 3:  # a block that is just full
            prompt += -(prompt + made) % block_size
        if number == 1:
            output, made = 64, 5
        if number == 5:  # the power of two would go beyond max_len
            output, made = 300, 7
        longest = prompt + output
        beyond = longest + int(rng.integers(1, 100 if number == 5 else 2_000))
        max_len = beyond if number == 5 else beyond + 2 * output
        found.append(
            {
                "policy": policy,
                "prompt": prompt,
                "made": made,
                "output": output,
                "max_len": max_len,
                "block_size": block_size,
            }
        )
    return found


def _requests(rng: Rng, n: int, longest_prompt: int, longest_output: int) -> list[list[int]]:
    """Draw requests of uneven sizes, as real ones are: many short, a few long."""
    prompts = np.exp(rng.uniform(0, np.log(longest_prompt), n)).astype(int)
    outputs = np.exp(rng.uniform(np.log(2), np.log(longest_output), n)).astype(int)
    return [
        [int(max(1, prompt)), int(max(1, output))]
        for prompt, output in zip(prompts, outputs, strict=True)
    ]


def _wastes(rng: Rng) -> list[Question]:
    found = []
    for number in range(N_WASTE * len(POLICIES)):
        requests = _requests(rng, int(rng.integers(6, 12)), 300, 80)
        found.append(
            {
                "policy": POLICIES[number % len(POLICIES)],
                "requests": requests,
                "max_len": max(map(sum, requests)) + int(rng.integers(1, 200)),
                "block_size": int(rng.choice((4, 8, 16))),
            }
        )
    return found


def _schedules(rng: Rng) -> list[Question]:
    """Draw queues that are told apart by every rule: somebody goes back, somebody may not pass."""
    found = []
    for number in range(N_SCHEDULE * len(POLICIES)):
        policy = POLICIES[number % len(POLICIES)]
        while True:
            requests = _requests(rng, int(rng.integers(7, 12)), 40, 24)
            longest = max(map(sum, requests))
            args: Question = {
                "policy": policy,
                "requests": requests,
                "max_len": longest + int(rng.integers(0, 20)),
                "block_size": int(rng.choice((2, 4, 8))),
            }
            args["capacity_tokens"] = 2 * args["max_len"] + int(rng.integers(0, 40))
            if _tells(policy, play(**args)):
                break
        found.append(args)
    return found


def _tells(policy: str, played: Played) -> bool:
    """Tell whether a run shows what its policy can show."""
    if policy == "longest":
        return max(batch for batch, _ in played.steps) >= 2
    return played.overtaken and (policy != "paged" or played.put_back >= 2)


# ---------------------------------------------------------------- shared beginnings


def blocks_of_prompts(prompts: Sequence[Sequence[int]], block_size: int, shared: bool) -> int:
    """Return the right answer of `blocks_held`: a tree of full blocks, and single ends."""
    tree: dict[Any, Any] = {}
    nodes = ends = 0
    for number, prompt in enumerate(prompts):
        node = tree if shared else tree.setdefault(("alone", number), {})
        rest = list(prompt)
        while len(rest) >= block_size:
            block, rest = tuple(rest[:block_size]), rest[block_size:]
            nodes += block not in node
            node = node.setdefault(block, {})
        ends += bool(rest)
    return nodes + ends


def _prefixes(rng: Rng) -> list[Question]:
    """Draw prompts with a common beginning; some that part early, repeat it, or are alike."""
    found: list[Question] = []
    for _ in range(N_PREFIX):
        block_size = int(rng.choice((2, 3, 4)))
        # A beginning that ends in the middle of a block, and holds one block twice.
        block = rng.integers(1, 50, block_size).tolist()
        system = [*block, *rng.integers(1, 50, 2 * block_size).tolist(), *block, 7]
        prompts = [
            [*system, *rng.integers(1, 50, int(rng.integers(1, 9))).tolist()]
            for _ in range(int(rng.integers(3, 6)))
        ]
        prompts += [prompts[0], system[: 2 * block_size]]
        other = [*system]
        other[1] += 50  # the same tokens after the first block, where nothing can be shared
        prompts.append([*other, *prompts[1][len(system) :]])
        order = rng.permutation(len(prompts))
        drawn = [[int(token) for token in prompts[i]] for i in order]
        found += [
            {"prompts": drawn, "block_size": block_size, "shared": shared}
            for shared in (True, False)
        ]
    return found


# ---------------------------------------------------------------- bytes


def entropy(data: Sequence[int]) -> float:
    """Return the right answer of `entropy_bits`: log n - (sum of c log c) / n."""
    counts = Counter(data)
    n = sum(counts.values())
    return log2(n) - sum(count * log2(count) for count in counts.values()) / n


def planes(numbers: Sequence[float], kind: str) -> tuple[list[int], list[int]]:
    """Return the right answer of `byte_planes`, number by number, from big-endian bytes."""
    form = ">e" if kind == "float16" else ">f"  # the upper half of a float is a bfloat16
    packed = [struct.pack(form, number) for number in numbers]
    return [raw[0] for raw in packed], [raw[1] for raw in packed]


@cache
def _lm() -> Any:
    return load_lm(FOLDER)


@cache
def _held_out() -> np.ndarray:
    with np.load(FOLDER / "held_out.npz") as stored:
        tokens: np.ndarray = stored["tokens"]
    return tokens


def numbers_of_cache(tokens: Sequence[int], layer: int, kind: str) -> list[float]:
    """Return the numbers of one layer's keys or values, as computed, in any order."""
    seen: dict[int, np.ndarray] = {}
    hooks = {
        name: (lambda i, x, name=name: seen.update({i: x} if name == kind else {}) or x)
        for name in ("keys", "values")
    }
    logits_of(_lm(), np.array(tokens), on_keys=hooks["keys"], on_values=hooks["values"])
    found: list[float] = seen[layer].astype(np.float64).ravel().tolist()
    return found


def entropies_of_cache(tokens: Sequence[int], layer: int, kind: str) -> tuple[float, float]:
    """Return the right answer of `cache_entropy`."""
    high, low = planes(numbers_of_cache(tokens, layer, kind), "float16")
    return entropy(high), entropy(low)


def _byte_lists(rng: Rng) -> list[Question]:
    """Draw bytes of several distributions: even, steep, of few values, with the largest one."""
    found = []
    for number in range(N_ENTROPY):
        n = int(rng.integers(40, 300))
        values = rng.permutation(256)[: (256, 40, 12, 2)[number % 4]]
        odds = np.exp(-rng.uniform(0.0, 0.4) * (number % 3) * np.arange(len(values)))
        data = rng.choice(values, n, p=odds / odds.sum()).tolist()
        found.append({"data": [*data, 255, int(values[0])]})
    return found


def _number_lists(rng: Rng) -> list[Question]:
    """Draw numbers that both formats hold exactly, of both signs and several sizes."""
    found: list[Question] = []
    for _ in range(N_PLANES):
        n = int(rng.integers(8, 20))
        mantissa = rng.integers(128, 256, n) / 128  # 1 and 7 bits: no rounding in bfloat16
        numbers = mantissa * 2.0 ** rng.integers(-6, 7, n) * rng.choice((-1, 1), n)
        drawn = [*numbers.tolist(), 1.0, -2.5, 0.0]
        found += [{"numbers": drawn, "kind": kind} for kind in ("float16", "bfloat16")]
    return found


def _pieces(rng: Rng) -> list[Question]:
    """Draw pieces of held-out text of several lengths, each for one part of the cache."""
    found = []
    lengths = np.linspace(SHORTEST, LONGEST, len(CACHE_CASES)).astype(int)
    for (layer, kind), n in zip(CACHE_CASES, rng.permutation(lengths), strict=True):
        text = _held_out()[int(rng.integers(len(_held_out())))]
        start = int(rng.integers(0, len(text) - int(n)))
        tokens = [0, *(int(token) for token in text[start : start + int(n) - 1])]
        found.append({"tokens": tokens, "layer": layer, "kind": kind})
    return found
