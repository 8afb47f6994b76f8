"""Why a request is refused: which field, what came, and what was expected there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from grader.serve.workload import Workload
from grader.trouble import printable
from milestones.compare import shown

MAX_SHOWN = 60  # characters of what was sent that are told back
MAX_REASONS = 20  # a hundred wrong fields have one cause
NO_JSON = "the body is no JSON that can be read; send a workload as application/json"
_UNREADABLE = ("json_invalid", "model_attributes_type", "dict_type")


def reasons(errors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return pydantic's errors about a workload as a person reads them.

    Each has pydantic's own `loc`, `msg` and `type`, and besides `field` (as `gpus[0].gpu`), `got`
    and `expected`, both in words.
    """
    return [_reason(error) for error in errors[:MAX_REASONS]]


def sentence(told: Sequence[Mapping[str, Any]]) -> str:
    """Return all reasons as one line of text."""
    return "; ".join(_in_words(each) for each in told)


def _in_words(told: Mapping[str, Any]) -> str:
    if told["expected"]:
        return f"{told['field']}: got {told['got']}, expected {told['expected']}"
    return f"{told['field']}: {told['msg']}" if told["field"] else str(told["msg"])


def _reason(error: Mapping[str, Any]) -> dict[str, Any]:
    loc = [part for part in error["loc"] if part != "body"]
    kind, msg = str(error["type"]), str(error["msg"]).removeprefix("Value error, ")
    told: dict[str, Any] = {"loc": list(error["loc"]), "msg": printable(msg), "type": kind}
    told |= {"field": field_name(loc), "got": "nothing", "expected": ""}
    if kind in _UNREADABLE and not any(isinstance(part, str) for part in loc):
        return told | {"field": "", "msg": NO_JSON}
    if kind == "extra_forbidden":
        known = ", ".join(_properties(loc[:-1]))
        return told | {"msg": f"is not a field of a workload; there are: {known}"}
    if kind != "missing":
        told["got"] = _shown(error.get("input"))
    if kind != "value_error":
        told["expected"] = expected(loc)
    return told


def field_name(loc: Sequence[str | int]) -> str:
    """Return where a field lies, as a person writes it: `gpus[0].usd_per_hour`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return printable("".join(parts).lstrip(".")[:MAX_SHOWN])


def expected(loc: Sequence[str | int]) -> str:
    """Return what belongs into a field, from the schema that describes the requests."""
    node = _node(loc)
    if node is None:
        return ""
    about = node.get("description", "")
    about = f": {about}" if about and node.get("type") in ("integer", "number", "string") else ""
    if "enum" in node:
        *first, last = (str(value) for value in node["enum"])
        return f"{', '.join(first)} or {last}: {node['description']}"
    match node.get("type"):
        case "integer":
            what = f"a whole number from {node['minimum']:,} to {node['maximum']:,}"
        case "number":
            what = f"a number above {node['exclusiveMinimum']:g}, at most {shown(node['maximum'])}"
        case "string":
            what = f"a text of {node['minLength']} to {node['maxLength']} characters"
        case "array":
            what = f"a list of {node['minItems']} to {node['maxItems']} objects"
        case _:
            what = f"an object with {', '.join(node['properties'])}"
    return what + about


def _properties(loc: Sequence[str | int]) -> list[str]:
    node = _node(loc)
    return list(node.get("properties", ())) if node else []


def _node(loc: Sequence[str | int]) -> dict[str, Any] | None:
    """Return the schema of a field; None where there is no such field."""
    node: dict[str, Any] = _schema()
    for part in loc:
        below = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
        if below is None:
            return None
        name = below.get("$ref", "").rpartition("/")[2]
        node = _schema()["$defs"][name] if name else below
    return node


@cache
def _schema() -> dict[str, Any]:
    return Workload.model_json_schema()


def _shown(value: Any) -> str:
    """Return what was sent, short; an infinity is told in words, which JSON can hold."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text '{printable(value[:MAX_SHOWN])}'"
        case int() if value.bit_length() > 100:
            return "a whole number of more than 30 digits"
        case int() | float():
            return f"{value}"
        case list():
            return f"a list of {len(value)}"
        case _:
            return "an object"
