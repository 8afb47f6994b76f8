"""`grader serve` under load and under attack: crowds, slow clients, foreign pages, huge bodies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

import grader.serve.command
import grader.serve.gate
import grader.serve.patience
from grader.errors import BadInputError
from grader.serve.command import TO_OTHERS, WITHOUT_BOUNDARY, is_loopback, serve
from grader.serve.gate import MAX_BODY_BYTES
from grader.serve.planner import CALLS
from grader.serve.turns import MOST_WAITING, BusyError, Turns
from grader.serve.workload import EXAMPLE
from tests.conftest import WriteNotebook
from tests.grader.serving import ENDS, FAKE, HELD, LOOPS, RAISES, free_port, loaded, served

HELLO = b"POST /plan HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
HUGE = 100 * 2**20
PATIENT = replace(CALLS, idle_s=300.0, call_cpu_s=300.0)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that calls of the load HELD wait for."""
    return tmp_path_factory.mktemp("held") / "go"


@pytest.fixture(scope="module")
def fake(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook with the planner that is a nuisance when asked to be."""
    import nbformat

    source = f"RELEASE = {str(release)!r}\n{FAKE}"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="a")])
    path = tmp_path_factory.mktemp("fake") / "m7_planner.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def address(fake: Path) -> Iterator[str]:
    with served(fake, calls=PATIENT, patience_s=300.0) as found:
        yield found


def connect(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def still_plans(address: str) -> bool:
    return httpx.post(f"{address}/plan", json=loaded(10), timeout=60).status_code == 200


# ---------------------------------------------------------------- crowds


def test_of_two_hundred_at_once_the_line_takes_its_bound_and_the_rest_is_asked_back(
    address: str, release: Path
) -> None:
    async def crowd() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=address, limits=limits, timeout=120) as client:
            calls = [
                asyncio.create_task(client.post("/plan", json=loaded(HELD))) for _ in range(200)
            ]
            while sum(call.done() for call in calls) < 200 - MOST_WAITING:
                await asyncio.sleep(0.01)
            health = await client.get("/health")
            assert health.json()["status"] == "ready"  # a full line is no sick server
            release.touch()
            return await asyncio.gather(*calls)

    try:
        replies = asyncio.run(crowd())
    finally:
        release.unlink()
    counts = Counter(reply.status_code for reply in replies)
    assert counts == {200: MOST_WAITING, 503: 200 - MOST_WAITING}
    for reply in replies:
        if reply.status_code == 503:
            assert int(reply.headers["Retry-After"]) >= 1
            assert "calls wait for the planner already" in reply.json()["detail"]
    assert still_plans(address)


def test_who_waits_behind_a_crash_is_served_by_the_next_process(address: str) -> None:
    async def crowd() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=address, timeout=120) as client:
            loads = (ENDS, 10, RAISES, 10, ENDS, 10)
            return await asyncio.gather(
                *(client.post("/plan", json=loaded(load)) for load in loads)
            )

    replies = asyncio.run(crowd())
    assert [reply.status_code for reply in replies] == [502, 200, 502, 200, 502, 200]


def test_a_line_is_bounded_and_a_turn_that_does_not_come_is_told() -> None:
    async def wait() -> None:
        turns, go = Turns(most=2, patience_s=0.2), threading.Event()
        held = asyncio.create_task(turns.take(go.wait))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match=r"busy for 0\.2 seconds"):
            await turns.take(lambda: "never")
        with pytest.raises(BusyError, match=r"busy for 0\.2 seconds"):
            await held
        late = asyncio.create_task(turns.take(lambda: "late"))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="2 calls wait"):  # `held` still has its place
            await turns.take(lambda: "too many")
        go.set()
        assert await late == "late"
        assert await turns.take(lambda: "again") == "again"
        turns.close()

    asyncio.run(wait())


def test_an_error_in_a_turn_reaches_who_took_it_and_leaves_the_line() -> None:
    async def wait() -> None:
        turns = Turns(most=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await turns.take(lambda: 1 // 0)
        assert await turns.take(lambda: 1) == 1
        turns.close()

    asyncio.run(wait())


# ---------------------------------------------------------------- huge and slow


@pytest.mark.parametrize("chunked", [False, True], ids=["told", "chunked"])
def test_a_hundred_megabytes_are_refused_and_the_refusal_can_be_read(
    address: str, chunked: bool
) -> None:
    def body() -> Iterator[bytes]:
        for _ in range(HUGE // 2**20):
            yield b"[" * 2**20

    headers = {"Content-Type": "application/json"}
    if not chunked:
        headers["Content-Length"] = str(HUGE)
    reply = httpx.post(f"{address}/plan", content=body(), headers=headers, timeout=60)
    assert reply.status_code == 413
    assert reply.json()["detail"] == "the body is larger than 64 KiB; no workload is"
    assert still_plans(address)


def test_the_largest_workload_is_far_below_the_bound_on_bodies() -> None:
    offers = [{**EXAMPLE["gpus"][0], "gpu": f"{i:060}"} for i in range(20)]
    largest = json.dumps({**EXAMPLE, "gpus": offers}, indent=4)
    assert len(largest) < MAX_BODY_BYTES / 5


def test_a_body_that_never_ends_is_given_up(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grader.serve.gate, "BODY_S", 0.3)
    monkeypatch.setattr(grader.serve.gate, "LINGER_S", 0.3)
    with connect(address) as slow:
        slow.sendall(HELLO + b"Content-Length: 1000\r\n\r\n{")
        told = b"".join(iter(lambda: slow.recv(4096), b""))
    assert told.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive within 0.3 seconds" in told


@pytest.mark.parametrize("said", [b"", b"POST /pl", HELLO], ids=["nothing", "a word", "no end"])
def test_a_head_that_never_ends_is_hung_up_on(
    said: bytes, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grader.serve.patience, "HEAD_S", 0.3)
    with connect(address) as slow:
        slow.sendall(said)
        assert slow.recv(4096) == b""
    assert still_plans(address)


def test_a_second_head_that_never_ends_is_hung_up_on_too(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grader.serve.patience, "HEAD_S", 0.3)
    with connect(address) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /hea")
        told = b"".join(iter(lambda: slow.recv(4096), b""))
    assert told.count(b"HTTP/1.1 200 ") == 1


def test_a_call_may_take_longer_than_a_head(
    address: str, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grader.serve.patience, "HEAD_S", 0.1)
    body = json.dumps(loaded(HELD)).encode()
    with connect(address) as patient:
        patient.sendall(HELLO + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.5)  # several times what a head may take; no bound on anything asserted
        release.touch()
        told = patient.recv(65_536)
    release.unlink()
    assert told.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"\0" * 200_000,
        b"A" * 200_000,
        b"GET / HTTP/9\r\n\r\n",
    ],
    ids=["TLS", "no path", "zeros", "no end", "no such HTTP"],
)
def test_what_is_no_http_is_answered_400_and_hung_up_on(said: bytes, address: str) -> None:
    told = b""
    with connect(address) as odd, contextlib.suppress(ConnectionError):
        odd.sendall(said)
        told = odd.recv(4096)
    assert told[:12] in (b"", b"HTTP/1.1 400")
    assert still_plans(address)


def test_clients_that_leave_in_the_middle_do_no_harm(address: str) -> None:
    body = json.dumps(loaded(10)).encode()
    for cut in (10, len(HELLO) + 20, len(HELLO) + 60):
        with connect(address) as leaving:
            leaving.sendall((HELLO + b"Content-Length: %d\r\n\r\n" % len(body) + body)[:cut])
    for _ in range(20):
        with connect(address) as leaving:
            leaving.sendall(HELLO + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert still_plans(address)


# ---------------------------------------------------------------- who may ask


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8000", 200),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("192.168.1.7", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8000", 421),
        ("0x7f000001", 421),
        ("user@127.0.0.1", 400),
        ("127.0.0.1/x", 400),
        ("127.0.0.1:port", 400),
        ("[::1", 400),
        ("", 400),
    ],
)
def test_a_name_that_is_not_ours_is_not_answered(host: str, status: int, address: str) -> None:
    reply = httpx.get(f"{address}/health", headers={"Host": host})
    assert reply.status_code == status


def test_two_hosts_and_none_are_not_answered(address: str) -> None:
    for hosts in (b"Host: localhost\r\nHost: localhost\r\n", b""):
        with connect(address) as odd:
            odd.sendall(b"GET /health HTTP/1.1\r\nConnection: close\r\n" + hosts + b"\r\n")
            assert odd.recv(4096).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("origin", "status"),
    [(None, 200), ("own", 200), ("http://evil.example", 403), ("null", 403), ("https://own", 403)],
)
def test_a_foreign_page_cannot_have_the_planner_plan(
    origin: str | None, status: int, address: str
) -> None:
    own = address if origin == "own" else origin
    headers = {} if own is None else {"Origin": own}
    reply = httpx.post(f"{address}/plan", json=loaded(10), headers=headers)
    assert reply.status_code == status
    assert "access-control-allow-origin" not in reply.headers


# ---------------------------------------------------------------- the command


def test_no_notebook_a_taken_port_and_a_foreign_address_are_bad_input(tmp_path: Path) -> None:
    notebook = tmp_path / "m7_planner.ipynb"
    with pytest.raises(BadInputError, match="there is no such notebook"):
        serve(notebook, "127.0.0.1", free_port())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInputError, match="choose another --port"):
            serve(notebook, "127.0.0.1", port)
    with pytest.raises(BadInputError, match="or another --host"):
        serve(notebook, "203.0.113.7", free_port())


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
        ("localhost.example", False),
    ],
)
def test_only_a_loopback_address_is_this_machine_alone(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


class Command:
    """`grader serve` as it is typed, in a process of its own."""

    def __init__(self, notebook: Path, *options: str) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "grader", "serve", str(notebook), "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.address = f"http://127.0.0.1:{self.port}"
        while self.process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.address}/health").status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(self.process.communicate())

    def stop(self, sign: int) -> tuple[int, str, str]:
        """Send a signal; return the exit code, what was printed and what was complained."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        assert family  # the notebook's own process
        self.process.send_signal(sign)
        printed, complained = self.process.communicate(timeout=60)
        _, alive = psutil.wait_procs(family, timeout=20)
        assert alive == []
        return self.process.returncode, printed, complained


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX systems do")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_the_command_says_where_it_serves_and_stops_without_a_trace(sign: int, fake: Path) -> None:
    code, printed, complained = Command(fake).stop(sign)
    assert (code, complained) == (0, "")
    assert "Serving its plan() at http://127.0.0.1:" in printed
    assert WITHOUT_BOUNDARY in printed
    assert printed.endswith("Stopped.\n")


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX systems do")
def test_ctrl_c_in_the_middle_of_a_call_ends_it(fake: Path) -> None:
    command = Command(fake, "--host", "0.0.0.0")
    replies = []
    asking = threading.Thread(
        target=lambda: replies.append(
            httpx.post(f"{command.address}/plan", json=loaded(LOOPS), timeout=60)
        )
    )
    asking.start()
    notebook = psutil.Process(command.process.pid).children()[0]
    used = notebook.cpu_times().user
    while notebook.cpu_times().user < used + 0.3:  # it is at it
        time.sleep(0.02)
    code, _, complained = command.stop(signal.SIGINT)
    asking.join()
    assert code == 0
    assert complained.strip() == TO_OTHERS.format(host="0.0.0.0")
    (reply,) = replies
    assert (reply.status_code, reply.json()["detail"]) == (503, "Not now: the server is stopping.")


def test_a_write_of_the_notebook_shows_in_the_next_plan(
    write_notebook: WriteNotebook,
) -> None:
    source = "def plan(workload): return {{'gpu': None, 'reason': '{}'}}"
    path = write_notebook(source.format("first"), name="m7_planner")
    with served(path) as address:
        assert httpx.post(f"{address}/plan", json=EXAMPLE).json()["reason"] == "first"
        write_notebook(source.format("second"), name="m7_planner")
        os.utime(path, ns=(0, 1))
        reply = httpx.post(f"{address}/plan", json=EXAMPLE, timeout=60)
        assert reply.json()["reason"] == "second"
