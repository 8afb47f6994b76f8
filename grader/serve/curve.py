"""What a token costs against requests per GPU, by asking the planner about many promises.

A planner answers workloads, not curves. So it is offered one GPU alone and asked again and again
with another bound on the step: each answer is a batch and its price. It is asked about a thousand
times the load, where a fleet is rounded up to whole GPUs by next to nothing; how far above the
curve the plan itself lies is what stands idle in a small fleet.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, Field

from grader.serve.memory import weights_bytes
from grader.serve.planner import Failed, Outcome, Planned
from grader.serve.workload import MOST, GpuOffer, Workload

LOADS = 1_000
NO_BOUND_MS = 1e6  # more than a quarter of an hour for a token: memory alone is the wall
N_QUESTIONS = 12
PATIENCE_S = 6.0  # a planner that takes a second a plan gives a coarse curve

Ask = Callable[[dict[str, Any]], Awaitable[Outcome]]


class Point(BaseModel):
    """One answer of the planner."""

    requests_per_gpu: int
    usd_per_million_tokens: float
    decode_step_ms: float
    max_step_ms: float = Field(description="the bound it was asked with")


class Curve(BaseModel):
    """The planner's answers about one GPU, by rising batch; `told` says what is missing."""

    gpu: str
    requests_per_second: float = Field(description="the load that was asked about")
    points: list[Point]
    told: str = ""


async def cost_curve(workload: Workload, offer: GpuOffer, ask: Ask) -> Curve:
    """Ask the planner about one GPU under looser and tighter bounds on the step."""
    load = min(workload.requests_per_second * LOADS, MOST)
    alone = workload.model_dump() | {"gpus": [offer.model_dump()], "requests_per_second": load}
    started, found = time.monotonic(), dict[int, Point]()
    told = ""

    async def at(bound_ms: float) -> Point | None:
        nonlocal told
        outcome = await ask(alone | {"max_step_ms": min(bound_ms, MOST)})
        if isinstance(outcome, Failed):
            told = outcome.detail
            return None
        point = _point(outcome, bound_ms)
        if point is not None:
            found.setdefault(point.requests_per_gpu, point)
        elif not found:
            told = str(outcome.value.get("reason", ""))
        return point

    def late() -> bool:
        return bool(told) or time.monotonic() - started > PATIENCE_S

    fullest, second = await at(NO_BOUND_MS), None
    too_tight_ms = float(weights_bytes(workload)) / (offer.gpu_bandwidth_gbps * 1e6)
    n_asked = 1
    while fullest and fullest.requests_per_gpu > 1 and not second:
        if n_asked == N_QUESTIONS or late():
            break
        middle_ms = (too_tight_ms + fullest.decode_step_ms) / 2
        second = await at(middle_ms)
        n_asked += 1
        if second is None:
            too_tight_ms = middle_ms
    if fullest and second:
        for bound_ms in _bounds(fullest, second, N_QUESTIONS - n_asked):
            if late():
                break
            await at(bound_ms)
    points = [found[requests] for requests in sorted(found)]
    return Curve(gpu=offer.gpu, requests_per_second=load, points=points, told=told)


def _bounds(fullest: Point, second: Point, n_bounds: int) -> list[float]:
    """Return bounds under which the batches lie evenly on a scale of ratios, from one to the most.

    A step grows about linearly with the batch; two answers give the line. How far the second
    answer's step lies below its bound is the planner's headroom.
    """
    most, rise = fullest.requests_per_gpu, fullest.requests_per_gpu - second.requests_per_gpu
    if rise <= 0:
        return []
    slope = (fullest.decode_step_ms - second.decode_step_ms) / rise
    batches = sorted({round(most ** (i / n_bounds)) for i in range(n_bounds)} - {most})
    steps_ms = (fullest.decode_step_ms - slope * (most - batch) for batch in batches)
    headroom = second.max_step_ms / second.decode_step_ms
    return [headroom * step_ms for step_ms in steps_ms if step_ms > 0]


def _point(outcome: Planned, bound_ms: float) -> Point | None:
    value = outcome.value
    if value["gpu"] is None:
        return None
    return Point(
        requests_per_gpu=int(value["requests_per_gpu"]),
        usd_per_million_tokens=float(value["usd_per_million_tokens"]),
        decode_step_ms=float(value["decode_step_ms"]),
        max_step_ms=bound_ms,
    )
