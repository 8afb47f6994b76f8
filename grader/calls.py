"""A call as JSON and back, for the way into the student's process."""

from __future__ import annotations

from typing import Any

from milestones.spec import Call, Result, Table, Tree


def call_to_json(call: Call) -> dict[str, Any]:
    """Return a call as JSON types; each argument is tagged with its kind."""
    return {
        "id": call.id,
        "function": call.function,
        "args": {name: _argument_to_json(value) for name, value in call.args.items()},
        "returns": call.returns,
        "columns": list(call.columns),
        "variable": call.variable,
    }


def call_from_json(data: dict[str, Any]) -> Call:
    """Return the call that `call_to_json` wrote."""
    return Call(
        id=data["id"],
        function=data["function"],
        args={name: _argument_from_json(value) for name, value in data["args"].items()},
        returns=data["returns"],
        columns=tuple(data["columns"]),
        variable=data["variable"],
    )


def _argument_to_json(value: Any) -> dict[str, Any]:
    if isinstance(value, Table):
        rows = None if value.rows is None else list(value.rows)
        return {"table": value.path, "rows": rows}
    if isinstance(value, Tree):
        return {"tree": value.path, "pick": list(value.pick)}
    if isinstance(value, Result):
        return {"result": value.call_id, "item": value.item}
    return {"plain": value}


def _argument_from_json(data: dict[str, Any]) -> Any:
    if "table" in data:
        rows = data["rows"]
        return Table(data["table"], None if rows is None else tuple(rows))
    if "tree" in data:
        return Tree(data["tree"], tuple(data["pick"]))
    if "result" in data:
        return Result(data["result"], data["item"])
    return data["plain"]
