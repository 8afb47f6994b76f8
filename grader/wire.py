"""The form of an answer between the student's process and the judge: strict JSON or plain arrays.

`pack` runs beside the student's code and only ever simplifies: whatever it sends is read again by
`unpack`, which trusts nothing. No pickle, no NaN tokens, no duplicate keys, bounded size and depth.

What cannot be sent spoils no more of a dict than the key it lies at: there it arrives as a
`Problem` that names it, and whoever reads another key never meets it.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd

from milestones.spec import Problem, Returns

MAX_BYTES = 32 * 2**20  # the largest honest answer is 4,000 x 4 float64, 128 KB
MAX_JSON = 2**20  # the largest honest dict is a few KB; a MB is read in a tenth of a second
MAX_DEPTH = 20
MAX_ITEMS = 200_000
MAX_TEXT = 20_000
MAX_INT_BITS = 1_000  # every honest count fits in 64; a longer one is a mistake, still shown
UNSENT = "\0"  # the one key of a dict that stands for what could not be sent
UNSENT_IN_JSON = b"\\u0000"
MAX_UNSENT = 100  # characters of what it is instead

PackedAnswer = tuple[str, bytes]
"""The form (`json`, `npy` or `none`) and the bytes of an answer."""


class UnsendableError(Exception):
    """A return value that is not what was asked for; the message completes 'returned ...'.

    `what` names it alone, without what was `expected` in its place.
    """

    def __init__(self, what: str, expected: str = "") -> None:
        """Both make the message."""
        super().__init__(f"{what} where {expected} was expected" if expected else what)
        self.what = what


class _BeyondBoundsError(UnsendableError):
    """It is too much as a whole, whatever its parts are."""


# ---------------------------------------------------------------- beside the student's code


def pack(value: Any, returns: Returns, columns: tuple[str, ...] = ()) -> PackedAnswer:
    """Turn a return value into bytes in the form that was asked for.

    Raises:
        UnsendableError: the value has another form; the message says what it is.
    """
    match returns:
        case "kept":
            return "none", b""
        case "array":
            return "npy", _npy(_float_array(value))
        case "array_and_kept":
            return "npy", _npy(_float_array(_pair(value)[0]))
        case "columns":
            return "npy", _npy(_float_columns(value, columns))
        case _:
            text = json.dumps(_plain(value, "", [MAX_ITEMS]), allow_nan=False)
            raw = text.encode("utf-8", "backslashreplace")
            if len(raw) > MAX_JSON:
                raise UnsendableError(f"{len(raw) / 1e6:.1f} MB of values, far beyond the question")
            return "json", raw


def _pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, tuple | list) and len(value) == 2:
        return value[0], value[1]
    raise UnsendableError(f"{_kind(value)} where a pair was expected")


def _float_columns(value: Any, columns: tuple[str, ...]) -> np.ndarray:
    if not isinstance(value, pd.DataFrame):
        raise UnsendableError(f"{_kind(value)} where a DataFrame was expected")
    missing = [name for name in columns if name not in value.columns]
    if missing:
        has = ", ".join(map(str, value.columns[:12]))
        raise UnsendableError(f"a DataFrame without {', '.join(missing)}; its columns are {has}")
    return np.column_stack([_float_array(value[name]) for name in columns])


def _float_array(value: Any) -> np.ndarray:
    if isinstance(value, pd.Series):
        value = _in_row_order(value).to_numpy()
    if isinstance(value, pd.DataFrame | pd.Index):
        value = value.to_numpy()
    if not isinstance(value, np.ndarray | list | tuple):
        raise UnsendableError(f"{_kind(value)} where an array was expected")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise UnsendableError("a ragged list where an array was expected") from None
    if array.dtype.kind == "c":
        raise UnsendableError("an array of complex numbers")
    numeric = array.dtype.kind in "biuf" or (
        array.dtype.kind == "O" and all(isinstance(item, Real | Decimal) for item in array.flat)
    )
    if not numeric:
        raise UnsendableError(f"an array of {array.dtype} where numbers were expected")
    if array.nbytes > MAX_BYTES:
        raise UnsendableError(f"an array of {array.nbytes / 1e6:,.0f} MB, far beyond the question")
    try:
        return np.array(array, dtype=np.float64, order="C", copy=True, subok=False)
    except (ValueError, TypeError, OverflowError):
        raise UnsendableError("an array that holds something other than numbers") from None


def _in_row_order(series: pd.Series[Any]) -> pd.Series[Any]:
    # A Series knows which row each value belongs to: sorting the rows inside a function and
    # returning a Series is right in pandas, so the labels decide when they are those of the rows.
    if series.index.is_unique and set(series.index) == set(range(len(series))):
        return series.sort_index()
    return series


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _plain(value: Any, where: str, budget: list[int], depth: int = 0) -> Any:
    """Return `value` in Python's own JSON types; `where` is the path to it for messages."""
    budget[0] -= 1
    if budget[0] < 0:
        raise _BeyondBoundsError(f"more than {MAX_ITEMS:,} values")
    if depth > MAX_DEPTH:
        raise _BeyondBoundsError(f"a value nested more than {MAX_DEPTH} deep")
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, Integral):
        number = int(value)
        if number.bit_length() > MAX_INT_BITS:
            raise UnsendableError(f"a whole number of {number.bit_length():,} bits{where}")
        return number
    if isinstance(value, Real | Decimal | Fraction):
        real = float(value)
        if not math.isfinite(real):
            raise UnsendableError(f"{real}{where}", "a finite number")
        return real
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise UnsendableError(f"a text of {len(value):,} characters{where}")
        return str(value)
    if isinstance(value, pd.Series):
        value = value.to_dict()
    if isinstance(value, Mapping):
        plain = {}
        for key, item in value.items():
            name = str(key)
            if name in plain:
                raise UnsendableError(f"a dict with the key {name!r} twice{where}")
            plain[name] = _item(item, budget, depth + 1)
        return {_sent_key(name): item for name, item in plain.items()}
    if isinstance(value, list | tuple | np.ndarray | pd.Index):
        if len(value) > budget[0]:
            raise _BeyondBoundsError(f"more than {MAX_ITEMS:,} values")
        return [
            _plain(item, f" at [{i}]{where}", budget, depth + 1) for i, item in enumerate(value)
        ]
    raise UnsendableError(f"{_kind(value)}{where}")


