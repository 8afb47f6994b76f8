"""`grader serve`: the planner of a milestone-7 notebook over HTTP, for as long as it is wanted.

The notebook runs in a room of its own, like when it is graded; this module only passes workloads
in and plans out, one at a time. It is the one module of the grader that knows a milestone.
"""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from grader.errors import BadInputError
from grader.host import HostError
from grader.limits import Limits
from grader.notebook import read_notebook
from grader.paths import course_folder
from grader.places import Places
from grader.report import CellError
from grader.room import Room, open_room
from milestones.m7_planner.calls import CPU_S
from milestones.m7_planner.plans import Unreadable, read_plan
from milestones.spec import Answer, Call

try:
    import uvicorn
    from fastapi import FastAPI, HTTPException, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse
    from pydantic import BaseModel, ConfigDict, Field, model_validator
except ImportError as missing:
    raise BadInputError(
        f"`grader serve` needs {missing.name}, which is not installed; "
        "install it in the course's folder with: pip install -e '.[serve]'"
    ) from None

CALL_LIMITS = Limits(call_cpu_s=20.0)  # ten times what a plan may take when it is graded

Count = Annotated[int, Field(ge=1, le=10_000_000)]
Amount = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ModelShape(_Strict):
    """The model that is served; `params_b` in 1e9 parameters."""

    n_layers: Annotated[int, Field(ge=1, le=1_000)]
    hidden_size: Count
    n_heads: Count
    n_kv_heads: Count
    head_dim: Annotated[int, Field(ge=1, le=4_096)]
    intermediate_size: Count
    params_b: Amount


class GpuOffer(_Strict):
    """A GPU on offer: decimal GB, GB/s, dense 16-bit TFLOP/s, USD per GPU and hour."""

    gpu: Annotated[str, Field(min_length=1, max_length=60)]
    gpu_memory_gb: Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]
    gpu_bandwidth_gbps: Amount
    gpu_tflops: Amount
    usd_per_hour: Amount


EXAMPLE: dict[str, Any] = {
    "model": {
        "n_layers": 32,
        "hidden_size": 4096,
        "n_heads": 32,
        "n_kv_heads": 8,
        "head_dim": 128,
        "intermediate_size": 14336,
        "params_b": 8.03,
    },
    "weight_bits": 16,
    "kv_bits": 16,
    "prompt_tokens": 6000,
    "output_tokens": 500,
    "requests_per_second": 10.0,
    "max_step_ms": 40.0,
    "gpus": [
        {
            "gpu": "H100-80GB",
            "gpu_memory_gb": 80.0,
            "gpu_bandwidth_gbps": 3350.0,
            "gpu_tflops": 989.0,
            "usd_per_hour": 2.8,
        },
    ],
}


class Workload(_Strict):
    """A workload as milestone 7 puts it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE]})

    model: ModelShape
    weight_bits: Literal[16, 8, 4]
    kv_bits: Literal[16, 8]
    prompt_tokens: Count
    output_tokens: Count
    requests_per_second: Amount
    max_step_ms: Amount
    gpus: Annotated[list[GpuOffer], Field(min_length=1, max_length=20)]

    @model_validator(mode="after")
    def _each_gpu_once(self) -> Self:
        names = [offer.gpu for offer in self.gpus]
        if len(set(names)) < len(names):
            raise ValueError("each GPU may be offered once")
        return self


class Planner:
    """The `plan` of one notebook, in a room that is opened again whenever it had to be stopped."""

    def __init__(self, notebook: Path, data: Path, limits: Limits = CALL_LIMITS) -> None:
        """Read the notebook and run its cells; `errors` tells which of them raised."""
        self._cells = read_notebook(notebook).cells
        # Nothing is graded here: the only questions there are come in by HTTP.
        self._places, self._limits = Places(data, data), limits
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self.errors: list[CellError] = []
        self._room = self._open()

    def _open(self) -> Room:
        room = self._stack.enter_context(open_room(self._places, self._limits))
        self.errors = []
        for cell in self._cells:
            error = room.run_cell(cell)
            if error is not None:
                self.errors.append(CellError(cell.index, error))
            if room.stop:
                break
        return room

    def plan(self, workload: dict[str, Any]) -> Answer:
        """Put one workload to the notebook's `plan`; calls wait for each other."""
        call = Call("serve", "plan", {"workload": workload}, cpu_s=CPU_S)
        with self._lock:
            if self._room.stop:
                self._stack.close()
                self._room = self._open()
            return self._room.ask(call)

    def close(self) -> None:
        """End the notebook's process."""
        self._stack.close()


