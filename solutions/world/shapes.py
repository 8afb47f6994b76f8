"""Which released shapes the runs use: 40 to train on, 8 to validate on, a pool for hidden sets."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

from solutions.world.gpus import DATA

MODEL_CATALOG = DATA / "catalog" / "models.csv"
ROLES_FILE = Path(__file__).with_name("shapes.csv")

SHAPE_COLUMNS = (
    "model",
    "n_layers",
    "hidden_size",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "intermediate_size",
    "params_b",
)
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
    """Give the shapes of a role, smallest first: train (40), validation (8), pool or twin.

    A twin has layers, hidden size, heads, KV heads and head_dim of one of the 48 public shapes
    and is therefore never drawn for a hidden set.
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