def _sent_key(name: str) -> str:
    """Return a key as it is sent: one that is all NUL has one more, so that none is `UNSENT`."""
    return name + UNSENT if name and not name.strip(UNSENT) else name


def _item(value: Any, budget: list[int], depth: int) -> Any:
    """Return an item of a dict in JSON types; in place of what cannot be sent, what it is."""
    try:
        return _plain(value, "", budget, depth)
    except _BeyondBoundsError:
        raise
    except UnsendableError as error:
        if depth == MAX_DEPTH:  # what it is would lie one deeper
            raise _BeyondBoundsError(f"{error.what}, nested {MAX_DEPTH} deep") from None
        return {UNSENT: _plain(error.what[:MAX_UNSENT], "", budget)}


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, complex):
        return "a complex number"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


# ---------------------------------------------------------------- beside the judge


_NPY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00.."
    rb"\{'descr': '" + re.escape(np.dtype(np.float64).str.encode()) + rb"', "
    rb"'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>|[0-9]{1,19},|[0-9]{1,19}(?:, [0-9]{1,19})+)\), \} *\n",
    re.DOTALL,
)
"""What `np.save` writes before the numbers of a float64 array."""


class MalformedError(Exception):
    """Bytes that no honest `pack` wrote; the message completes 'the answer is ...'."""


def form_of(returns: Returns) -> str:
    """Return the form that an answer to such a call travels in."""
    match returns:
        case "kept":
            return "none"
        case "array" | "array_and_kept" | "columns":
            return "npy"
        case _:
            return "json"


