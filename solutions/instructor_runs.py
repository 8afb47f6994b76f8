"""An instructor's own labelled runs: read, checked, and parted into training and test."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from grader.errors import BadInputError
from milestones.runs import COLUMNS, SHAPE_COUNTS, TEXT
from milestones.spec import Files
from solutions.lesson import ROOT
from solutions.world.draw import MEMORY_FRACTION, fits, repeats

MIN_RUNS = 400  # below this a test part of a quarter cannot place a MAPE to a tenth of a bar
TEST_SHARE = 0.25
MIN_TESTED = int(TEST_SHARE * MIN_RUNS)
COUNTS = (*SHAPE_COUNTS, "batch_size", "context_len")
BITS = {"weight_bits": (16, 8, 4), "kv_bits": (16, 8)}
LABEL_RTOL = 0.01  # tokens_per_s against 1000 batch_size / decode_step_ms: rounding, not units


@dataclass(frozen=True)
class OwnRuns:
    """Runs given instead of drawn ones: the split is about `test`.

    `train` is what model milestones train on; None leaves them the public training runs.
    `file_sha256` is of the file they were read from, and `dropped` counts the rows that were left
    out of `test` because the public data holds their labels.
    """

    test: pd.DataFrame
    train: pd.DataFrame | None = None
    file_sha256: str = ""
    dropped: int = 0


def without_public(own: OwnRuns, public: pd.DataFrame) -> OwnRuns:
    """Leave out of the test part the rows that ask what a public row answers.

    Raises:
        BadInputError: too few rows are left to test on.
    """
    known = repeats(own.test, public)
    test = own.test[~known].reset_index(drop=True)
    if len(test) < MIN_TESTED:
        raise BadInputError(
            f"--runs: {int(known.sum())} of the {len(known)} runs to test on stand in the public "
            f"data, label aside; at least {MIN_TESTED} others are needed"
        )
    return replace(own, test=test, dropped=int(known.sum()))


def read_own(path: Path) -> OwnRuns:
    """Read and part labelled runs, without the rows to test on that stand in the public data.

    Raises:
        BadInputError: the file does not hold what it must, or too little of it is left.
    """
    data = Files(ROOT / "data")
    public = pd.concat([data.table("train.csv"), data.table("validation.csv")])
    return without_public(read_runs(path), public)


def read_runs(path: Path) -> OwnRuns:
    """Read labelled runs in the schema of the course's runs table, and part them.

    About half of the test part are runs of models that the training part does not hold, as in the
    course's own splits. The parting depends on the rows alone.

    Raises:
        BadInputError: the file is missing, or a column or a row is not what the schema says.
    """
    try:
        content = path.read_bytes()
        runs = pd.read_csv(io.BytesIO(content), dtype=dict.fromkeys(TEXT, str))
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: cannot be read as a CSV: {error}") from None
    missing = [name for name in COLUMNS if name not in runs.columns]
    if missing:
        raise BadInputError(f"{path}: has no column {', '.join(missing)}; see data/README.md")
    runs = runs[list(COLUMNS)]
    _check_rows(path, runs)
    return replace(_part(_typed(runs)), file_sha256=hashlib.sha256(content).hexdigest())


def _typed(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with counts and bits as whole numbers, as in the public data."""
    whole = {name: pd.to_numeric(runs[name]).astype("int64") for name in (*COUNTS, *BITS)}
    return runs.assign(**whole)


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
            if not bad.any() and name in COUNTS:
                bad = numbers % 1 != 0
            if not bad.any() and name in BITS:
                bad = ~numbers.isin(BITS[name])
        if bad.any():
            raise BadInputError(
                f"{path}, line {_line(bad.to_numpy())}: {name} is {column[bad].tolist()[0]!r}, "
                f"expected {_expected(name)}"
            )
    ungrouped = (runs["n_heads"] % runs["n_kv_heads"] != 0).to_numpy()
    if ungrouped.any():
        run = runs[ungrouped].iloc[0]
        raise BadInputError(
            f"{path}, line {_line(ungrouped)}: n_heads is {run['n_heads']:g}, expected a multiple "
            f"of n_kv_heads, {run['n_kv_heads']:g}"
        )
    too_large = ~fits(runs)
    if too_large.any():
        raise BadInputError(
            f"{path}, line {_line(too_large)}: weights and cache do not fit into "
            f"{MEMORY_FRACTION:.0%} of gpu_memory_gb; check params_b (1e9 parameters), the bits, "
            "batch_size and context_len"
        )
    implied = 1000 * runs["batch_size"] / runs["decode_step_ms"]
    off = (runs["tokens_per_s"] / implied - 1).abs() > LABEL_RTOL
    if off.any():
        raise BadInputError(
            f"{path}, line {_line(off.to_numpy())}: tokens_per_s and decode_step_ms disagree; "
            "tokens_per_s is 1000 batch_size / decode_step_ms (here "
            f"{implied[off].iloc[0]:,.6g}); check the units"
        )


def _line(bad: npt.NDArray[np.bool_]) -> int:
    return int(np.argmax(bad)) + 2  # the header is line 1


def _expected(name: str) -> str:
    if name in TEXT:
        return "a text"
    if name in BITS:
        return " or ".join(map(str, BITS[name]))
    return "a positive whole number" if name in COUNTS else "a positive number"


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
