"""Layers that read the keys and values of a layer before them and keep none of their own."""

from __future__ import annotations

from collections.abc import Sequence

from solutions.capacity.plans import trimmed
from solutions.capacity.reader import Reader


def shared_with(reader: Reader, kinds: Sequence[str]) -> list[int | None]:
    """Return for each layer the layer whose cache it reads; None where it has its own."""
    last = reader.whole("num_kv_shared_layers", least=0) or 0
    sources = reader.listed("kv_source_layers")
    if sources is not None:
        return _listed(reader, sources)
    if last >= len(kinds):
        reader.refuse(
            ["num_kv_shared_layers"], f"{last} of {len(kinds)} layers: none is left to read from"
        )
    first_shared = len(kinds) - last
    owners: list[int | None] = [None] * first_shared
    for i in range(first_shared, len(kinds)):
        same = [j for j in range(first_shared) if kinds[j] == kinds[i]]
        if not same:
            reader.refuse(
                ["num_kv_shared_layers"], f"no layer before {first_shared} is of layer {i}'s kind"
            )
        owners.append(same[-1])
    return owners


def _listed(reader: Reader, sources: list[object]) -> list[int | None]:
    key = "kv_source_layers"
    owners: list[int | None] = []
    for i, source in enumerate(trimmed(reader, key, sources)):
        owner = reader.checked(key, source, 0, i)
        if owner != i and owners[owner] is not None:
            reader.refuse([key], f"layer {i} reads layer {owner}, which has no cache of its own")
        owners.append(None if owner == i else owner)
    return owners
