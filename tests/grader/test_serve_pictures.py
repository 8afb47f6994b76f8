"""What the page of `grader serve` draws: memory by exact arithmetic, cost by asking the planner."""

from __future__ import annotations

import asyncio
import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.errors import BadInputError
from grader.serve.catalog import read_catalog
from grader.serve.curve import LOADS, N_QUESTIONS, Curve, cost_curve
from grader.serve.memory import memory_of, requests_that_fit
from grader.serve.planner import Failed, Outcome, Planned
from grader.serve.workload import EXAMPLE, Workload
from solutions.m7_planner.case import CASE
from solutions.m7_planner.oracle import case_setting
from tests.grader.serving import DATA


def workload(**changes: Any) -> Workload:
    """Return the example with changes; those of the model are given by its own keys."""
    asked = copy.deepcopy(EXAMPLE)
    for key, value in changes.items():
        (asked["model"] if key in asked["model"] else asked)[key] = value
    return Workload.model_validate(asked)


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("n_kv_heads", "kv_bits", "fit"), [(8, 16, 3), (8, 8, 7), (64, 16, 0), (64, 8, 0)]
)
def test_the_handouts_70b_example_holds_three_seven_and_no_requests(
    n_kv_heads: int, kv_bits: int, fit: int
) -> None:
    asked = workload(
        n_layers=80, n_heads=64, n_kv_heads=n_kv_heads, head_dim=128, params_b=70.6,
        weight_bits=4, kv_bits=kv_bits, prompt_tokens=32_000, output_tokens=768,
    )  # fmt: skip
    assert requests_that_fit(asked, 80.0, 32_768) == fit
    (on,) = memory_of(asked).gpus
    assert on.requests_that_fit == fit


def test_the_case_fits_as_the_oracle_of_the_planner_says() -> None:
    found = memory_of(Workload.model_validate(CASE))
    assert tuple(gpu.requests_that_fit for gpu in found.gpus) == case_setting(CASE).held
    assert found.kv_bytes_per_token == 262_144


def test_a_quotient_that_is_whole_is_not_rounded_down_by_a_binary_fraction() -> None:
    # 0.92 x 17.7 GB - 0.2 GB of weights are exactly 16,084 caches of a million bytes.
    shape = {"n_layers": 1, "n_heads": 1, "n_kv_heads": 1, "head_dim": 500, "params_b": 0.1}
    asked = workload(**shape, prompt_tokens=499, output_tokens=1)
    assert math.floor((0.92 * 17.7 * 1e9 - 0.1 * 1e9 * 16 / 8) / 1e6) == 16_083
    assert requests_that_fit(asked, 17.7, 500) == 16_084


@given(st.floats(0.1, 500), st.integers(1, 200), st.sampled_from([1, 2, 8, 32]), st.floats(8, 400))
def test_what_fits_fits_and_one_more_does_not(
    params_b: float, n_layers: int, n_kv_heads: int, memory_gb: float
) -> None:
    asked = workload(params_b=params_b, n_layers=n_layers, n_kv_heads=n_kv_heads)
    asked.gpus[0].gpu_memory_gb = memory_gb
    found = memory_of(asked)
    (on,), (line,) = found.gpus, found.lines

    def used_gb(requests: int) -> float:
        return on.weights_gb + requests * on.cache_gb_per_request

    near = 1e-9 * on.usable_gb
    if on.requests_that_fit:
        assert used_gb(on.requests_that_fit) <= on.usable_gb + near
    assert used_gb(on.requests_that_fit + 1) > on.usable_gb - near
    assert line.requests_that_fit == sorted(line.requests_that_fit, reverse=True)
    assert all(fit >= 1 for fit in line.requests_that_fit)
    if line.context_len:
        assert line.requests_that_fit[-1] == 1
        assert line.context_len[-1] == on.max_context_len


def test_gpus_with_one_memory_share_a_line() -> None:
    lines = memory_of(Workload.model_validate(CASE)).lines
    shared = [["L40S"], ["A100-80GB", "H100-80GB"], ["H200"], ["B200"]]
    assert [line.gpus for line in lines] == shared


# ---------------------------------------------------------------- the curve


