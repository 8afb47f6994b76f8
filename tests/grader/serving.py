"""A planner to serve in tests: quick, right by its own account, and a nuisance when asked to be."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from grader.serve.app import make_app
from grader.serve.catalog import read_catalog
from grader.serve.command import listening, server_of
from grader.serve.gate import Gate
from grader.serve.planner import CALLS, Planner
from grader.serve.turns import Turns
from grader.serve.workload import EXAMPLE
from solutions.lesson import ROOT

DATA = ROOT / "data"
NONE, RAISES, TEXT, FEW_KEYS, LOOPS, ENDS, SLEEPS, TOO_MANY, HELD = range(1, 10)
"""Loads, in requests a second, at which the planner below is a nuisance."""

TURNS = Turns()  # of every `ask`: a notebook ends with the thread that started it
BROKEN_CELL = "raise ValueError('a cell')"
FAKE = """
import math, os, time
from pathlib import Path

def of_layers(model):
    return model["no_such_key"]

def plan(workload):
    load = workload["requests_per_second"]
    if load == 1:
        return {"gpu": None, "reason": "nothing holds"}
    if load == 2:
        return of_layers(workload["model"])
    if load == 3:
        return "eight H200"
    if load == 4:
        return {"gpu": "H200"}
    if load == 5:
        while True:
            pass
    if load == 6:
        os._exit(3)
    if load == 7:
        time.sleep(3600)
    if load == 9:
        while not Path(RELEASE).exists():
            time.sleep(0.01)
    model, best = workload["model"], None
    tokens = workload["prompt_tokens"] + workload["output_tokens"]
    demand = load * workload["output_tokens"]
    values = 2 * model["n_layers"] * model["n_kv_heads"] * model["head_dim"]
    request = tokens * values * workload["kv_bits"] / 8
    weights = model["params_b"] * 1e9 * workload["weight_bits"] / 8
    for gpu in workload["gpus"]:
        held = math.floor((0.92e9 * gpu["gpu_memory_gb"] - weights) / request)
        ms = lambda n: 2 + (weights + n * request) / gpu["gpu_bandwidth_gbps"] / 1e6
        for n in range(1, held + 1):
            if ms(n) <= workload["max_step_ms"]:
                n_gpus = max(1, math.ceil(demand * ms(n) / (1000 * n)))
                wall = "latency" if ms(n + 1) > workload["max_step_ms"] else "load"
                wall = "memory" if n == held else wall
                one = (n_gpus * gpu["usd_per_hour"], gpu["gpu"], n, n_gpus, ms(n), wall)
                best = one if best is None or one < best else best
    if best is None:
        return {"gpu": None, "reason": "nothing on offer holds a request"}
    usd, name, n, n_gpus, step, wall = best
    if load == 8:
        n += 1000
    return {
        "gpu": name, "requests_per_gpu": n, "n_gpus": n_gpus, "decode_step_ms": step,
        "fleet_usd_per_hour": usd, "usd_per_million_tokens": usd / (demand * 3600 / 1e6),
        "limited_by": wall,
    }
"""


def loaded(requests_per_second: float, **changes: Any) -> dict[str, Any]:
    """Return the example with another load."""
    return {**EXAMPLE, "requests_per_second": float(requests_per_second), **changes}


def ask(planner: Any, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
    """Put one request to an application made for it alone."""

    async def send() -> httpx.Response:
        turns = Turns()
        transport = httpx.ASGITransport(app=gated(planner, turns))
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1"
            ) as client:
                return await client.request(method, path, json=body, **more)
        finally:
            turns.close()

    return asyncio.run(send())


def gated(planner: Any, turns: Turns, notebook: str = "m7_planner.ipynb") -> Gate:
    """Return the whole application, as `grader serve` runs it."""
    return Gate(make_app(planner, notebook, read_catalog(DATA), turns))


@contextmanager
def served(notebook: Path, **changes: Any) -> Iterator[str]:
    """Serve a notebook in this process; yield the address."""
    planner, turns = Planner(notebook, DATA, changes.pop("calls", CALLS)), Turns(**changes)
    with listening("127.0.0.1", 0) as listener:
        server = server_of(gated(planner, turns), planner)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            planner.close()
            turns.close()


def free_port() -> int:
    """Return a port that nothing listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
