"""Rooms on the workers of an existing Dask cluster.

Hand-ins, calls and the files they name travel as bytes, and answers come back; truth and judging
stay with the instructor's process. A worker needs the installed package and nothing else: it
unpacks the course into a temporary folder and forks its rooms from one warm process of its own.
A job whose worker dies is given to another one.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from grader import __version__
from grader.errors import BadInputError
from grader.host import Host, HostError, Start
from grader.hosts import walled_host, walled_or_trusted_host
from grader.limits import Limits
from grader.perform import Job, Perform, Transcript, perform
from grader.places import Places
from grader.results import fingerprint

RETRIES = 3  # workers that may die under one job; whoever kills more is told of as our fault
CONNECT_S = 10


@dataclass(frozen=True)
class Parcel:
    """The files a worker needs, as one archive.

    `name` is a hash of them: a worker outlives a class, and the next one has other questions.
    """

    name: str
    content: bytes

    def unpack(self, folder: Path) -> Places:
        """Lay the files out in a folder."""
        with tarfile.open(fileobj=io.BytesIO(self.content)) as archive:
            archive.extractall(folder, filter="data")
        overlay, bait = folder / "overlay", folder / "bait"
        return Places(
            folder / "data",
            folder / "questions",
            overlay if overlay.is_dir() else None,
            bait if bait.is_dir() else None,
        )


def pack(places: Places) -> Parcel:
    """Return the files of some places as bytes; truth is not among them."""
    content = io.BytesIO()
    parts = {"data": places.data, "questions": places.questions, "overlay": places.overlay,
             "bait": places.bait}  # fmt: skip
    with tarfile.open(fileobj=content, mode="w") as archive:
        for part, folder in parts.items():
            if folder is not None:
                archive.add(folder, arcname=part, filter=_without_public_truth)
    whole = content.getvalue()
    return Parcel(hashlib.sha256(whole).hexdigest(), whole)


def _without_public_truth(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if info.name.startswith("data/public_split") else info


@contextmanager
def connect(address: str, *, trust: bool) -> Iterator[tuple[Any, int, bool]]:
    """Connect to a cluster; yield its client, how many jobs it does at a time, and if all in walls.

    Raises:
        BadInputError: there is none, its workers run another grader, or give no boundary.
    """
    try:
        from distributed import Client
    except ImportError:
        raise BadInputError(
            'a cluster needs Dask: pip install -e ".[cluster]", here and on the workers'
        ) from None
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BadInputError(
            f"{address}: no Dask scheduler answers there ({error}); start one with "
            "`dask scheduler`, its workers with `dask worker ADDRESS`"
        ) from None
    with client:
        threads = client.nthreads()
        if not threads:
            raise BadInputError(f"{address}: the cluster has no worker; start `dask worker`")
        said: dict[str, tuple[str, bool]] = client.run(_describe_worker, trust)
        faults = {worker: why for worker, (why, _) in said.items() if why != _expected()}
        if faults:
            worker, why = next(iter(faults.items()))
            raise BadInputError(f"worker {worker}: {why}")
        yield client, sum(threads.values()), all(walled for _, walled in said.values())


def _expected() -> str:
    return f"grader {__version__} {fingerprint()}"


def _describe_worker(trust: bool) -> tuple[str, bool]:
    """In a worker: say which grader it is, or why it cannot grade, and if its rooms are walled."""
    try:
        here = _Here.get(trust)
    except (BadInputError, HostError) as error:
        return str(error), False
    return _expected(), here.host.walled


def remote(client: Any, parcel: Parcel, limits: Limits, *, trust: bool) -> Perform:
    """Return what does a job on the cluster."""
    # A task, not scattered data: the scheduler can do it again when the workers that held it die.
    sent = client.submit(_hand_on, parcel, pure=False)

    def do(job: Job) -> list[Transcript]:
        fault: Exception | None = None
        for _ in range(1 + RETRIES):
            future = client.submit(
                _perform_there, job, sent, limits, trust, pure=False, retries=RETRIES
            )
            try:
                found: list[Transcript] = future.result()
                return found
            except HostError:
                raise
            except Exception as error:  # whatever a cluster fails with is no notebook's fault
                fault = error
        raise HostError(f"the cluster failed: {type(fault).__name__}: {fault}") from fault

    return do


def _hand_on(parcel: Parcel) -> Parcel:
    return parcel


def _perform_there(job: Job, parcel: Parcel, limits: Limits, trust: bool) -> list[Transcript]:
    here = _Here.get(trust)
    return perform(job, Start(here.places(parcel), limits), here.host, threading.Event())


class _Here:
    """What one worker process keeps between jobs: a warm process and unpacked parcels."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _kept: ClassVar[dict[bool, _Here]] = {}

    def __init__(self, trust: bool) -> None:
        stack = ExitStack()  # closed when the worker's process ends
        self.host: Host
        if trust:
            self.host, _ = stack.enter_context(walled_or_trusted_host())
        else:
            self.host = stack.enter_context(walled_host())
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kv-capacity-")))
        self._places: dict[str, Places] = {}
        self._stack = stack

    @classmethod
    def get(cls, trust: bool) -> _Here:
        with cls._lock:
            if trust not in cls._kept:
                cls._kept[trust] = cls(trust)
            return cls._kept[trust]

    def places(self, parcel: Parcel) -> Places:
        with self._lock:
            if parcel.name not in self._places:
                folder = Path(tempfile.mkdtemp(dir=self._folder))
                self._places[parcel.name] = parcel.unpack(folder)
            return self._places[parcel.name]
