"""The plan of a model's layers: the kind of each, and the parts that the rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from solutions.capacity.reader import MOST_LAYERS, Reader

LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_transformer_layers")
MORE_LAYERS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
"""Layers that only draft tokens; a list may cover them behind the ordinary ones."""


@dataclass(frozen=True)
class LayerPlan:
    """The kind of each layer, and the rule and keys that said so."""

    kinds: tuple[str, ...]
    rule: str
    keys: tuple[str, ...]


Rule = Callable[[Reader, Sequence[str]], LayerPlan]


def n_layers(reader: Reader, most: int = MOST_LAYERS) -> int:
    """Return the number of decoder layers."""
    found = reader.need("n_layers", LAYERS)
    if found.value > most:
        reader.refuse([found.key.removeprefix(reader.path)], f"more than {most:,} layers")
    return found.value


def trimmed(reader: Reader, key: str, entries: list[Any]) -> list[Any]:
    """Return one entry a layer: those of draft layers go, a wrong length is refused."""
    layers = reader.fact("n_layers", LAYERS)
    if layers is None:
        return entries
    drafts = [reader.whole(more, least=0) or 0 for more in MORE_LAYERS]
    if len(entries) not in {layers.value, layers.value + max(drafts)}:
        reader.refuse(
            [key, layers.key.removeprefix(reader.path)],
            f"{len(entries):,} entries for {layers.value:,} layers",
        )
    return entries[: layers.value]


def windows_off(reader: Reader) -> bool:
    """Tell whether the file's window is switched off, and account for the keys that do it."""
    window = reader.raw("sliding_window")
    if window in (None, 0, False) or reader.flag("use_sliding_window") is False:
        for key in ("use_sliding_window", "max_window_layers"):
            reader.given(key)
        return True
    reader.seen.discard("sliding_window")  # only a rule that uses it may call it read
    reader.seen.discard("use_sliding_window")
    return False


def index_set(
    reader: Reader, key: str, entries: list[Any] | None, count: int, first: int = 0
) -> frozenset[int]:
    """Return layer numbers counted from 0 out of a list that counts from `first`."""
    if entries is None:
        reader.refuse([key], "missing: it lists layers by number")
    numbers = [reader.checked(key, entry, first, count - 1 + first) - first for entry in entries]
    if len(set(numbers)) != len(numbers):
        reader.refuse([key], "a layer stands there twice")
    return frozenset(numbers)
