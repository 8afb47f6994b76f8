"""Messages on a pipe: a length, a small JSON header, and the bytes the header announces."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct(">I")
MAX_HEADER = 2**20


class BrokenPipeTalkError(Exception):
    """The other side closed the pipe or wrote something that is no message."""


def write_frame(pipe: BinaryIO, header: dict[str, Any], payload: bytes = b"") -> None:
    """Write one message and flush it."""
    head = json.dumps({**header, "size": len(payload)}).encode("utf-8")
    pipe.write(_LENGTH.pack(len(head)) + head + payload)
    pipe.flush()


def read_frame(pipe: BinaryIO, max_payload: int) -> tuple[dict[str, Any], bytes]:
    """Read one message.

    Raises:
        BrokenPipeTalkError: the pipe ended, or what came is not a message within its bounds.
    """
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    if length > MAX_HEADER:
        raise BrokenPipeTalkError("a header beyond its bound")
    try:
        header = json.loads(_exactly(pipe, length).decode("utf-8"))
        size = header["size"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BrokenPipeTalkError("a header that is not JSON") from None
    if not isinstance(size, int) or not 0 <= size <= max_payload:
        raise BrokenPipeTalkError("a payload beyond its bound")
    return header, _exactly(pipe, size)


def _exactly(pipe: BinaryIO, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = pipe.read(size - len(data))
        if not piece:
            raise BrokenPipeTalkError("the pipe ended")
        data += piece
    return data
