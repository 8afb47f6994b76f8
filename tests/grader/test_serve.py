"""`grader serve`: a notebook's planner over HTTP, whatever the notebook or the request does."""

from __future__ import annotations

import copy
import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.errors import BadInputError
from grader.serve.planner import CALLS, RETRY_S, Planned, Planner
from grader.serve.workload import EXAMPLE
from solutions.m7_planner.case import CASE
from solutions.render import solved_path
from tests.conftest import WriteNotebook
from tests.grader.serving import (
    BROKEN_CELL,
    ENDS,
    FAKE,
    FEW_KEYS,
    LOOPS,
    NONE,
    RAISES,
    SLEEPS,
    TEXT,
    ask,
    loaded,
)

QUICK = replace(CALLS, call_cpu_s=1.0, idle_s=1.0)


class Echo:
    """Stands in for a planner where no notebook is needed: it has always nothing to offer."""

    ready, why_down, errors = True, "", ()

    def plan(self, _workload: dict[str, Any]) -> Planned:
        return Planned({"gpu": None, "reason": "an echo"})

    def restart(self) -> None:
        raise AssertionError("an echo is always ready")


@pytest.fixture(scope="module")
def solved(course: Path) -> Iterator[Planner]:
    planner = Planner(solved_path("m7_planner"), course / "data")
    yield planner
    planner.close()


@pytest.fixture
def fake(write_notebook: WriteNotebook, course: Path) -> Iterator[Planner]:
    notebook = write_notebook(BROKEN_CELL, FAKE, name="m7_planner")
    planner = Planner(notebook, course / "data", QUICK)
    yield planner
    planner.close()


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


def test_the_solved_planners_curve_falls_to_a_full_gpu(solved: Planner) -> None:
    (curve,) = ask(solved, "POST", "/curve", EXAMPLE).json()
    (on,) = ask(solved, "POST", "/memory", EXAMPLE).json()["gpus"]
    prices = [point["usd_per_million_tokens"] for point in curve["points"]]
    assert prices == sorted(prices, reverse=True)
    assert len(prices) >= 6
    assert curve["points"][-1]["requests_per_gpu"] == on["requests_that_fit"]


def test_the_interface_is_described_with_units_and_an_example() -> None:
    described = ask(Echo(), "GET", "/openapi.json").json()
    assert set(described["paths"]) == {"/plan", "/curve", "/memory", "/health"}
    schemas = described["components"]["schemas"]
    assert schemas["Workload"]["examples"] == [EXAMPLE]
    for name in ("Workload", "GpuOffer", "ModelShape"):
        for key, field in schemas[name]["properties"].items():
            assert "description" in field or "$ref" in field, f"{name}.{key}"
    assert set(described["paths"]["/plan"]["post"]["responses"]) >= {"422", "502", "503", "504"}


# ---------------------------------------------------------------- requests that make no sense