class Linear:
    """A planner whose step grows by a line, with headroom; it knows what it was asked."""

    def __init__(self, fit: int = 100, first_ms: float = 10.0, headroom: float = 0.05) -> None:
        self.fit, self.first_ms, self.headroom = fit, first_ms, headroom
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, asked: dict[str, Any]) -> Outcome:
        self.asked.append(asked)
        each_ms, (offer,) = 0.2, asked["gpus"]
        allowed = (asked["max_step_ms"] / (1 + self.headroom) - self.first_ms) / each_ms
        requests = min(self.fit, math.floor(allowed))
        if requests < 1:
            return Planned({"gpu": None, "reason": "too slow"})
        step = self.first_ms + each_ms * requests
        hours = 1e6 / (1000 * requests / step) / 3600
        return Planned(
            {
                "gpu": offer["gpu"],
                "requests_per_gpu": requests,
                "decode_step_ms": step,
                "usd_per_million_tokens": offer["usd_per_hour"] * hours,
            }
        )


def curve_of(ask: Any, asked: Workload | None = None) -> Curve:
    asked = asked or workload()
    return asyncio.run(cost_curve(asked, asked.gpus[0], ask))


@pytest.mark.parametrize("first_ms", [5.0, 10.0, 80.0])
@pytest.mark.parametrize("headroom", [0.0, 0.05, 0.2])
def test_a_curve_runs_from_few_requests_to_a_full_gpu(first_ms: float, headroom: float) -> None:
    ask = Linear(fit=100, first_ms=first_ms, headroom=headroom)
    curve = curve_of(ask)
    requests = [point.requests_per_gpu for point in curve.points]
    assert requests[-1] == 100
    assert requests[0] <= 12
    assert len(requests) >= 5
    assert requests == sorted(set(requests))
    assert len(ask.asked) <= N_QUESTIONS
    assert curve.told == ""


def test_a_curve_is_asked_of_one_gpu_at_a_thousand_times_the_load() -> None:
    ask = Linear()
    curve = curve_of(ask, workload(requests_per_second=7.5))
    assert {question["requests_per_second"] for question in ask.asked} == {7.5 * LOADS}
    assert curve.requests_per_second == 7.5 * LOADS
    assert all(len(question["gpus"]) == 1 for question in ask.asked)
    for question in ask.asked:
        Workload.model_validate(question)  # a planner is asked what anyone could ask


def test_the_largest_load_is_not_multiplied_beyond_what_may_be_asked() -> None:
    ask = Linear()
    curve_of(ask, workload(requests_per_second=1e9, max_step_ms=1e9))
    for question in ask.asked:
        Workload.model_validate(question)


def test_one_request_on_a_gpu_is_a_curve_of_one_point() -> None:
    assert [point.requests_per_gpu for point in curve_of(Linear(fit=1)).points] == [1]


def test_a_gpu_that_holds_nothing_has_no_points_and_the_planners_reason() -> None:
    ask = Linear(fit=0)
    curve = curve_of(ask)
    assert (curve.points, curve.told) == ([], "too slow")
    assert len(ask.asked) == 1


def test_a_planner_that_fails_is_asked_no_further() -> None:
    good, asked = Linear(), []

    async def fails_at_the_fourth(question: dict[str, Any]) -> Outcome:
        asked.append(question)
        return await good(question) if len(asked) < 4 else Failed(502, "`plan` raised KeyError.")

    curve = curve_of(fails_at_the_fourth)
    assert len(asked) == 4
    assert curve.told == "`plan` raised KeyError."
    assert len(curve.points) == 3


# ---------------------------------------------------------------- the catalog


def test_the_page_offers_the_whole_catalog_the_gpus_of_the_runs_first() -> None:
    catalog = read_catalog(DATA)
    assert len(catalog["models"]) == 177
    assert [gpu["gpu"] for gpu in catalog["gpus"][:5]] == [
        "L40S", "A100-80GB", "H100-80GB", "H200", "B200",
    ]  # fmt: skip
    for model in catalog["models"]:
        workload(**model["shape"])  # each may be asked about
    for gpu in catalog["gpus"]:
        if gpu["band"]:
            low, high = gpu["band"]
            assert low - 0.03 <= gpu["usd_per_hour"] <= high + 0.03


def test_a_catalog_that_is_not_there_is_bad_input(tmp_path: Any) -> None:
    with pytest.raises(BadInputError, match="get the course's data again"):
        read_catalog(tmp_path)
    (tmp_path / "catalog").mkdir()
    for name in ("models", "gpus"):
        (tmp_path / "catalog" / f"{name}.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInputError, match="get the course's data again"):
        read_catalog(tmp_path)
