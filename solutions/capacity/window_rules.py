"""Plans of layers that attend: to everything, within a window, or within a chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from solutions.capacity.plans import LayerPlan, Rule, n_layers, trimmed, windows_off
from solutions.capacity.reader import MOST_LAYERS, Reader, shown


def everywhere(kind: str, rule: str) -> Rule:
    """Return the rule by which every layer is of one kind."""

    def plan(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
        windows_off(reader)
        return LayerPlan((kind,) * n_layers(reader), rule, ())

    return plan


def _window(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    if windows_off(reader):
        return LayerPlan(("full",) * count, "no sliding_window is set", ("sliding_window",))
    reader.flag("use_sliding_window")
    return LayerPlan(("sliding",) * count, "every layer has the window", ("sliding_window",))


def _window_tail(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    if windows_off(reader):
        keys = ("use_sliding_window", "sliding_window")
        return LayerPlan(("full",) * count, "the window is switched off", keys)
    reader.flag("use_sliding_window")
    reader.given("sliding_window")
    first = reader.whole("max_window_layers", least=0)
    if first is None:
        reader.refuse(["max_window_layers"], "missing: it says from which layer on windows apply")
    return LayerPlan(
        tuple("sliding" if i >= first else "full" for i in range(count)),
        "the first max_window_layers layers attend to everything, the others have the window",
        ("max_window_layers", "use_sliding_window"),
    )


def _window_alternate(reader: Reader, args: Sequence[str]) -> LayerPlan:
    if not windows_off(reader):
        reader.refuse(
            ["use_sliding_window"],
            "on: transformers and vLLM window different layers of this architecture; switch it off",
        )
    return _window_tail(reader, args)


def _period(full_at: Callable[[int, int, int], bool], rule: str) -> Rule:
    def plan(reader: Reader, args: Sequence[str]) -> LayerPlan:
        other, key = args
        count = n_layers(reader)
        period: Any = reader.raw(key)
        if isinstance(period, str):
            return _lettered(reader, key, period, count)
        every = reader.whole(key)
        if other != "sliding":
            windows_off(reader)
        elif reader.states("sliding_window") and windows_off(reader):
            return LayerPlan(("full",) * count, "no sliding_window is set", ("sliding_window",))
        if every is None:
            reader.refuse([key], "missing: it says which layers attend to everything")
        return LayerPlan(
            tuple("full" if full_at(i, count, every) else other for i in range(count)),
            f"{rule.format(every=every)} attend to everything",
            (key,),
        )

    return plan


def _lettered(reader: Reader, key: str, pattern: str, count: int) -> LayerPlan:
    letters = {"L": "sliding", "G": "full"}
    if not pattern or len(pattern) > MOST_LAYERS or not set(pattern) <= set(letters):
        reader.refuse([key], f"expected letters L (window) and G (global), got {shown(pattern)}")
    kinds = tuple(letters[pattern[i % len(pattern)]] for i in range(count))
    return LayerPlan(kinds, f"{key} repeats: L has the window, G attends to everything", (key,))


def _rope_chunks(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    if reader.raw("attention_chunk_size") is None:
        return LayerPlan(("full",) * count, "no attention_chunk_size", ("attention_chunk_size",))
    return LayerPlan(
        tuple("chunked" if rope else "full" for rope in _ropes(reader, count)),
        "layers with rotary positions attend within a chunk, those without to everything",
        ("no_rope_layers",),
    )


def _rope_window(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    ropes = _ropes(reader, count)
    if windows_off(reader) or not reader.flag("use_sliding_window"):
        return LayerPlan(("full",) * count, "the window is off", ("use_sliding_window",))
    reader.given("sliding_window")
    kinds = tuple("full" if rope else "sliding" for rope in ropes)
    return LayerPlan(kinds, "layers without rotary positions have the window", ("no_rope_layers",))


def _ropes(reader: Reader, count: int) -> list[int]:
    key = "no_rope_layers"  # in it 1 says that the layer has rotary positions
    entries = reader.listed(key)
    if entries is None:
        every = reader.need("no_rope_layer_interval", ["no_rope_layer_interval"]).value
        return [int((i + 1) % every != 0) for i in range(count)]
    return [reader.checked(key, entry, 0, 1) for entry in trimmed(reader, key, entries)]


def _global_local(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    key, total = "attention_types", 0
    for entry in reader.listed(key) or []:
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], list)):
            reader.refuse([key], f"expected [kinds, repeats], got {shown(entry)}")
        if not set(map(str, entry[0])) <= {"global", "local"}:
            reader.refuse([key], f"unknown kinds {shown(entry[0])}")
        total += len(entry[0]) * reader.checked(key, entry[1])
    if total not in (0, count):
        reader.refuse([key], f"it covers {total:,} layers, the model has {count:,}")
    rule = "local layers mask what they attend to, but their cache keeps every token"
    return LayerPlan(("full",) * count, rule, (key,))


def _flags(reader: Reader, args: Sequence[str]) -> LayerPlan:
    (key,) = args
    flags = reader.listed(key)
    reader.given("attention_chunk_size")  # MiMo states one that its layers do not use
    if flags is None:
        reader.refuse(["layer_types", key], "missing: it says which layers have the window")
    flags = trimmed(reader, key, flags)
    kinds = tuple("sliding" if reader.checked(key, flag, 0, 1) else "full" for flag in flags)
    return LayerPlan(kinds, f"{key}: 1 has the window, 0 attends to everything", (key,))


WINDOW_RULES: dict[str, Rule] = {
    "full": everywhere("full", "every layer attends to everything"),
    "states": everywhere("state", "every layer keeps a state and no keys and values"),
    "both": everywhere("both", "every layer has attention and a state side by side"),
    "window": _window,
    "window_tail": _window_tail,
    "window_alternate": _window_alternate,
    "period": _period(
        lambda i, _, every: (i + 1) % every == 0, "every {every}th layer and no other"
    ),
    "period_first": _period(lambda i, _, every: i % every == 0, "the first of each {every} layers"),
    "period_back": _period(
        lambda i, n, every: (n - 1 - i) % every == 0, "every {every}th layer from the last one"
    ),
    "period_last": _period(
        lambda i, n, every: (i + 1) % every == 0 or i == n - 1,
        "every {every}th layer and the last one",
    ),
    "period_rest": _period(
        lambda i, n, every: (i + 1) % every == 0 or i >= n // every * every,
        "every {every}th layer and what is left behind the last {every}",
    ),
    "rope_chunks": _rope_chunks,
    "rope_window": _rope_window,
    "global_local": _global_local,
    "flags": _flags,
}
"""By the first word of the `plan` column of model_types.csv."""
