"""Third part of `make bench`: what a plan of the solved notebook costs over HTTP, as ratios.

In one run, in turn, on the same workloads (those of the public split): `plan` called in this very
process, put to the notebook's own process, and asked of `grader serve` over HTTP. Then the same
server asked by many at once.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import httpx

from grader.notebook import read_notebook
from grader.serve.planner import Planned, Planner
from solutions.lesson import ROOT
from solutions.render import solved_path
from tests.grader.serving import DATA, free_port

BAR_MS, REFERENCE_MS = 2_000, 20
WARM = 20  # calls before any is timed


def in_process() -> Callable[[dict[str, Any]], object]:
    """Return the solved notebook's `plan`, its cells run in this process."""
    import matplotlib

    matplotlib.use("agg")
    namespace: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()):
        for cell in read_notebook(solved_path("m7_planner")).cells:
            exec(compile(cell.source, f"cell {cell.index}", "exec"), namespace)
    found: Callable[[dict[str, Any]], object] = namespace["plan"]
    return found


@contextmanager
def command(notebook: Path) -> Iterator[str]:
    """Run `grader serve` as it is typed; yield its address."""
    port = free_port()
    serve = [sys.executable, "-m", "grader", "serve", str(notebook), "--port", str(port)]
    process = subprocess.Popen(serve, cwd=ROOT, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        while process.poll() is None:
            with suppress(httpx.HTTPError):
                httpx.get(f"{address}/health")
                yield address
                break
            time.sleep(0.05)
    finally:
        process.terminate()
        process.wait()


def timed(ask: Callable[[dict[str, Any]], object], workloads: list[dict[str, Any]]) -> list[float]:
    """Return the milliseconds of each call, in rising order."""
    for workload in workloads[:WARM]:
        ask(workload)
    taken = []
    for workload in workloads:
        started = time.perf_counter()
        ask(workload)
        taken.append(1_000 * (time.perf_counter() - started))
    return sorted(taken)


async def crowd(address: str, workloads: list[dict[str, Any]], n_at_once: int) -> None:
    """Ask many at once and print what became of them."""
    limits = httpx.Limits(max_connections=n_at_once)
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=60) as client:
        replies = await asyncio.gather(
            *(client.post("/plan", json=workloads[i % len(workloads)]) for i in range(n_at_once))
        )
    counts = Counter(reply.status_code for reply in replies)
    told = ", ".join(f"{count} answered {status}" for status, count in sorted(counts.items()))
    print(f"{n_at_once} at once: {told}")


def main() -> None:
    """Print medians, 99th percentiles and ratios."""
    parser = argparse.ArgumentParser("python -m tests.bench_serve", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    asked = json.loads((DATA / "public_split/questions/m7_planner/workloads.json").read_text())
    workloads = asked["workloads"] * repeats
    notebook = solved_path("m7_planner")
    planner = Planner(notebook, DATA)

    def of_process(workload: dict[str, Any]) -> None:
        assert isinstance(planner.plan(workload), Planned)

    with command(notebook) as address, httpx.Client(base_url=address) as client:

        def over_http(workload: dict[str, Any]) -> None:
            assert client.post("/plan", json=workload).status_code == 200

        ways = {"plan()": in_process(), "its own process": of_process, "HTTP": over_http}
        taken = {name: timed(ask, workloads) for name, ask in ways.items()}
        print(f"one plan, ms, {len(workloads)} calls; the bar is {BAR_MS:,} ms")
        print(f"{'':18}{'median':>8}{'p99':>8}{'/ plan()':>10}{'p99 / plan()':>14}")
        median, p99 = int(0.5 * len(workloads)), int(0.99 * len(workloads))
        base = taken["plan()"]
        for name, ms in taken.items():
            ratios = f"{ms[median] / base[median]:>10.1f}{ms[p99] / base[p99]:>14.1f}"
            print(f"{name:18}{ms[median]:>8.1f}{ms[p99]:>8.1f}{ratios}")
        kept = "kept" if taken["HTTP"][p99] <= REFERENCE_MS else "missed"
        print(f"the solved planner over HTTP within {REFERENCE_MS} ms at p99: {kept}")
        asyncio.run(crowd(address, workloads, 200))
    planner.close()


if __name__ == "__main__":
    main()
