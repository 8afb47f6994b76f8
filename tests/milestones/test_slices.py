"""Where a model's error lies is found by slices of the runs, and adds up to the figure judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from milestones.diagnosis import Breakdown
from milestones.figures import mape
from milestones.predicted_steps import cut_the_mape, cut_the_r2
from milestones.runs import LABELS
from milestones.slices import cut_by, where_error_lies
from milestones.spec import Answers, Files
from solutions.lesson import ROOT

RUNS = Files(ROOT / "data").table("validation.csv")
TRAIN = Files(ROOT / "data").table("train.csv")
ACTUAL = RUNS["decode_step_ms"].to_numpy(dtype=float)
CUTS = cut_by(RUNS, TRAIN)


def broken_down(predicted: np.ndarray) -> Breakdown:
    weight = np.abs(predicted - ACTUAL) / ACTUAL
    return where_error_lies(CUTS, predicted, ACTUAL, weight, "Where the error lies")


def off_in(by: str, name: str, factor: float) -> np.ndarray:
    """Return predictions 2 % off everywhere, and by a factor in one slice."""
    sign = np.where(np.arange(len(ACTUAL)) % 2, 1.02, 0.98)
    return ACTUAL * np.where(CUTS[by] == name, factor, sign)


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("GPU", "L40S"),
        ("weights", "4-bit"),
        ("cache", "8-bit"),
        ("attention", "MQA"),
        ("batch", "128 and more"),
        ("context", "8,192 and more"),
        ("model size", "below 1B"),
        ("shape", "not in train"),
    ],
)
def test_the_slice_that_carries_the_error_is_told_first(by: str, name: str) -> None:
    for factor, way in ((0.7, "30% too low"), (1.3, "30% too high")):
        found = broken_down(off_in(by, name, factor))
        assert found.parts[0].by == by
        assert f"Look first at {by} {name}:" in found.told
        assert f"predicted {way} on average" in found.told
        (worst,) = (part for part in found.cuts[by] if part.name == name)
        assert worst.figure == pytest.approx(0.3)
        assert worst.bias == pytest.approx(factor - 1)
        assert worst.share > 0.3


def test_an_even_error_points_at_no_slice() -> None:
    even = ACTUAL * np.where(np.arange(len(ACTUAL)) % 2, 1.1, 0.9)
    assert broken_down(even).told == "No slice stands out: the error is spread over all of them."


def test_slices_hold_every_run_once_and_add_up_to_the_figure() -> None:
    predicted = off_in("GPU", "H200", 0.8)
    found = broken_down(predicted)
    assert set(found.cuts) == set(CUTS)
    for parts in found.cuts.values():
        assert sum(part.count for part in parts) == len(ACTUAL)
        assert sum(part.share for part in parts) == pytest.approx(1)
        total = sum(part.count * (part.figure or 0) for part in parts) / len(ACTUAL)
        assert total == pytest.approx(mape(predicted, ACTUAL))


def test_cuts_follow_the_columns_of_each_run() -> None:
    for mask, by, name in (
        (RUNS["n_kv_heads"] == RUNS["n_heads"], "attention", "MHA"),
        ((RUNS["n_kv_heads"] == 1) & (RUNS["n_heads"] > 1), "attention", "MQA"),
        (RUNS["batch_size"] == 1, "batch", "1"),
        (RUNS["batch_size"].between(2, 7), "batch", "2 to 7"),
        (RUNS["context_len"] < 512, "context", "below 512"),
        (RUNS["context_len"].between(2_048, 8_191), "context", "2,048 to 8,191"),
        ((RUNS["params_b"] >= 4) & (RUNS["params_b"] < 8), "model size", "4 to 8B"),
        (RUNS["kv_bits"] == 8, "cache", "8-bit"),
        (RUNS["model"].isin(TRAIN["model"]), "shape", "in train"),
    ):
        assert mask.any(), name
        assert ((CUTS[by] == name) == mask.to_numpy()).all(), name


def test_ranges_stand_in_their_order() -> None:
    names = [part.name for part in broken_down(off_in("GPU", "H200", 0.8)).cuts["context"]]
    assert names[0] == "below 512"
    assert names[-1] == "8,192 and more"
    assert names == sorted(names, key=lambda name: (name[0] != "b", float(_first(name))))


def _first(name: str) -> str:
    return name.removeprefix("below ").split()[0].replace(",", "")


# ---------------------------------------------------------------- as checks ask for it


@pytest.fixture
def tables(tmp_path: Path) -> Mapping[str, pd.DataFrame]:
    RUNS[["run_id", *LABELS]].to_csv(tmp_path / "runs.csv", index=False)
    questions = RUNS.drop(columns=list(LABELS))
    return {"questions/runs.csv": questions, "data/train.csv": TRAIN}


def test_an_r2_is_cut_by_squared_errors_and_a_mape_by_relative_ones(
    tables: Mapping[str, pd.DataFrame], tmp_path: Path
) -> None:
    predicted = off_in("batch", "128 and more", 1.1)
    truth = Files(tmp_path)
    by_mape = cut_the_mape(lambda _a, _n: predicted)(Answers({}), truth, tables.__getitem__)
    by_r2 = cut_the_r2(lambda _a, _n: predicted)(Answers({}), truth, tables.__getitem__)
    assert by_mape is not None
    assert by_r2 is not None
    share_of = [
        next(p.share for p in cut.cuts["batch"] if p.name == "128 and more")
        for cut in (by_mape, by_r2)
    ]
    assert share_of[0] < 0.6 < 0.95 < share_of[1]


@pytest.mark.parametrize("value", [np.nan, -1.0, 0.0])
def test_predictions_that_are_no_times_are_not_cut(
    tables: Mapping[str, pd.DataFrame], tmp_path: Path, value: float
) -> None:
    cut = cut_the_mape(lambda _a, n: np.full(n, value))
    assert cut(Answers({}), Files(tmp_path), tables.__getitem__) is None
