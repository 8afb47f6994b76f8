"""`grader serve NOTEBOOK`: listen, say where and to whom, and stop without a trace."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click
import uvicorn

from grader.errors import BadInputError
from grader.paths import course_folder
from grader.serve.app import make_app
from grader.serve.catalog import read_catalog
from grader.serve.gate import Gate
from grader.serve.patience import PatientProtocol
from grader.serve.planner import Planner
from grader.serve.turns import Turns

MOST_CONNECTIONS = 512
FAREWELL_S = 3  # for answers under way when the server is told to stop
WITHOUT_BOUNDARY = "The notebook runs with your own rights, without a boundary around it."
TO_OTHERS = (
    "{host} is not this machine alone: whoever reaches it can have your planner plan, without a "
    "password and unencrypted. Leave --host out to serve yourself only."
)


def serve(
    notebook: Path, host: str, port: int, names: Sequence[str] = (), *, browse: bool = False
) -> None:
    """Serve a notebook's planner until interrupted.

    Raises:
        BadInputError: the notebook cannot be read or run, or the address is not free.
    """
    data = course_folder() / "data"
    catalog = read_catalog(data)
    with listening(host, port) as listener:
        address = _shown(host, listener.getsockname()[1])
        click.echo(f"Running the cells of {notebook.name} ...")
        planner, turns = Planner(notebook, data), Turns()
        try:
            for failed in planner.errors:
                click.echo(f"cell {failed.cell} {failed.told}")
            click.echo(f"Serving its plan() at {address} (stop with Ctrl+C)")
            click.echo("Save the notebook, and the next plan comes from what you saved.")
            click.echo(WITHOUT_BOUNDARY)
            if not is_loopback(host):
                click.echo(TO_OTHERS.format(host=host), err=True)
            app = Gate(make_app(planner, notebook.name, catalog, turns), [*names, host])
            if browse:
                webbrowser.open(address)
            with contextlib.suppress(KeyboardInterrupt):  # uvicorn has stopped by then
                server_of(app, planner).run(sockets=[listener])
        finally:
            planner.close()
            turns.close()
        click.echo("Stopped.")


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


class _Server(uvicorn.Server):
    """A server that ends the planner's call before it waits for the answers under way."""

    def __init__(self, config: uvicorn.Config, planner: Planner) -> None:
        super().__init__(config)
        self._planner = planner

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._planner.interrupt()
        await super().shutdown(sockets)


def server_of(app: Gate, planner: Planner) -> uvicorn.Server:
    """Return the server as it is run: patient, quiet, and bounded in connections."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=FAREWELL_S,
    )
    return _Server(config, planner)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; on port 0, at one that is free.

    Raises:
        BadInputError: the address is not to be had.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        try:
            if os.name == "posix":  # on Windows it would share the port with another server
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise BadInputError(
            f"{host}:{port}: cannot listen there ({error.strerror}); choose another --port, or "
            "another --host"
        ) from None
    return listener


def _shown(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
