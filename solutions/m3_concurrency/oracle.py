"""Draws milestone 3's questions; the truth is computed in exact fractions, not in floats.

A question is kept only when the quotient that is rounded down keeps a relative distance of more
than 1e-6 from every whole number, so that no honest computation in floats can round otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from solutions.draft import Draft, Source
from solutions.world.gpus import GPU_CATALOG
from solutions.world.shapes import read_catalog

Rng = np.random.Generator
Question = dict[str, Any]

REQUESTS, CONTEXT = "max_concurrent_requests", "max_context_len"
BOUNDARY = Fraction(1, 10**6)  # relative distance kept from every whole number
DEFAULT_FRACTION = "0.92"
FRACTIONS = ("0.5", "0.6", "0.75", "0.8", "0.85", "0.9", "0.95", "0.98")
N_ANY_MACHINE, N_FRACTION, N_NOTHING_FITS, N_LONGEST, N_LADDERS = 16, 10, 8, 12, 3
LADDER = 5  # contexts, and numbers of requests, that one machine is asked about


@dataclass(frozen=True)
class Machine:
    """One GPU with one model on it; memory in decimal GB, parameters in 1e9, as decimal text."""

    memory_gb: str
    params_b: str
    weight_bits: int
    n_layers: int
    n_kv_heads: int
    head_dim: int
    kv_bits: int
    fraction: str = DEFAULT_FRACTION

    @property
    def budget_bytes(self) -> Fraction:
        """Bytes that the weights leave for the cache; negative where they do not fit."""
        usable = Fraction(self.fraction) * Fraction(self.memory_gb) * 10**9
        return usable - Fraction(self.params_b) * 10**9 * Fraction(self.weight_bits, 8)

    @property
    def token_bytes(self) -> Fraction:
        """Bytes of cache that one token of one request takes."""
        per_head = Fraction(self.head_dim * self.kv_bits, 8)
        return 2 * self.n_layers * self.n_kv_heads * per_head

    @property
    def capacity_tokens(self) -> Fraction:
        """Tokens that the budget holds, over all requests, not rounded."""
        return self.budget_bytes / self.token_bytes

    def quotient(self, given: int) -> Fraction:
        """Return requests per `given` tokens, or tokens for `given` requests, not rounded."""
        return self.capacity_tokens / given

    def is_safe(self, given: int) -> bool:
        """Tell whether a question keeps its distance from every boundary.

        Cancellation is kept small too: budget and weights differ by 0.1 % of the memory or more.
        """
        quotient = self.quotient(given)
        nearest = round(quotient)
        apart = nearest < 1 or abs(quotient - nearest) > BOUNDARY * nearest
        return apart and abs(self.budget_bytes) > Fraction(self.memory_gb) * 10**6

    def answer(self, given: int) -> int:
        """Return the whole number of requests, or of tokens, that fit."""
        quotient = self.quotient(given)
        return max(0, quotient.numerator // quotient.denominator)

    def question(self, function: str, given: int) -> Question:
        """Write one question about this machine."""
        args: dict[str, Any] = {
            "gpu_memory_gb": float(self.memory_gb),
            "params_b": float(self.params_b),
            "weight_bits": self.weight_bits,
            "n_layers": self.n_layers,
            "n_kv_heads": self.n_kv_heads,
            "head_dim": self.head_dim,
            "kv_bits": self.kv_bits,
            "context_len" if function == REQUESTS else "n_requests": given,
        }
        if self.fraction != DEFAULT_FRACTION:
            args["memory_fraction"] = float(self.fraction)
        return {"function": function, "args": args}


SEVENTY_B = Machine("80", "70.6", 4, 80, 8, 128, 16)
KNOWN = (
    (SEVENTY_B, 32_768),  # 3.567
    (replace(SEVENTY_B, kv_bits=8), 32_768),  # 7.134
    (replace(SEVENTY_B, n_kv_heads=64), 32_768),  # 0.446
    (SEVENTY_B, 1_000),  # 116.9: tells 2**30 bytes a GB (133) from the whole memory (136)
    (Machine("80", "8.03", 16, 32, 8, 128, 16), 8_192),  # 53.6: tells weight bits from bytes
)


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng = source.rng
    asked: dict[str, list[tuple[Machine, str, int]]] = {
        "known": [(machine, REQUESTS, context) for machine, context in KNOWN],
        "any_machine": [_any_machine(rng, i) for i in range(N_ANY_MACHINE)],
        "fraction": [_other_fraction(rng, i) for i in range(N_FRACTION)],
        "nothing_fits": [_nothing_fits(rng, i) for i in range(N_NOTHING_FITS)],
        "longest": [_longest(rng, i) for i in range(N_LONGEST)],
        "trade": [],
    }
    capacities = []
    for _ in range(N_LADDERS):
        machine, rungs = _ladder(rng)
        start = len(asked["trade"])
        asked["trade"] += [(machine, function, given) for function, given in rungs]
        ids = [f"trade/{i}" for i in range(start, len(asked["trade"]))]
        capacities.append({"tokens": float(machine.capacity_tokens), "calls": ids})
    questions = {
        topic: [machine.question(function, given) for machine, function, given in cases]
        for topic, cases in asked.items()
    }
    answers = {
        f"{topic}/{i}": machine.answer(given)
        for topic, cases in asked.items()
        for i, (machine, _, given) in enumerate(cases)
    }
    return Draft(
        {"questions.json": questions},
        {"answers.json": answers, "capacities.json": capacities},
    )


# ---------------------------------------------------------------- draws


@cache
def _models() -> pd.DataFrame:
    return read_catalog()


@cache
def _memories_gb() -> tuple[str, ...]:
    memories = pd.read_csv(GPU_CATALOG, dtype={"gpu_memory_gb": str})["gpu_memory_gb"]
    return tuple(sorted(set(memories)))


def random_machine(rng: Rng, number: int) -> Machine:
    """Draw a released model on a GPU; the number of the case turns through the dtypes."""
    model = _models().iloc[int(rng.integers(len(_models())))]
    return Machine(
        memory_gb=str(rng.choice(_memories_gb())),
        params_b=str(model["params_b"]),
        weight_bits=(16, 8, 4)[number % 3],
        n_layers=int(model["n_layers"]),
        n_kv_heads=int(model["n_kv_heads"]),
        head_dim=int(model["head_dim"]),
        kv_bits=(16, 8)[number % 2],
    )


def _context(rng: Rng, shortest: int = 512, longest: int = 131_072) -> int:
    return round(float(np.exp(rng.uniform(np.log(shortest), np.log(longest)))))


def _redrawn(one: Callable[[], tuple[Machine, str, int] | None]) -> tuple[Machine, str, int]:
    while True:
        found = one()
        if found is not None and found[0].is_safe(found[2]):
            return found


def _any_machine(rng: Rng, number: int) -> tuple[Machine, str, int]:
    def one() -> tuple[Machine, str, int] | None:
        machine, context = random_machine(rng, number), _context(rng)
        return (machine, REQUESTS, context) if 1 < machine.quotient(context) < 500 else None

    return _redrawn(one)


def _longest(rng: Rng, number: int) -> tuple[Machine, str, int]:
    def one() -> tuple[Machine, str, int] | None:
        machine, requests = random_machine(rng, number), int(rng.integers(1, 129))
        # Beyond half a million tokens every quotient lies within 1e-6 of a whole number.
        return (machine, CONTEXT, requests) if 50 < machine.quotient(requests) < 200_000 else None

    return _redrawn(one)


def _other_fraction(rng: Rng, number: int) -> tuple[Machine, str, int]:
    """Draw a question whose answer differs from those at 0.92 and at the whole memory."""

    def one() -> tuple[Machine, str, int] | None:
        drawn = _longest(rng, number) if number % 2 else _any_machine(rng, number)
        usual, function, given = drawn
        machine = replace(usual, fraction=str(rng.choice(FRACTIONS)))
        others = (usual, replace(usual, fraction="1"))
        right = machine.answer(given)
        differs = all(other.answer(given) != right for other in others)
        return (machine, function, given) if right > 0 and differs else None

    return _redrawn(one)


def _nothing_fits(rng: Rng, number: int) -> tuple[Machine, str, int]:
    """Draw weights that do not fit (three of four cases), or a first request that does not.

    By a margin: with the whole memory, and for half of the request, the answer is still 0, so that
    this check asks about zero and nothing else.
    """
    function = (REQUESTS, CONTEXT, REQUESTS, REQUESTS)[number % 4]
    first_request = number % 4 == 3

    def one() -> tuple[Machine, str, int] | None:
        # `number // 2` lets weight bits and the kinds of case turn at different speeds.
        machine = random_machine(rng, number // 2)
        given = _context(rng) if function == REQUESTS else int(rng.integers(1, 129))
        quotient = machine.quotient(given)
        with_all_memory = replace(machine, fraction="1").quotient(given)
        if first_request:
            wanted = Fraction(1, 10) < quotient < Fraction(9, 20) and with_all_memory < 1
        else:
            # Below -1.5 a quotient stays negative even when it is rounded towards zero.
            wanted = quotient < Fraction(-3, 2) and with_all_memory < 0
        return (machine, function, given) if wanted else None

    return _redrawn(one)


def _ladder(rng: Rng) -> tuple[Machine, list[tuple[str, int]]]:
    """Draw one machine, with contexts and numbers of requests that share its tokens out."""
    while True:
        machine = random_machine(rng, int(rng.integers(6)))
        capacity = machine.capacity_tokens
        if not 20_000 < capacity < 2_000_000:
            continue
        shares = np.exp(rng.uniform(np.log(1.2), np.log(150), LADDER))
        contexts = [round(float(capacity) / float(share)) for share in np.sort(shares)]
        # Eight requests or more keep each quotient below 250,000 tokens.
        requests = sorted(rng.choice(np.arange(8, 150), LADDER, replace=False).tolist())
        rungs = [(REQUESTS, context) for context in contexts]
        rungs += [(CONTEXT, number) for number in requests]
        if all(machine.is_safe(given) for _, given in rungs):
            return machine, rungs
