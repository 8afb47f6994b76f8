"""An instructor's own labelled runs: read, checked, and parted into training and test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from grader.errors import BadInputError
from milestones.runs import COLUMNS, TEXT

MIN_RUNS = 400  # below this a test part of a quarter cannot place a MAPE to a tenth of a bar
TEST_SHARE = 0.25
LABEL_RTOL = 0.01  # tokens_per_s against 1000 batch_size / decode_step_ms: rounding, not units


@dataclass(frozen=True)
class OwnRuns:
    """Runs given instead of drawn ones: the split is about `test`.

    `train` is what model milestones train on; None leaves them the public training runs.
    """

    test: pd.DataFrame
    train: pd.DataFrame | None = None


def read_runs(path: Path) -> OwnRuns:
    """Read labelled runs in the schema of the course's runs table, and part them.

    About half of the test part are runs of models that the training part does not hold, as in the
    course's own splits. The parting depends on the rows alone.

    Raises:
        BadInputError: the file is missing, or a column or a row is not what the schema says.
    """
    try:
        runs = pd.read_csv(path, dtype=dict.fromkeys(TEXT, str))
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: cannot be read as a CSV: {error}") from None
    missing = [name for name in COLUMNS if name not in runs.columns]
    if missing:
        raise BadInputError(f"{path}: has no column {', '.join(missing)}; see data/README.md")
    runs = runs[list(COLUMNS)]
    _check_rows(path, runs)
    return _part(runs)


def _check_rows(path: Path, runs: pd.DataFrame) -> None:
    if len(runs) < MIN_RUNS:
        raise BadInputError(f"{path}: has {len(runs)} runs; at least {MIN_RUNS} are needed")
    if runs["run_id"].duplicated().any():
        twice = runs.loc[runs["run_id"].duplicated(), "run_id"].iloc[0]
        raise BadInputError(f"{path}: run_id {twice!r} stands there twice; make each one unique")
    for name in COLUMNS:
        column = runs[name]
        if name in TEXT:
            bad = column.isna()
        else:
            numbers = pd.to_numeric(column, errors="coerce")
            bad = ~(np.isfinite(numbers) & (numbers > 0))
        if bad.any():
            line = int(np.argmax(bad.to_numpy())) + 2  # the header is line 1
            expected = "a text" if name in TEXT else "a positive number"
            raise BadInputError(
                f"{path}, line {line}: {name} is {column[bad].tolist()[0]!r}, expected {expected}"
            )
    implied = 1000 * runs["batch_size"] / runs["decode_step_ms"]
    off = (runs["tokens_per_s"] / implied - 1).abs() > LABEL_RTOL
    if off.any():
        line = int(np.argmax(off.to_numpy())) + 2
        raise BadInputError(
            f"{path}, line {line}: tokens_per_s and decode_step_ms disagree; tokens_per_s is "
            f"1000 batch_size / decode_step_ms (here {implied[off].iloc[0]:,.6g}); check the units"
        )


def _part(runs: pd.DataFrame) -> OwnRuns:
    rng = np.random.default_rng(0)
    wanted = int(TEST_SHARE * len(runs))
    sizes = runs["model"].value_counts()
    unseen: list[str] = []
    for model in rng.permutation(sorted(sizes.index)):
        if sizes[[*unseen, model]].sum() <= wanted / 2:
            unseen.append(model)
    is_unseen = runs["model"].isin(unseen)
    others = runs.index[~is_unseen]
    also_test = rng.choice(others, size=wanted - int(is_unseen.sum()), replace=False)
    is_test = is_unseen | runs.index.isin(also_test)
    return OwnRuns(
        test=runs[is_test].reset_index(drop=True), train=runs[~is_test].reset_index(drop=True)
    )
