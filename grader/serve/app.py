"""The web application: a page, `POST /plan`, what the page draws, and the description of it all."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from grader import __version__
from grader.serve import refusal
from grader.serve.curve import Curve, cost_curve
from grader.serve.memory import Memory, memory_of
from grader.serve.page import STATIC, docs_page, planner_page
from grader.serve.planner import BAR_S, DOWN, LATE, WRONG, Failed, Outcome, Planner
from grader.serve.turns import BusyError, Turns
from grader.serve.workload import Workload

RETRY_AFTER_S = 2

ABOUT = f"""
`POST /plan` puts a workload to the `plan` of one notebook of milestone 7 and gives back what it
answers. `POST /curve` asks it many times; `POST /memory` asks nobody: it is public arithmetic.
A call may take {BAR_S:g} seconds.
"""


class Plan(BaseModel):
    """A plan, in the planner's own words."""

    gpu: str | None = Field(description="a GPU on offer; null where nothing holds")
    requests_per_gpu: int
    n_gpus: int
    decode_step_ms: float
    fleet_usd_per_hour: float
    usd_per_million_tokens: float
    limited_by: str = Field(description="memory, latency or load")


class NoPlan(BaseModel):
    """The answer that no GPU and no number of requests holds."""

    gpu: None
    reason: str


class Trouble(BaseModel):
    """Why there is no answer; the rest is there where the notebook's code raised."""

    detail: str
    error: str | None = None
    cell: int | None = Field(None, description="among all cells of the notebook, from 0")
    line: int | None = Field(None, description="in that cell, from 1")
    source: str | None = None


TROUBLES: dict[int | str, dict[str, Any]] = {
    413: {"model": Trouble, "description": "The body is too large."},
    422: {"description": "The workload is none; `detail` says for each field what was expected."},
    WRONG: {"model": Trouble, "description": "The notebook's code gave no plan."},
    DOWN: {"model": Trouble, "description": "Busy, or starting again; see Retry-After."},
    LATE: {"model": Trouble, "description": f"The notebook's code took over {BAR_S:g} seconds."},
}


def make_app(planner: Planner, notebook: str, catalog: dict[str, Any], turns: Turns) -> FastAPI:
    """Return the application around one planner; `notebook` is the name it is shown by."""

    app = FastAPIOffline(
        docs_url=None,
        redoc_url=None,
        static_url=STATIC,
        title=f"Capacity planner: {notebook}",
        description=ABOUT,
        version=__version__,
    )
    _add_troubles(app)
    page, policy = planner_page(notebook, catalog)

    async def ask(workload: dict[str, Any]) -> Outcome:
        outcome = await turns.take(partial(planner.plan, workload))
        if not planner.ready:
            turns.soon(planner.restart)
        return outcome

    @app.get("/", include_in_schema=False)
    def home() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        html, allowed = docs_page("/openapi.json")
        return HTMLResponse(html, headers={"Content-Security-Policy": allowed})

    @app.get("/favicon.ico", include_in_schema=False)
    def icon() -> HTMLResponse:
        return HTMLResponse(status_code=204)

    @app.get(
        "/health",
        tags=["server"],
        summary="Can it plan just now?",
        responses={DOWN: {"description": "It cannot plan just now."}},
    )
    def health() -> JSONResponse:
        """Tell whether the notebook's process is there and waits for a workload."""
        told = {
            "status": "ready" if planner.ready else "down" if planner.why_down else "starting",
            "notebook": notebook,
            "cells_that_raised": [
                {"cell": failed.cell, "error": failed.error} for failed in planner.errors
            ],
            "detail": planner.why_down,
        }
        return JSONResponse(told, 200 if planner.ready else DOWN)

    @app.post(
        "/plan",
        tags=["planner"],
        summary="Plan one workload",
        responses={200: {"model": Plan | NoPlan}, **TROUBLES},
        response_model=None,
    )
    async def plan(workload: Workload) -> JSONResponse:
        """Plan one workload: the cheapest fleet that keeps its promises, says the notebook."""
        outcome = await ask(workload.model_dump())
        return _failed(outcome) if isinstance(outcome, Failed) else JSONResponse(outcome.value)

    @app.post(
        "/curve",
        tags=["planner"],
        summary="Cost against requests per GPU",
        responses={DOWN: TROUBLES[DOWN]},
    )
    async def curve(workload: Workload, request: Request) -> list[Curve]:
        """Ask the notebook for the cost of a token against requests per GPU, GPU by GPU."""

        async def ask_for_someone(of_one: dict[str, Any]) -> Outcome:
            if await request.is_disconnected():
                raise ClientDisconnect
            return await ask(of_one)

        return [await cost_curve(workload, offer, ask_for_someone) for offer in workload.gpus]

    @app.post("/memory", tags=["arithmetic"], summary="What fits in memory")
    def memory(workload: Workload) -> Memory:
        """Return what memory alone allows: the arithmetic of milestone 3, no planner's answer."""
        return memory_of(workload)

    return app


def _failed(outcome: Failed) -> JSONResponse:
    told: dict[str, Any] = {"detail": outcome.detail}
    if outcome.blame is not None:
        found = outcome.blame
        told |= {"error": found.error, "cell": found.cell, "line": found.line}
        told |= {"source": found.source}
    headers = {"Retry-After": str(RETRY_AFTER_S)} if outcome.status == DOWN else None
    return JSONResponse(told, outcome.status, headers)


def _add_troubles(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    def refused(_request: Request, error: RequestValidationError) -> JSONResponse:
        # What was sent is told in words: an infinity in it could not be written as JSON.
        return JSONResponse({"detail": refusal.reasons(error.errors())}, 422)

    @app.exception_handler(HTTPException)
    def said(_request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # nested too deeply, or a number of thousands of digits
            told = refusal.reasons([{"loc": ("body",), "msg": "", "type": "json_invalid"}])
            return JSONResponse({"detail": told}, 422)
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)

    @app.exception_handler(BusyError)
    def busy(_request: Request, error: BusyError) -> JSONResponse:
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return JSONResponse({"detail": f"Not now: {error}."}, DOWN, headers)

    @app.exception_handler(ClientDisconnect)
    def gone(_request: Request, _error: ClientDisconnect) -> JSONResponse:
        return JSONResponse({"detail": "the client has left"}, 499)

    @app.exception_handler(Exception)
    def broken(_request: Request, error: Exception) -> JSONResponse:
        told = f"BROKEN: the server itself failed ({type(error).__name__}); please report this"
        return JSONResponse({"detail": told}, 500)
