"""Draws the figures of milestone 3's closing question, `gpus_needed`, answered in fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from solutions.m3_concurrency.oracle import BOUNDARY, CONTEXT, FRACTIONS, Machine, random_machine
from solutions.understanding import Drawn, DrawnByKey

N_DRAWN = 12
# The notebook's own: 141.2 GB of weights and 42.9 GB of cache over 73.6 GB are 2.5 GPUs.
LLAMA_70B = Machine("80", "70.6", 16, 80, 8, 128, 16)
IN_THE_NOTEBOOK = (LLAMA_70B, 131_072, 1)


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `gpus_needed`, the notebook's own first."""
    cases = [IN_THE_NOTEBOOK]
    while len(cases) < 1 + N_DRAWN:
        machine = random_machine(rng, len(cases))
        if len(cases) % 3 == 0:
            machine = replace(machine, fraction=str(rng.choice(FRACTIONS)))
        context_len = int(rng.integers(1_000, 131_073))
        case = (machine, context_len, int(rng.integers(1, 65)))
        if _is_clear(gpus(*case)):
            cases.append(case)
    return {"gpus_needed": [_question(*case) for case in cases]}


def gpus(machine: Machine, context_len: int, n_requests: int) -> Fraction:
    """Return how many GPUs the weights and all caches fill, not rounded."""
    tokens = n_requests * context_len
    usable = Fraction(machine.fraction) * Fraction(machine.memory_gb) * 10**9
    return (usable - machine.budget_bytes + tokens * machine.token_bytes) / usable


def _is_clear(quotient: Fraction) -> bool:
    """Tell whether it is far from every whole number, and rounding down differs from nearest.

    More than one GPU and fewer than 40 keep the question one about splitting a model.
    """
    apart = abs(quotient - round(quotient)) > BOUNDARY * round(quotient)
    return 1 < quotient < 40 and apart


def _question(machine: Machine, context_len: int, n_requests: int) -> Drawn:
    args = machine.question(CONTEXT, n_requests)["args"] | {"context_len": context_len}
    quotient = gpus(machine, context_len, n_requests)
    return args, -(-quotient.numerator // quotient.denominator)
