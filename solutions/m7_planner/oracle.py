"""Draws milestone 7's workloads, and what would happen to any plan for them in the world.

The truth is a table: for each workload and each GPU it offers, the noise-free step of 1, 2, ...
requests, as many as memory holds and one more (what that one would do tells what limits a plan).
Nothing here plans: the cheapest fleet is found by looking at every entry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from milestones.runs import SHAPE_COUNTS
from solutions.draft import Draft, Source
from solutions.m7_planner.case import what_ifs
from solutions.world.gpus import Gpu, gpus_of_runs
from solutions.world.shapes import shapes_of, twin_key
from solutions.world.step import step_ms

FloatArray = npt.NDArray[np.float64]
Workload = dict[str, Any]
Shape = dict[str, Any]

N_WORKLOADS = 300
N_TOO_LARGE = 12  # weights and one request fit on no GPU offered
N_TOO_SLOW = 12  # the fastest GPU offered misses max_step_ms with a single request
MEMORY_FRACTION = 0.92
MOST_REQUESTS = 256
SHORTEST = 512  # tokens of prompt and output together
LONGEST = 32_768  # tokens: the longest context of the course's runs
CLEAR_OF_INTEGER = 1e-6  # relative, so that any order of arithmetic gives the same count
CLEAR_OF_IMPOSSIBLE = 1.25  # a step 25 % slower still holds, where anything holds
CLEAR_OF_POSSIBLE = 1.15  # a step 15 % faster still fails, where nothing holds
SHARE_OF_TIGHT_BOUNDS = 0.6
SLACK = 1e-9
MODEL_KEYS = (*SHAPE_COUNTS, "params_b")


@dataclass(frozen=True)
class Setting:
    """A workload before its load and its bound on the step are drawn.

    `held` are the requests that memory holds on each GPU offered, in the order of the offers.
    """

    workload: Workload
    held: tuple[int, ...]


def draw(source: Source) -> Draft:
    """Draw the workloads of one split, the table of their steps and the cheapest fleets."""
    rng = source.rng
    settings = _draw_settings(rng, source)
    tables = step_tables(settings)
    workloads = [
        _with_demand(rng, setting, table, too_slow=i < N_TOO_SLOW)
        for i, (setting, table) in enumerate(zip(settings, tables, strict=True))
    ]
    order = rng.permutation(N_WORKLOADS)
    cases = [case_setting(workload) for workload in what_ifs().values()]
    asked = [workloads[i] for i in order] + [case.workload for case in cases]
    held = [settings[i].held for i in order] + [case.held for case in cases]
    steps = [tables[i] for i in order] + step_tables(cases)
    questions = {"workloads": asked[:N_WORKLOADS], "cases": what_ifs()}
    return Draft(
        {"workloads.json": questions},
        {"steps.npz": packed(asked, held, steps)},
    )


def packed(
    workloads: Sequence[Workload],
    held: Sequence[tuple[int, ...]],
    tables: Sequence[list[FloatArray]],
) -> dict[str, np.ndarray]:
    """Return the truth as arrays: workloads in their order, then the cases in theirs.

    `held` (n, 5) are the requests that memory holds on each GPU offered, -1 where fewer than five
    are; `shares` (n, 5, 2) are the shares of the usable memory that the weights take there, and one
    request; `steps` is flat, held + 1 entries for each of these in turn; `cheapest` is the fleet
    cost in USD per hour of the cheapest plan that holds, NaN where none does.
    """
    padded = np.full((len(held), len(gpus_of_runs())), -1, dtype=np.int64)
    for row, counts in zip(padded, held, strict=True):
        row[: len(counts)] = counts
    shares = np.full((*padded.shape, 2), np.nan)
    for row, workload in zip(shares, workloads, strict=True):
        row[: len(workload["gpus"])] = [memory_shares(workload, gpu) for gpu in workload["gpus"]]
    return {
        "held": padded,
        "shares": shares,
        "steps": np.concatenate([steps for table in tables for steps in table]),
        "cheapest": np.array(
            [cheapest(w, table) for w, table in zip(workloads, tables, strict=True)]
        ),
    }


# ---------------------------------------------------------------- what would happen


def memory_shares(workload: Workload, gpu: dict[str, Any]) -> tuple[float, float]:
    """Return the shares of a GPU's usable memory that weights take, and one request's cache."""
    model = workload["model"]
    usable = MEMORY_FRACTION * gpu["gpu_memory_gb"] * 1e9
    weights = model["params_b"] * 1e9 * workload["weight_bits"] / 8
    a_token = 2 * model["n_layers"] * model["n_kv_heads"] * model["head_dim"]
    tokens = workload["prompt_tokens"] + workload["output_tokens"]
    return weights / usable, a_token * workload["kv_bits"] / 8 * tokens / usable


def requests_held(workload: Workload, gpu: dict[str, Any]) -> float:
    """Return how many requests memory holds on one GPU, before rounding down."""
    weights, request = memory_shares(workload, gpu)
    return (1 - weights) / request


def case_setting(workload: Workload) -> Setting:
    """Return a complete workload with the counts that memory allows it."""
    counts = [max(0, math.floor(requests_held(workload, gpu))) for gpu in workload["gpus"]]
    return Setting(workload, tuple(counts))


def step_tables(settings: Sequence[Setting]) -> list[list[FloatArray]]:
    """Return for each setting the steps in ms of 1 to held + 1 requests, GPU by GPU."""
    rows, sizes = [], []
    for setting in settings:
        workload = setting.workload
        for gpu, held in zip(workload["gpus"], setting.held, strict=True):
            rows.append(
                {
                    **workload["model"],
                    **gpu,
                    "weight_bits": workload["weight_bits"],
                    "kv_bits": workload["kv_bits"],
                    "context_len": workload["prompt_tokens"] + workload["output_tokens"],
                }
            )
            sizes.append(held + 1)
    runs = pd.DataFrame(rows).loc[np.repeat(np.arange(len(rows)), sizes)].reset_index(drop=True)
    runs["batch_size"] = np.concatenate([np.arange(1, size + 1) for size in sizes])
    pieces = iter(np.split(step_ms(runs), np.cumsum(sizes)[:-1]))
    return [[next(pieces) for _ in setting.held] for setting in settings]


def cheapest(workload: Workload, table: list[FloatArray]) -> float:
    """Return the least USD per hour of any GPU and requests_per_gpu that hold; NaN if none do."""
    demand = workload["requests_per_second"] * workload["output_tokens"]
    best = math.inf
    for gpu, steps in zip(workload["gpus"], table, strict=True):
        for requests, step in enumerate(steps[:-1].tolist(), start=1):
            if step <= workload["max_step_ms"] * (1 + SLACK):
                n_gpus = max(1, math.ceil(demand * (1 - SLACK) / (requests * 1000 / step)))
                best = min(best, n_gpus * gpu["usd_per_hour"])
    return best if best < math.inf else math.nan


# ---------------------------------------------------------------- draws


def _draw_settings(rng: np.random.Generator, source: Source) -> list[Setting]:
    """Draw the settings: first those that will be too slow, last those that are too large."""
    shapes = _shapes(source.runs)
    trained = set(twin_key(_shapes(source.train)))
    is_unseen = ~twin_key(shapes).isin(trained).to_numpy()
    pools = [_records(pool) for pool in (shapes[is_unseen], shapes[~is_unseen]) if len(pool)]
    largest = _records(shapes.sort_values("params_b", kind="stable").tail(8))
    catalog = _catalog()
    n_that_fit = N_WORKLOADS - N_TOO_LARGE
    return [
        _setting(rng, [*_turn(pools, i), *catalog], fits=True)
        if i < n_that_fit
        else _setting(rng, [*_turn([largest], i), *catalog[::-1]], fits=False)
        for i in range(N_WORKLOADS)
    ]


def _catalog() -> list[Shape]:
    """Return the public shapes, smallest first: what an instructor's own runs may lack.

    Runs of small models alone hold no shape that is too large, and of one tiny model maybe none
    that fills a GPU; shapes of the runs go first, so drawn runs hardly ever come to these.
    """
    shapes = shapes_of("train").rename(columns={"max_context": "longest"})
    return _records(shapes.assign(longest=shapes["longest"].clip(upper=LONGEST)))


def _shapes(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the shapes of the runs, each with the longest context it was run at."""
    longest = runs.groupby("model")["context_len"].max()
    shapes = runs.drop_duplicates("model")[["model", *MODEL_KEYS]].sort_values("model")
    return shapes.assign(longest=longest.loc[shapes["model"]].to_numpy()).reset_index(drop=True)


