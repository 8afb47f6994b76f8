"""The facts about model types that no config file holds, read from the CSV files beside this."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

HERE = Path(__file__).parent
MODEL_TYPES = HERE / "model_types.csv"
CLASS_DEFAULTS = HERE / "class_defaults.csv"  # written by collect.py
CLASS_CONSTANTS = HERE / "class_constants.csv"  # what a class sets in its code, written by hand


@dataclass(frozen=True)
class Family:
    """How the class behind a `model_type` spends its layers when the file does not spell it out.

    `plan` names a rule of `layer_plan.py` or `special.py`, `state` one of `states.py`, `text` the
    type of a wrapper's text section that does not name its own, `defaults` the type whose class
    defaults apply, `mlp` how a feed-forward block is built (`gated`, `plain`, or
    empty: the weights cannot be counted).
    """

    model_type: str
    plan: str
    state: str
    text: str
    defaults: str
    mlp: str
    source: str


@dataclass(frozen=True)
class Default:
    """What a class takes for a key that the file does not have."""

    value: Any
    source: str


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def families() -> MappingProxyType[str, Family]:
    """Give every known model type."""
    rows = _rows(MODEL_TYPES)
    known = {
        row["model_type"]: Family(**{**row, "defaults": row["defaults"] or row["model_type"]})
        for row in rows
    }
    if len(known) != len(rows):
        raise ValueError(f"{MODEL_TYPES}: a model type stands there twice")
    return MappingProxyType(known)


@cache
def class_defaults() -> MappingProxyType[tuple[str, str], Default]:
    """Give what each class defaults, by (model_type, key); values are JSON."""
    return MappingProxyType(
        {
            (row["model_type"], row["key"]): Default(json.loads(row["value"]), row["source"])
            for path in (CLASS_DEFAULTS, CLASS_CONSTANTS)
            for row in _rows(path)
        }
    )
