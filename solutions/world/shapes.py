"""Which released shapes the runs use: 40 to train on, 8 to validate on, a pool for hidden sets."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from milestones.runs import SHAPE_COUNTS
from solutions.world.gpus import DATA

MODEL_CATALOG = DATA / "catalog" / "models.csv"
ROLES_FILE = Path(__file__).with_name("shapes.csv")

SHAPE_COLUMNS = ("model", *SHAPE_COUNTS, "params_b")
SIZE_COLUMNS = (
    "n_layers",
    "hidden_size",
    "n_kv_heads",
    "head_dim",
    "intermediate_size",
    "params_b",
)
NEAR_OCTAVES = 0.5  # a shape nearer than this to a public one is too familiar to be unseen
TWIN_COLUMNS = ("n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim")


def read_catalog() -> pd.DataFrame:
    """Read data/catalog/models.csv whole."""
    return pd.read_csv(MODEL_CATALOG)


def shape_columns(models: pd.DataFrame) -> pd.DataFrame:
    """Keep the columns of the runs table that describe a model, and max_context, in tokens."""
    return models[[*SHAPE_COLUMNS, "max_context"]].reset_index(drop=True)


@cache
def _shapes_with_roles() -> pd.DataFrame:
    roles = pd.read_csv(ROLES_FILE)
    return roles.merge(read_catalog(), on="model", how="left", validate="one_to_one")


def shapes_of(role: str) -> pd.DataFrame:
    """Give the shapes of a role, smallest first: train (40), validation (8), pool, twin or near.

    Two further roles are never drawn: a twin has layers, hidden size, heads, KV heads and
    head_dim of one of the 48 public shapes; near lies within NEAR_OCTAVES of one.
    """
    table = _shapes_with_roles()
    return shape_columns(table[table["role"] == role].sort_values("params_b", kind="stable"))


def attention_kind(shapes: pd.DataFrame) -> pd.Series:
    """Name each shape's layout: MHA, MQA or GQA."""
    kind = pd.Series("GQA", index=shapes.index)
    kind[shapes["n_kv_heads"] == 1] = "MQA"
    kind[shapes["n_kv_heads"] == shapes["n_heads"]] = "MHA"
    return kind


def twin_key(shapes: pd.DataFrame) -> pd.Series:
    """Give each shape's five twin columns as one string: equal strings are twins."""
    return shapes[list(TWIN_COLUMNS)].astype(int).astype(str).agg("-".join, axis=1)


def octaves_from_public(shapes: pd.DataFrame) -> pd.Series:
    """Distance of each shape to the nearest of the 48 public ones, in octaves.

    The Euclidean distance of the base-2 logarithms of SIZE_COLUMNS: 1 is a factor of two in one
    of them.
    """
    public = pd.concat([shapes_of("train"), shapes_of("validation")], ignore_index=True)
    apart = _octaves(shapes)[:, None, :] - _octaves(public)[None, :, :]
    return pd.Series(np.sqrt((apart**2).sum(axis=2)).min(axis=1), index=shapes.index)


def _octaves(shapes: pd.DataFrame) -> npt.NDArray[np.float64]:
    return np.asarray(np.log2(shapes[list(SIZE_COLUMNS)].to_numpy(dtype=np.float64)))