@pytest.mark.parametrize(
    ("change", "field", "got", "expected"),
    [
        ({"prompt_tokens": 0}, "prompt_tokens", "0", "from 1 to 10,000,000"),
        ({"prompt_tokens": 1.5}, "prompt_tokens", "1.5", "a whole number"),
        ({"prompt_tokens": "6000"}, "prompt_tokens", "the text '6000'", "a whole number"),
        ({"prompt_tokens": True}, "prompt_tokens", "true", "a whole number"),
        ({"requests_per_second": -1}, "requests_per_second", "-1", "above 0"),
        ({"max_step_ms": 0}, "max_step_ms", "0", "ms a token"),
        ({"max_step_ms": 1e300}, "max_step_ms", "1e+300", "at most 1,000,000,000"),
        ({"max_step_ms": [1, 2]}, "max_step_ms", "a list of 2", "a number"),
        ({"weight_bits": 12}, "weight_bits", "12", "16, 8 or 4"),
        ({"gpus": []}, "gpus", "a list of 0", "a list of 1 to 20"),
        ({"gpus": {}}, "gpus", "an object", "a list of 1 to 20"),
        ({"gpus": [{**EXAMPLE["gpus"][0], "usd_per_hour": None}]}, "gpus[0].usd_per_hour", "null",
         "price of one GPU, USD per hour"),
        ({"gpus": [{**EXAMPLE["gpus"][0], "gpu": ""}]}, "gpus[0].gpu", "the text ''", "a text of"),
        ({"model": {**EXAMPLE["model"], "params_b": "8B"}}, "model.params_b", "the text '8B'",
         "in units of 1e9"),
        ({"model": 7}, "model", "7", "an object with n_layers"),
    ],
)  # fmt: skip
def test_a_refusal_tells_the_field_what_came_and_what_was_expected(
    change: dict[str, Any], field: str, got: str, expected: str
) -> None:
    reply = ask(Echo(), "POST", "/plan", {**EXAMPLE, **change})
    assert reply.status_code == 422
    (told,) = reply.json()["detail"]
    assert (told["field"], told["got"]) == (field, got)
    assert expected in told["expected"]


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({"gpus": [*EXAMPLE["gpus"], *EXAMPLE["gpus"]]}, "gpus", "H100-80GB is offered twice"),
        ({"model": {**EXAMPLE["model"], "n_kv_heads": 5}}, "model.n_kv_heads", "5 does not divide"),
        ({"colour": "blue"}, "colour", "is not a field of a workload; there are: model, "),
    ],
)
def test_what_is_wrong_between_fields_is_told_in_words(
    change: dict[str, Any], field: str, told: str
) -> None:
    (reason,) = ask(Echo(), "POST", "/plan", {**EXAMPLE, **change}).json()["detail"]
    assert reason["field"] == field
    assert told in reason["msg"]


def test_a_missing_field_is_told_as_nothing() -> None:
    workload = {key: value for key, value in EXAMPLE.items() if key != "kv_bits"}
    (told,) = ask(Echo(), "POST", "/plan", workload).json()["detail"]
    assert (told["field"], told["got"]) == ("kv_bits", "nothing")


