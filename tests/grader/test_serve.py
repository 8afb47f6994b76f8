"""`grader serve`: a notebook's planner over HTTP, whatever the notebook or the request does."""

from __future__ import annotations

import asyncio
import copy
import importlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import grader.serve
from grader.errors import BadInputError
from grader.limits import Limits
from grader.serve import EXAMPLE, Planner, make_app
from solutions.m7_planner.case import CASE
from solutions.render import solved_path
from tests.conftest import WriteNotebook

FAKE = """
import time
def plan(workload):
    load = workload["requests_per_second"]
    if load == 1:
        return {"gpu": None, "reason": "nothing holds"}
    if load == 2:
        raise KeyError("n_layers")
    if load == 3:
        return "eight H200"
    if load == 4:
        return {"gpu": "H200"}
    if load == 5:
        while True:
            pass
    if load == 6:
        import os
        os._exit(3)
    return {"gpu": None, "reason": f"{workload['model']['params_b']} {len(workload['gpus'])}"}
"""


def ask(planner: Planner, method: str, path: str, body: Any = None) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=make_app(planner, "m7_planner.ipynb"))
        async with httpx.AsyncClient(transport=transport, base_url="http://planner") as client:
            return await client.request(method, path, json=body)

    return asyncio.run(send())


@pytest.fixture(scope="module")
def solved(course: Path) -> Iterator[Planner]:
    planner = Planner(solved_path("m7_planner"), course / "data")
    yield planner
    planner.close()


@pytest.fixture
def fake(write_notebook: WriteNotebook, course: Path) -> Iterator[Planner]:
    notebook = write_notebook("raise ValueError('a cell')", FAKE, name="m7_planner")
    planner = Planner(notebook, course / "data", Limits(call_cpu_s=1.0))
    yield planner
    planner.close()


def loaded(requests_per_second: float) -> dict[str, Any]:
    return {**EXAMPLE, "requests_per_second": requests_per_second}


# ---------------------------------------------------------------- the solved notebook


def test_the_solved_notebook_plans_the_case(solved: Planner) -> None:
    assert solved.errors == []
    reply = ask(solved, "POST", "/plan", CASE)
    assert reply.status_code == 200
    plan = reply.json()
    assert plan["gpu"] in {offer["gpu"] for offer in CASE["gpus"]}
    assert plan["fleet_usd_per_hour"] > 0


def test_the_example_of_the_page_has_a_plan(solved: Planner) -> None:
    assert ask(solved, "POST", "/plan", EXAMPLE).json()["gpu"] == "H100-80GB"


def test_a_gpu_that_nobody_measured_is_a_none_with_a_reason(solved: Planner) -> None:
    workload = copy.deepcopy(EXAMPLE)
    workload["gpus"][0]["gpu"] = "abacus"
    reply = ask(solved, "POST", "/plan", workload)
    assert reply.status_code == 200
    assert reply.json()["gpu"] is None


def test_the_page_and_its_description_are_there(solved: Planner) -> None:
    page = ask(solved, "GET", "/")
    assert page.status_code == 200
    assert "/plan" in page.text
    described = ask(solved, "GET", "/openapi.json").json()
    assert set(described["paths"]) == {"/plan"}
    assert described["components"]["schemas"]["Workload"]["examples"] == [EXAMPLE]


# ---------------------------------------------------------------- requests that make no sense


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"prompt_tokens": 0}, "prompt_tokens"),
        ({"prompt_tokens": 1.5}, "prompt_tokens"),
        ({"requests_per_second": -1}, "requests_per_second"),
        ({"max_step_ms": 0}, "max_step_ms"),
        ({"max_step_ms": "soon"}, "max_step_ms"),
        ({"max_step_ms": 1e300}, "max_step_ms"),
        ({"weight_bits": 12}, "weight_bits"),
        ({"gpus": []}, "gpus"),
        ({"gpus": [*EXAMPLE["gpus"], *EXAMPLE["gpus"]]}, "each GPU may be offered once"),
        ({"model": {**EXAMPLE["model"], "params_b": None}}, "params_b"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_a_request_out_of_bounds_is_told_where(
    solved: Planner, change: dict[str, Any], where: str
) -> None:
    reply = ask(solved, "POST", "/plan", {**EXAMPLE, **change})
    assert reply.status_code == 422
    assert where in reply.text


def test_infinity_and_nan_are_no_workload(solved: Planner) -> None:
    async def send(token: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=make_app(solved, "x"))
        body = str(EXAMPLE).replace("'", '"').replace("40.0", token)
        headers = {"Content-Type": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://planner") as client:
            return await client.post("/plan", content=body, headers=headers)

    for token in ("Infinity", "NaN", "1e999"):
        assert asyncio.run(send(token)).status_code == 422


# ---------------------------------------------------------------- notebooks that misbehave


def test_the_workload_arrives_as_it_was_sent(fake: Planner) -> None:
    assert ask(fake, "POST", "/plan", loaded(7)).json()["reason"] == "8.03 1"


def test_a_reasoned_none_is_an_answer(fake: Planner) -> None:
    reply = ask(fake, "POST", "/plan", loaded(1))
    assert (reply.status_code, reply.json()["gpu"]) == (200, None)


@pytest.mark.parametrize(
    ("load", "told"),
    [
        (2, "raised KeyError"),
        (3, "is the text 'eight H200'"),
        (4, "has no 'requests_per_gpu'"),
        (5, "was stopped after 4 CPU seconds"),
        (6, "while `plan` was answering. It ended with exit code 3"),
    ],
)
def test_a_plan_that_goes_wrong_is_a_502_and_the_next_one_is_served(
    fake: Planner, load: int, told: str
) -> None:
    reply = ask(fake, "POST", "/plan", loaded(load))
    assert reply.status_code == 502
    assert told in reply.json()["detail"]
    assert ask(fake, "POST", "/plan", loaded(1)).status_code == 200


def test_cells_that_raise_are_told_and_the_rest_is_served(fake: Planner) -> None:
    assert [(failed.cell, failed.error) for failed in fake.errors] == [(0, "ValueError: a cell")]


def test_a_blank_notebook_says_that_plan_is_not_written_yet(course: Path) -> None:
    planner = Planner(course / "notebooks" / "m7_planner.ipynb", course / "data")
    try:
        reply = ask(planner, "POST", "/plan", EXAMPLE)
    finally:
        planner.close()
    assert reply.status_code == 502
    assert "`plan` is not written yet" in reply.json()["detail"]


# ---------------------------------------------------------------- the command


def test_no_notebook_and_a_taken_port_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="there is no such notebook"):
        grader.serve.serve(tmp_path / "m7_planner.ipynb", "127.0.0.1", _free_port())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInputError, match="choose another --port"):
            grader.serve.serve(tmp_path / "m7_planner.ipynb", "127.0.0.1", port)


def test_without_fastapi_the_reader_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "grader.serve")
    with pytest.raises(BadInputError, match=r"install it .*pip install .*serve"):
        importlib.import_module("grader.serve")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
