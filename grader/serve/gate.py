"""What a request passes before anything reads it: whose page sent it, how large it is, how slow.

A server on loopback is still reached by every page its user opens. A page elsewhere can point its
own name at 127.0.0.1 (DNS rebinding), so a Host that is a name must be one of ours; an address
cannot be pointed elsewhere. What a page elsewhere posts tells its Origin.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 64 * 1024  # a workload with 20 GPUs takes 4 KB
BODY_S = 10.0  # for all of a body to arrive
LINGER_S = 5.0  # to let a client finish what nobody reads, so that it reads the answer
LOCAL = ("localhost",)

# The pages add a policy of their own that allows their one script and one style.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        """`names` are host names under which the server may be asked, besides localhost."""
        self._app = app
        self._names = {name.lower() for name in (*LOCAL, *names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._refused(scope["method"], headers)
        if refused is None and _length(headers) > MAX_BODY_BYTES:
            refused = 413, _too_large()
        body = b""
        if refused is None:
            try:
                async with asyncio.timeout(BODY_S):
                    body = await _read(receive)
            except TimeoutError:
                refused = 408, f"the request did not arrive within {BODY_S:g} seconds"
            except _TooLargeError:
                refused = 413, _too_large()
            except _GoneError:
                return
        if refused is None:
            await self._app(scope, _again(body, receive), _with_headers(send))
            return
        await _refuse(*refused, scope, receive, _with_headers(send))

    def _refused(self, method: str, headers: Headers) -> tuple[int, str] | None:
        hosts = headers.getlist("host")
        host = _host_of(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return 400, "the request names no Host, or names it wrongly"
        if not (_is_address(host) or host in self._names):
            return 421, (
                f"this server answers to its address and to {', '.join(sorted(self._names))}, not "
                f"to {host[:80]}; start it with --name {host[:80]} if that is its name"
            )
        origin = headers.get("origin")
        if method not in ("GET", "HEAD") and origin not in (None, f"http://{hosts[0]}"):
            return 403, "only this server's own page, or a program, may send requests"
        return None


def _host_of(header: str) -> str | None:
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    bare = parts.username is None and not (parts.path or parts.query or parts.fragment)
    return parts.hostname.lower() if parts.hostname and bare else None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _TooLargeError(Exception):
    """The body is longer than a workload can be."""


class _GoneError(Exception):
    """The client has left before its request was whole."""


def _too_large() -> str:
    return f"the body is larger than {MAX_BODY_BYTES // 1024} KiB; no workload is"


def _length(headers: Headers) -> int:
    told = headers.get("content-length", "0")
    return int(told) if told.isascii() and told.isdigit() and len(told) < 20 else 0


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _GoneError
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise _TooLargeError
        if not message.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read already, and then what follows."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def _with_headers(send: Send) -> Send:
    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with


async def _refuse(status: int, told: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, and only then read what the client still sends: it may not read before."""
    response = JSONResponse({"detail": told}, status, {"Connection": "close"})

    async def send_slowly(message: Message) -> None:
        if message["type"] == "http.response.body":
            await send({**message, "more_body": True})
            await _drain(receive)
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    await response(scope, receive, send_slowly)


async def _drain(receive: Receive) -> None:
    try:
        async with asyncio.timeout(LINGER_S):
            message: Message = {"type": "http.request", "more_body": True}
            while message["type"] == "http.request" and message.get("more_body", False):
                message = await receive()
    except TimeoutError:
        return