@pytest.mark.parametrize("path", ["/plan", "/curve", "/memory"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"7",
        b"[]",
        b'"a workload"',
        b"{",
        b"\xff\xfe",
        b"[" * 60_000,
        b'{"model":' * 7_000,
        b"9" * 60_000,
        *(json.dumps(EXAMPLE).replace("40.0", n).encode() for n in ("Infinity", "NaN", "1e999")),
        json.dumps(EXAMPLE).replace("6000", "9" * 5_000).encode(),
        json.dumps({**EXAMPLE, "\ud800": 1}).encode(),
    ],
    ids=lambda body: body[:12].decode("latin-1") + f" {len(body)}",
)
def test_a_body_that_is_no_workload_is_refused_in_words(path: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    reply = ask(Echo(), "POST", path, content=body, headers=headers)
    assert reply.status_code == 422
    assert all(told["msg"] for told in reply.json()["detail"])


def test_a_body_that_a_foreign_form_could_send_is_refused() -> None:
    body = json.dumps(EXAMPLE).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        reply = ask(Echo(), "POST", "/plan", content=body, headers={"Content-Type": kind})
        assert reply.status_code == 422
        assert "send a workload as application/json" in reply.json()["detail"][0]["msg"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)
PLACES: list[tuple[str | int, ...]] = [(key,) for key in EXAMPLE]
PLACES += [("model", key) for key in EXAMPLE["model"]]
PLACES += [("gpus", 0), *(("gpus", 0, key) for key in EXAMPLE["gpus"][0])]


@settings(max_examples=150, deadline=None)
@given(place=st.sampled_from(PLACES), value=ANYTHING)
def test_any_value_at_any_place_is_planned_or_refused(place: tuple[Any, ...], value: Any) -> None:
    workload = copy.deepcopy(EXAMPLE)
    node: Any = workload
    for step in place[:-1]:
        node = node[step]
    node[place[-1]] = value
    body = json.dumps(workload).encode()
    headers = {"Content-Type": "application/json"}
    reply = ask(Echo(), "POST", "/plan", content=body, headers=headers)
    assert reply.status_code in (200, 422)
    if reply.status_code == 422:
        assert all(told["field"] and told["msg"] for told in reply.json()["detail"])


# ---------------------------------------------------------------- notebooks that misbehave


def test_a_reasoned_none_is_an_answer(fake: Planner) -> None:
    reply = ask(fake, "POST", "/plan", loaded(NONE))
    assert (reply.status_code, reply.json()["gpu"]) == (200, None)


@pytest.mark.parametrize(
    ("load", "status", "told"),
    [
        (RAISES, 502, "`plan` raised KeyError: 'no_such_key', in cell 1, line 6: return model["),
        (TEXT, 502, "is the text 'eight H200'"),
        (FEW_KEYS, 502, "has no 'requests_per_gpu'"),
        (LOOPS, 504, "after 1 CPU seconds while `plan` was answering; 2 seconds is the bar"),
        (SLEEPS, 504, "after 1 seconds of doing nothing while `plan` was answering; 2 seconds"),
        (ENDS, 502, "ended its process while `plan` was answering (with exit code 3)"),
    ],
)
def test_a_plan_that_goes_wrong_is_told_and_the_next_one_is_served(
    fake: Planner, load: int, status: int, told: str
) -> None:
    reply = ask(fake, "POST", "/plan", loaded(load))
    assert reply.status_code == status
    assert told in reply.json()["detail"]
    assert ask(fake, "POST", "/plan", loaded(10)).json()["gpu"] == "H100-80GB"


def test_a_process_that_ends_between_two_calls_costs_nobody_an_answer(fake: Planner) -> None:
    assert fake._room is not None
    process = fake._room._body.family()[0]
    process.kill()
    while fake.ready:
        time.sleep(0.01)
    assert ask(fake, "POST", "/plan", loaded(10)).status_code == 200


def test_an_exception_is_told_with_its_place_as_data_too(fake: Planner) -> None:
    told = ask(fake, "POST", "/plan", loaded(RAISES)).json()
    assert told["error"] == "KeyError: 'no_such_key'"
    assert (told["cell"], told["line"]) == (1, 6)
    assert told["source"] == 'return model["no_such_key"]'
    assert "error" not in ask(fake, "POST", "/plan", loaded(TEXT)).json()  # no exception is left


def test_an_exception_from_no_cell_and_one_without_text_are_told_as_they_are(
    write_notebook: WriteNotebook, course: Path
) -> None:
    for source, told in (
        ("def plan(load): return 1", "`plan` raised TypeError: plan() got an unexpected keyword"),
        ("def plan(workload): raise SystemExit", "`plan` raised SystemExit, in cell 0, line 1"),
        ("def plan(workload): return [float('nan')]", "`plan` gave something other"),
        (
            "def plan(workload): return {'gpu': 'H200', 'requests_per_gpu': float('nan')}",
            "has requests_per_gpu = nan; expected a whole number",
        ),
        (
            "def plan(workload): return {'gpu': None, 'reason': 'x', 'y': [{'z': float('nan')}]}",
            "has at 'y' what JSON cannot hold",
        ),
        ("plan = 3", "`plan` is not a function"),
        ("import math", "`plan` is not defined"),
    ):
        planner = Planner(write_notebook(source, name="m7_planner"), course / "data", QUICK)
        reply = ask(planner, "POST", "/plan", EXAMPLE)
        planner.close()
        assert reply.status_code == 502
        assert told in reply.json()["detail"]


def test_too_much_memory_is_a_fault_and_not_lateness(
    write_notebook: WriteNotebook, course: Path
) -> None:
    greedy = """
import numpy as np
def plan(workload):
    kept = [np.ones(2**24) for _ in range(5)]
    while kept:
        pass
"""
    limits = replace(CALLS, memory_bytes=500 * 2**20)
    planner = Planner(write_notebook(greedy, name="m7_planner"), course / "data", limits)
    reply = ask(planner, "POST", "/plan", EXAMPLE)
    planner.close()
    assert reply.status_code == 502
    assert "GiB of memory" in reply.json()["detail"]


def test_cells_that_raise_are_told_and_the_rest_is_served(fake: Planner) -> None:
    assert [(failed.cell, failed.error) for failed in fake.errors] == [(0, "ValueError: a cell")]
    told = ask(fake, "GET", "/health").json()
    assert told["status"] == "ready"
    assert told["cells_that_raised"] == [{"cell": 0, "error": "ValueError: a cell"}]


def test_a_blank_notebook_says_that_plan_is_not_written_yet_and_where(course: Path) -> None:
    planner = Planner(course / "notebooks" / "m7_planner.ipynb", course / "data")
    try:
        reply = ask(planner, "POST", "/plan", EXAMPLE)
    finally:
        planner.close()
    assert reply.status_code == 502
    assert "`plan` is not written yet, in cell " in reply.json()["detail"]


def test_a_notebook_that_ends_its_own_process_cannot_be_served(
    write_notebook: WriteNotebook, course: Path
) -> None:
    notebook = write_notebook("import os", "os._exit(7)", name="m7_planner")
    with pytest.raises(BadInputError, match=r"ended its process in cell 1 \(with exit code 7\)"):
        Planner(notebook, course / "data")


def test_a_notebook_that_is_saved_again_is_the_one_that_plans(
    write_notebook: WriteNotebook, course: Path
) -> None:
    def answering(reason: str) -> Path:
        source = f"def plan(workload): return {{'gpu': None, 'reason': '{reason}'}}"
        path = write_notebook(source, name="m7_planner")
        os.utime(path, ns=(0, hash(reason) % 10**18 + 1))  # whatever the clock's grain is
        return path

    planner = Planner(answering("old"), course / "data")
    assert ask(planner, "POST", "/plan", EXAMPLE).json()["reason"] == "old"
    path = answering("new")
    assert ask(planner, "POST", "/plan", EXAMPLE).json()["reason"] == "new"
    path.write_text("{")  # half saved: the last good one stays
    assert ask(planner, "POST", "/plan", EXAMPLE).json()["reason"] == "new"
    path.unlink()
    assert ask(planner, "POST", "/plan", EXAMPLE).json()["reason"] == "new"
    planner.close()


def test_a_notebook_that_no_longer_starts_is_told_and_not_tried_at_every_request(
    write_notebook: WriteNotebook, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = Planner(write_notebook(FAKE, name="m7_planner"), course / "data")
    path = write_notebook("import os; os._exit(7)", name="m7_planner")
    os.utime(path, ns=(0, 1))
    opened, real = [], Planner._open

    def counted(planner: Planner) -> None:
        opened.append(planner)
        real(planner)

    monkeypatch.setattr(Planner, "_open", counted)
    for _ in range(3):
        reply = ask(planner, "POST", "/plan", EXAMPLE)
        assert reply.status_code == 503
        assert "ended its process in cell 0" in reply.json()["detail"]
        assert int(reply.headers["Retry-After"]) >= 1
    assert len(opened) == 1
    health = ask(planner, "GET", "/health")
    assert (health.status_code, health.json()["status"]) == (503, "down")
    planner._tried_at -= RETRY_S
    assert ask(planner, "POST", "/plan", EXAMPLE).status_code == 503
    assert len(opened) == 2
    planner.close()


# ---------------------------------------------------------------- the command


def test_without_fastapi_the_reader_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "grader.serve")
    with pytest.raises(BadInputError, match=r"install it .*pip install .*serve"):
        importlib.import_module("grader.serve")


def test_no_answer_of_the_server_may_be_kept_framed_or_sniffed() -> None:
    for method, path in (("GET", "/"), ("GET", "/health"), ("GET", "/nothing"), ("POST", "/plan")):
        headers: httpx.Headers = ask(Echo(), method, path).headers
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