def _records(shapes: pd.DataFrame) -> list[Shape]:
    return [{str(key): value for key, value in row.items()} for row in shapes.to_dict("records")]


def _turn(pools: Sequence[list[Shape]], i: int) -> list[Shape]:
    """Return the shapes for the i-th draw: pools in turn, in each its shapes in turn first."""
    pool = pools[i % len(pools)]
    first = i // len(pools) % len(pool)
    return [*pool[first:], *pool[:first]]


def _setting(rng: np.random.Generator, shapes: Sequence[Shape], *, fits: bool) -> Setting:
    """Draw a setting that fits on some GPU offered, or on none; the first shape is preferred."""
    for attempt in range(100_000):
        # A shape may have no such setting (a small model never fills 180 GB within its context).
        shape = shapes[(attempt // 8) % len(shapes)]
        workload = _unbounded(rng, shape)
        quotients = [requests_held(workload, gpu) for gpu in workload["gpus"]]
        clear = all(abs(q - round(q)) > CLEAR_OF_INTEGER * max(1.0, abs(q)) for q in quotients)
        held = tuple(max(0, math.floor(q)) for q in quotients)
        if clear and max(held) <= MOST_REQUESTS and (max(held) > 0) == fits:
            return Setting(workload, held)
    raise ValueError(f"no workload of these shapes {'fits' if fits else 'is too large'}")


def _unbounded(rng: np.random.Generator, shape: Shape) -> Workload:
    """Draw model, dtypes, tokens and offers, without load and without a bound on the step."""
    n_offers = int(rng.integers(2, len(gpus_of_runs()) + 1))
    offered = rng.permutation(len(gpus_of_runs()))[:n_offers]
    whole = {key: int(shape[key]) for key in MODEL_KEYS[:-1]}
    workload: Workload = {
        "model": whole | {"params_b": float(shape["params_b"])},
        "weight_bits": int(rng.choice([16, 8, 4], p=[0.65, 0.25, 0.10])),
        "kv_bits": int(rng.choice([16, 8], p=[0.7, 0.3])),
        "prompt_tokens": 1,
        "output_tokens": 0,
        "requests_per_second": 0.0,
        "max_step_ms": 0.0,
        "gpus": [_offer(rng, gpus_of_runs()[i]) for i in offered],
    }
    # Contexts so short that memory would hold more than 256 requests are not drawn.
    tokens_held = max(requests_held(workload, gpu) for gpu in workload["gpus"])
    shortest = min(max(SHORTEST, tokens_held / MOST_REQUESTS), shape["longest"])
    context = round(math.exp(rng.uniform(math.log(shortest), math.log(shape["longest"]))))
    output = max(16, round(context * rng.uniform(0.05, 0.6)))
    return workload | {"prompt_tokens": context - output, "output_tokens": output}


def _offer(rng: np.random.Generator, gpu: Gpu) -> dict[str, Any]:
    """Offer a GPU at a price within the band of its list prices."""
    return {
        "gpu": gpu.gpu,
        "gpu_memory_gb": gpu.gpu_memory_gb,
        "gpu_bandwidth_gbps": gpu.gpu_bandwidth_gbps,
        "gpu_tflops": gpu.gpu_tflops,
        "usd_per_hour": round(float(rng.uniform(gpu.usd_per_hour_low, gpu.usd_per_hour_high)), 2),
    }


def _with_demand(
    rng: np.random.Generator, setting: Setting, table: list[FloatArray], *, too_slow: bool
) -> Workload:
    """Return the workload with its bound on the step and its load."""
    fitting = [(gpu, s[:-1]) for gpu, s in zip(setting.workload["gpus"], table, strict=True)]
    fitting = [(gpu, steps) for gpu, steps in fitting if len(steps)]
    bound = _bound_ms(rng, [steps for _, steps in fitting], too_slow=too_slow)
    # Tokens per second and USD per hour of each GPU at the most requests that hold there.
    rates = [
        (1000 * n / steps[n - 1], gpu["usd_per_hour"])
        for gpu, steps in fitting
        if (n := int(np.searchsorted(steps, bound, side="right")))
    ]
    rate = max(rates, key=lambda r: r[0] / r[1])[0] if rates else 1000.0
    gpus_worth = math.exp(rng.uniform(math.log(0.1), math.log(200)))
    output = setting.workload["output_tokens"]
    demand = {
        "requests_per_second": _rounded(gpus_worth * rate / output),
        "max_step_ms": bound,
    }
    return setting.workload | demand


def _bound_ms(rng: np.random.Generator, steps: list[FloatArray], *, too_slow: bool) -> float:
    """Draw max_step_ms: out of reach, binding on some GPU, or generous."""
    if not steps:
        return _rounded(rng.uniform(20, 100))
    fastest, slowest = min(s[0] for s in steps), max(s[-1] for s in steps)
    if too_slow:
        return _rounded(fastest / CLEAR_OF_POSSIBLE / rng.uniform(1.01, 2.0))
    least = CLEAR_OF_IMPOSSIBLE * fastest
    if rng.random() < SHARE_OF_TIGHT_BOUNDS:
        for _ in range(20):
            of_gpu = steps[int(rng.integers(len(steps)))]
            requests = round(math.exp(rng.uniform(0, math.log(len(of_gpu)))))
            bound = _rounded(of_gpu[requests - 1] * rng.uniform(1.0, 1.15))
            if bound >= least:
                return bound
    return _rounded(max(1.01 * least, slowest * rng.uniform(1.02, 2.0)))


def _rounded(value: float) -> float:
    """Round to three significant digits, as a person would state it."""
    return float(f"{value:.3g}")
