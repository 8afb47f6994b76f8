"""The memory of a GPU, by the name that people use, from data/catalog/gpus.csv."""

from __future__ import annotations

import csv
from dataclasses import dataclass

from solutions.capacity.refusal import ConfigRefusedError
from solutions.world.gpus import GPU_CATALOG


@dataclass(frozen=True)
class Gpu:
    """A GPU's name in the catalog and its memory in decimal GB."""

    name: str
    memory_gb: float


def gpu_named(name: str) -> Gpu:
    """Return the GPU of that name; `H100` will do while all of that class have the same memory."""
    with GPU_CATALOG.open(encoding="utf-8", newline="") as file:
        known = [Gpu(row["gpu"], float(row["gpu_memory_gb"])) for row in csv.DictReader(file)]
    wanted = name.casefold()
    exact = [gpu for gpu in known if gpu.name.casefold() == wanted]
    begun = [gpu for gpu in known if gpu.name.casefold().startswith(f"{wanted}-")]
    meant = exact or sorted(begun, key=lambda gpu: len(gpu.name))
    if not meant:
        raise ConfigRefusedError(
            ["gpu"], f"{name!r} is not in the catalog: {', '.join(gpu.name for gpu in known)}"
        )
    if len({gpu.memory_gb for gpu in meant}) > 1:
        names = ", ".join(gpu.name for gpu in meant)
        raise ConfigRefusedError(
            ["gpu"], f"{name!r} is one of several with different memory: {names}"
        )
    return meant[0]