def unpack(form: str, data: bytes) -> Any:
    """Read an answer's bytes: JSON with no liberties, or one float64 array.

    Raises:
        MalformedError: the bytes are anything else.
    """
    if len(data) > MAX_BYTES:
        raise MalformedError(f"{len(data) / 1e6:.0f} MB long")
    if form == "none" and not data:
        return None
    if form == "json":
        if len(data) > MAX_JSON:
            raise MalformedError(f"{len(data) / 1e6:.1f} MB of JSON")
        value = strict_json(data)
        return _with_problems(value) if UNSENT_IN_JSON in data else value
    if form == "npy":
        return _strict_array(data)
    raise MalformedError("of no form the grader asked for")


def strict_json(data: bytes) -> Any:
    """Read JSON of no NaN, infinity, key twice, lone surrogate, and nothing beyond the bounds.

    Raises:
        MalformedError: it is not such JSON.
    """
    try:
        text = data.decode("utf-8")
        value = json.loads(
            text, parse_constant=_refuse, parse_int=_bounded, object_pairs_hook=_unique
        )
        json.dumps(value, allow_nan=False).encode()
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # a lone surrogate fails here
        _refuse_beyond_bounds(value)
    except (ValueError, RecursionError):
        raise MalformedError("not strict JSON") from None
    return value


def _with_problems(value: Any, *, is_item: bool = False) -> Any:
    """Return JSON with a problem in place of each item of a dict that could not be sent.

    Raises:
        MalformedError: such a place is anywhere else, or says more than what is instead.
    """
    if isinstance(value, list):
        return [_with_problems(item) for item in value]
    if not isinstance(value, dict):
        return value
    if UNSENT not in value:
        items = {key: _with_problems(item, is_item=True) for key, item in value.items()}
        return {key if key.strip(UNSENT) else key[1:]: item for key, item in items.items()}
    what = value[UNSENT]
    if not is_item or len(value) > 1 or not isinstance(what, str) or len(what) > MAX_UNSENT:
        raise MalformedError("not strict JSON")
    return Problem(what)


def as_sent(value: Any) -> Any:
    """Return a value that was read as the JSON it was read from."""
    if isinstance(value, Problem):
        return {UNSENT: value.summary}
    if isinstance(value, dict):
        return {_sent_key(key): as_sent(item) for key, item in value.items()}
    return [as_sent(item) for item in value] if isinstance(value, list) else value


def _refuse_beyond_bounds(value: Any) -> None:
    """Refuse what `_plain` never sends: too deep, too many values, or too long a text."""
    level, n_values = [value], 0
    for _depth in range(MAX_DEPTH + 1):
        n_values += len(level)
        if n_values > MAX_ITEMS or any(isinstance(v, str) and len(v) > MAX_TEXT for v in level):
            raise ValueError("beyond the bounds of an answer")
        level = [
            item
            for inner in level
            if isinstance(inner, dict | list)
            for item in (inner.values() if isinstance(inner, dict) else inner)
        ]
        if not level:
            return
    raise ValueError("too deep")


def _refuse(token: str) -> NoReturn:
    raise ValueError(token)


def _bounded(digits: str) -> int:
    number = int(digits)
    if number.bit_length() > MAX_INT_BITS:
        raise ValueError("a number without end")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _strict_array(data: bytes) -> np.ndarray:
    # numpy's own reader takes more than `pack` writes: it evaluates the header, warns of it, and
    # believes its shape before it has seen as many bytes.
    header = _NPY_HEADER.match(data)
    if header is None:
        raise MalformedError("not one float64 array in .npy form")
    order: Literal["C", "F"] = "F" if header["fortran"] == b"True" else "C"
    shape = tuple(int(part) for part in header["shape"].split(b",") if part)
    body = data[header.end() :]
    if len(body) != 8 * math.prod(shape):
        raise MalformedError("an array of another size than it says")
    try:
        return np.frombuffer(body, dtype=np.float64).reshape(shape, order=order).copy()
    except (ValueError, OverflowError):  # no array can have such dimensions
        raise MalformedError("an array of no possible shape") from None
