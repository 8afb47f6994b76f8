"""An answer read as a plan: every field present and of the right kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from milestones.compare import is_number, kind_of
from milestones.spec import Answer

LIMITS = ("memory", "latency", "load")
KEYS = (
    "gpu",
    "requests_per_gpu",
    "n_gpus",
    "decode_step_ms",
    "fleet_usd_per_hour",
    "usd_per_million_tokens",
    "limited_by",
)
SAME_MONEY = 1e-6  # relative: far below a cent in any fleet, far above rounding in float64
MOST = 10**9  # GPUs or requests; the largest right answer is below 10,000

Workload = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """A plan for one workload: what is run, and what its author says about it.

    `cost_usd_per_hour` is n_gpus times the price offered; `adds_up` tells whether the plan's own
    `fleet_usd_per_hour` is the same.
    """

    gpu: str
    requests_per_gpu: int
    n_gpus: int
    decode_step_ms: float
    usd_per_million_tokens: float
    limited_by: str
    cost_usd_per_hour: float
    adds_up: bool


@dataclass(frozen=True)
class Refusal:
    """The answer that no choice holds."""


@dataclass(frozen=True)
class Unreadable:
    """An answer that is neither; `why` completes 'the answer ...'."""

    why: str


def workload_of(answer: Answer) -> Workload:
    """Return the workload that an answer is about."""
    workload: Workload = answer.call.args["workload"]
    return workload


def demand(workload: Workload) -> float:
    """Return the output tokens per second that a workload asks for."""
    return float(workload["requests_per_second"] * workload["output_tokens"])


def read_plan(answer: Answer) -> Plan | Refusal | Unreadable:
    """Read an answer's value; whatever it is, one of the three comes back."""
    value = answer.value
    if not isinstance(value, dict):
        return Unreadable(f"is {kind_of(value)}; expected a dict")
    if "gpu" not in value:
        return Unreadable("has no 'gpu'")
    if value["gpu"] is None:
        reason = value.get("reason")
        told = isinstance(reason, str) and reason.strip()
        return Refusal() if told else Unreadable("says gpu None and gives no 'reason' as text")
    missing = [key for key in KEYS if key not in value]
    if missing:
        return Unreadable(f"has no {missing[0]!r}")
    return _read_fields(value, workload_of(answer))


def _read_fields(value: dict[str, Any], workload: Workload) -> Plan | Unreadable:
    prices = {offer["gpu"]: offer["usd_per_hour"] for offer in workload["gpus"]}
    gpu = value["gpu"]
    if not isinstance(gpu, str) or gpu not in prices:
        return Unreadable(f"names the GPU {kind_of(gpu)}, which is not offered")
    for key in ("requests_per_gpu", "n_gpus"):
        count = value[key]
        if not is_number(count) or not 1 <= count <= MOST or count != int(count):
            return Unreadable(f"has {key} = {kind_of(count)}; expected a whole number from 1 on")
    for key in ("decode_step_ms", "fleet_usd_per_hour", "usd_per_million_tokens"):
        if not is_number(value[key]) or not 0 < value[key] < 1e300:
            return Unreadable(f"has {key} = {kind_of(value[key])}; expected a number above 0")
    if value["limited_by"] not in LIMITS:
        return Unreadable(f"has limited_by = {kind_of(value['limited_by'])}; expected {LIMITS}")
    cost = int(value["n_gpus"]) * prices[gpu]
    return Plan(
        gpu=gpu,
        requests_per_gpu=int(value["requests_per_gpu"]),
        n_gpus=int(value["n_gpus"]),
        decode_step_ms=float(value["decode_step_ms"]),
        usd_per_million_tokens=float(value["usd_per_million_tokens"]),
        limited_by=str(value["limited_by"]),
        cost_usd_per_hour=cost,
        adds_up=math.isclose(value["fleet_usd_per_hour"], cost, rel_tol=SAME_MONEY),
    )
