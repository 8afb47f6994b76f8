"""An answer read as a plan: the fleet that would run, and what its author says about it.

A fleet is three fields: gpu, requests_per_gpu, n_gpus. A mistake in any other field is a fault of
form, and no reason to say that the fleet does not fit or does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from milestones.compare import is_number, kind_of
from milestones.spec import Answer, Problem

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
COUNTS = ("requests_per_gpu", "n_gpus")
SAME_MONEY = 1e-6  # relative: far below a cent in any fleet, far above rounding in float64
MOST = 10**9  # GPUs or requests; the largest right answer is below 10,000

Workload = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """A plan for one workload: what is run, and what its author says about it.

    `cost_usd_per_hour` is n_gpus times the price offered. `fault` says what is wrong with the form,
    and is empty if nothing is; a field that cannot be read is None.
    """

    gpu: str
    requests_per_gpu: int
    n_gpus: int
    cost_usd_per_hour: float
    decode_step_ms: float | None
    fleet_usd_per_hour: float | None
    usd_per_million_tokens: float | None
    limited_by: str | None
    fault: str = ""

    @property
    def adds_up(self) -> bool:
        """Whether the plan's own fleet cost is that of its GPUs."""
        return self._costs(self.cost_usd_per_hour)

    @property
    def costs_one_gpu(self) -> bool:
        """Whether the plan's own fleet cost is that of a single GPU."""
        return self._costs(self.cost_usd_per_hour / self.n_gpus)

    def _costs(self, usd_per_hour: float) -> bool:
        said = self.fleet_usd_per_hour
        return said is not None and math.isclose(said, usd_per_hour, rel_tol=SAME_MONEY)


@dataclass(frozen=True)
class Refusal:
    """The answer that no choice holds; `fault` as in a plan."""

    fault: str = ""


@dataclass(frozen=True)
class Unreadable:
    """An answer that is neither; `why` completes 'the answer ...'.

    `problem` tells it where nothing usable came back at all.
    """

    why: str
    problem: Problem | None = None


Reading = Plan | Refusal | Unreadable


def workload_of(answer: Answer) -> Workload:
    """Return the workload that an answer is about."""
    workload: Workload = answer.call.args["workload"]
    return workload


def demand(workload: Workload) -> float:
    """Return the output tokens per second that a workload asks for."""
    return float(workload["requests_per_second"] * workload["output_tokens"])


def price_of(usd_per_hour: float, tokens_per_s: float) -> float:
    """Return what a fleet costs in USD for a million tokens, at so many tokens a second."""
    return usd_per_hour / (tokens_per_s * 3600 / 1e6)


def read_plan(answer: Answer) -> Reading:
    """Read an answer that must be right in every field: one with a fault is unreadable."""
    found = read_fleet(answer)
    if isinstance(found, Unreadable) or not found.fault:
        return found
    return Unreadable(found.fault)


def read_fleet(answer: Answer) -> Reading:
    """Read an answer whatever it is: as a plan if gpu and counts can be read, faults beside it."""
    value = answer.value
    if answer.problem is not None:
        return Unreadable("is none that can be used", answer.problem)
    if isinstance(value, list):  # on its way here a tuple became one
        comma = "; a comma behind a dict makes a tuple of it" if _is_one_dict(value) else ""
        return Unreadable(f"is a list or a tuple of {len(value)}; expected a dict{comma}")
    if not isinstance(value, dict):
        return Unreadable(f"is {kind_of(value)}; expected a dict")
    if "gpu" not in value:
        return Unreadable("has no 'gpu'")
    if value["gpu"] is None:
        reason = value.get("reason")
        told = isinstance(reason, str) and reason.strip()
        return Refusal("" if told else "says gpu None and gives no 'reason' as text")
    return _read_fields(value, workload_of(answer))


def _is_one_dict(value: list[Any]) -> bool:
    return len(value) == 1 and isinstance(value[0], dict)


def _read_fields(value: dict[str, Any], workload: Workload) -> Plan | Unreadable:
    prices = {offer["gpu"]: offer["usd_per_hour"] for offer in workload["gpus"]}
    gpu = value["gpu"]
    faults = {key: _fault(value, key) for key in KEYS[1:]}
    for key in COUNTS:
        if faults[key]:
            return Unreadable(faults[key])
    if not isinstance(gpu, str) or gpu not in prices:
        return Unreadable(f"names the GPU {kind_of(gpu)}, which is not offered")

    def said(key: str) -> float | None:
        return None if faults[key] else float(value[key])

    return Plan(
        gpu=gpu,
        requests_per_gpu=int(value["requests_per_gpu"]),
        n_gpus=int(value["n_gpus"]),
        cost_usd_per_hour=int(value["n_gpus"]) * prices[gpu],
        decode_step_ms=said("decode_step_ms"),
        fleet_usd_per_hour=said("fleet_usd_per_hour"),
        usd_per_million_tokens=said("usd_per_million_tokens"),
        limited_by=None if faults["limited_by"] else value["limited_by"],
        fault=next(filter(None, faults.values()), ""),
    )


def _fault(value: dict[str, Any], key: str) -> str:
    """Return what is wrong with one field, by itself; empty if nothing is."""
    if key not in value:
        return f"has no {key!r}"
    said = value[key]
    if key in COUNTS:
        whole = is_number(said) and 1 <= said <= MOST and said == int(said)
        expected = "" if whole else "a whole number from 1 on"
    elif key == "limited_by":
        expected = "" if isinstance(said, str) and said in LIMITS else str(LIMITS)
    else:
        expected = "" if is_number(said) and 0 < said < 1e300 else "a number above 0"
    return f"has {key} = {kind_of(said)}; expected {expected}" if expected else ""