def make_app(planner: Planner, name: str) -> FastAPI:
    """Return the web application: a page, `POST /plan`, and the OpenAPI description of both."""
    app = FastAPI(title=f"Capacity planner: {name}", redoc_url=None)

    @app.exception_handler(RequestValidationError)
    def refused(_request: Request, error: RequestValidationError) -> JSONResponse:
        # What was sent is not sent back: an infinity in it could not be written as JSON.
        told = [{key: found[key] for key in ("loc", "msg", "type")} for found in error.errors()]
        return JSONResponse({"detail": told}, status_code=422)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> str:
        return PAGE

    @app.post("/plan", responses={502: {"description": "The notebook's plan() gave no plan."}})
    def plan(workload: Workload) -> dict[str, Any]:
        """Plan one workload: the cheapest fleet that keeps its promises."""
        try:
            answer = planner.plan(workload.model_dump())
        except HostError as error:
            raise HTTPException(503, f"The notebook could not be started: {error}.") from None
        if answer.problem is not None:
            told = filter(None, (answer.problem.summary, answer.problem.detail))
            raise HTTPException(502, f"No plan: {'. '.join(told)}.")
        read = read_plan(answer)
        if isinstance(read, Unreadable):
            raise HTTPException(502, f"No plan: the answer of `plan` {read.why}.")
        value: dict[str, Any] = answer.value
        return value

    return app


def serve(notebook: Path, host: str, port: int) -> None:
    """Serve a notebook's planner until interrupted.

    Raises:
        BadInputError: the notebook cannot be read or run, or the address is not free.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise BadInputError(
                f"{host}:{port}: cannot listen there ({error.strerror}); choose another --port"
            ) from None
    planner = Planner(notebook, course_folder() / "data")
    try:
        for failed in planner.errors:
            print(f"cell {failed.cell} raised {failed.error}")
        print(f"Serving plan() of {notebook.name} at http://{host}:{port} (stop with Ctrl+C)")
        print("It runs with your own rights, without a boundary around it.")
        uvicorn.run(make_app(planner, notebook.name), host=host, port=port, log_level="warning")
    finally:
        planner.close()


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Capacity planner</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
textarea, pre { font: 14px/1.4 ui-monospace, monospace; width: 100%; box-sizing: border-box }
pre { background: #f2f2f2; padding: 1rem; white-space: pre-wrap; min-height: 3rem }
</style>
</head>
<body>
<h1>Capacity planner</h1>
<p>A workload goes in, the cheapest fleet that keeps its promises comes out.
The interface is described in <a href="/docs">/docs</a>.</p>
<label for="workload">Workload</label>
<textarea id="workload" rows="24" spellcheck="false"></textarea>
<p><button id="ask">Plan</button></p>
<pre id="answer" aria-live="polite"></pre>
<script>
const box = document.getElementById("workload"), out = document.getElementById("answer");
fetch("/openapi.json").then(r => r.json()).then(d => {
  box.value = JSON.stringify(d.components.schemas.Workload.examples[0], null, 2);
});
document.getElementById("ask").onclick = async () => {
  out.textContent = "planning ...";
  try {
    const headers = { "Content-Type": "application/json" };
    const r = await fetch("/plan", { method: "POST", headers, body: box.value });
    const body = await r.json();
    const told = Array.isArray(body.detail)
      ? body.detail.map(e => e.loc.slice(1).join(".") + ": " + e.msg).join("\\n") : body.detail;
    out.textContent = r.ok ? JSON.stringify(body, null, 2) : told;
  } catch (error) { out.textContent = String(error); }
};
</script>
</body>
</html>
"""
