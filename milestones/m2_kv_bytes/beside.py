"""Milestone 2's answers beside the right ones, with the quantities that a slip may be made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from milestones.compare import is_number, numbers_beside, right_number
from milestones.compared import Compared, of_cases
from milestones.m2_kv_bytes.keys import HEAD_SIZE, KV_HEADS, LAYERS, QUERY_HEADS, WIDTH
from milestones.spec import Answers, Compare, Files, ReadTable

TRUTH = "m2_kv_bytes/answers.json"
IN_BYTES = "bytes"
OF_A_RUN = ("n_layers", "n_kv_heads", "head_dim", "kv_bits", "n_heads", "hidden_size", "batch_size")
SPELLINGS = {
    "the layers": LAYERS,
    "the query heads": QUERY_HEADS,
    "the KV heads": (*KV_HEADS, *QUERY_HEADS),  # as many, where a file names none
    "the head size": HEAD_SIZE,
    "the width": WIDTH,
}


def shapes(topic: str) -> Compare:
    """Compare answers about shapes; their arguments are the quantities."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        return [numbers_beside(answers.under(topic), truth.json(TRUTH))]

    return compare


def runs(answers: Answers, truth: Files, read_table: ReadTable) -> list[Compared]:
    """Compare the bytes of every run; the columns of its row are the quantities."""
    table = read_table("questions/runs.csv")
    return [
        Compared(
            np.asarray(answers.value("runs")),
            truth.arrays("m2_kv_bytes/runs.npz")["kv_bytes"].astype(np.float64),
            {name: table[name].to_numpy(dtype=np.float64) for name in OF_A_RUN},
            rows=True,
            of_row=OF_A_RUN[:4],
        )
    ]


def configs(topic: str) -> Compare:
    """Compare answers about config files; what their keys name are the quantities."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        expected = truth.json(TRUTH)
        asked = list(answers.under(topic))
        return [
            of_cases(
                (one.value, right_number(expected[one.call.id]), _quantities(one.call.args))
                for one in asked
            )
        ]

    return compare


def _quantities(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a question's config names, by any of its spellings, and its own numbers."""
    config = args["config"].get("text_config") or args["config"]
    named = {
        what: next((config[key] for key in keys if is_number(config.get(key))), None)
        for what, keys in SPELLINGS.items()
    }
    return {**named, **{key: value for key, value in args.items() if key != "config"}}
