"""The search for the best boosting on raw columns: run once per training set, then committed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
import pandas as pd
from sklearn.model_selection import GroupKFold, KFold

from solutions.world.figures import raw_boosting_score
from solutions.world.gpus import DATA

TUNED_FILE = DATA / "tuned_boosting.json"
SCHEMES = ("models_held_out", "random")
N_TRIALS = 50
N_FOLDS = 4
SEARCH_SEED = 7

Fold = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def folds(train: pd.DataFrame, scheme: str) -> Iterator[Fold]:
    """Split rows into folds: whole models held out, or rows at random."""
    if scheme == "models_held_out":
        yield from GroupKFold(N_FOLDS, shuffle=True, random_state=0).split(
            train, groups=train["model"]
        )
    elif scheme == "random":
        yield from KFold(N_FOLDS, shuffle=True, random_state=0).split(train)
    else:
        raise ValueError(f"scheme {scheme} is none of {', '.join(SCHEMES)}")


def suggest(trial: optuna.Trial) -> dict[str, Any]:
    """Choose LightGBM settings for one trial: trees of constants, or of lines in each leaf."""
    kind = trial.suggest_categorical("kind", ["squares", "absolute", "linear leaves"])
    return {
        "objective": "regression_l1" if kind == "absolute" else "regression",
        "linear_tree": kind == "linear leaves",
        "n_estimators": trial.suggest_int("n_estimators", 200, 900, log=True),
        "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.2, log=True),
        "num_leaves": trial.suggest_int("num_leaves", 4, 63, log=True),
        "min_child_samples": trial.suggest_int("min_child_samples", 3, 60, log=True),
        "feature_fraction": trial.suggest_float("feature_fraction", 0.4, 1.0),
        "bagging_fraction": trial.suggest_float("bagging_fraction", 0.5, 1.0),
        "bagging_freq": 1,
        "lambda_l2": trial.suggest_float("lambda_l2", 1e-3, 30.0, log=True),
    }


def search(train: pd.DataFrame, scheme: str, n_trials: int) -> dict[str, Any]:
    """Search settings by cross-validated MAPE of the step; give the best with its scores."""
    parts = list(folds(train, scheme))

    def objective(trial: optuna.Trial) -> float:
        settings = suggest(trial)
        scores: list[float] = []
        for number, (fit_rows, test_rows) in enumerate(parts):
            fold = raw_boosting_score(train.iloc[fit_rows], train.iloc[test_rows], settings)
            scores.append(fold.mape)
            trial.report(float(np.mean(scores)), number)
            if trial.should_prune():
                raise optuna.TrialPruned
        trial.set_user_attr("settings", settings)
        return float(np.mean(scores))

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=SEARCH_SEED),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=8, n_warmup_steps=0),
    )
    study.optimize(objective, n_trials=n_trials)
    rounded = {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in study.best_trial.user_attrs["settings"].items()
    }
    return {
        "settings": rounded,
        "cross_validated_mape": float(f"{study.best_value:.4g}"),
        "folds": N_FOLDS,
        "trials": n_trials,
        "trials_stopped_early": sum(
            t.state is optuna.trial.TrialState.PRUNED for t in study.trials
        ),
    }


def tune(train: pd.DataFrame, n_trials: int = N_TRIALS) -> dict[str, Any]:
    """Run both searches."""
    return {scheme: search(train, scheme, n_trials) for scheme in SCHEMES}


def write_tuned(found: dict[str, Any], path: Path = TUNED_FILE) -> None:
    """Write the settings of both searches with their scores."""
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8", newline="\n")


def read_tuned(path: Path = TUNED_FILE) -> dict[str, dict[str, Any]]:
    """Read the committed settings: {scheme: {"settings": ..., "cross_validated_mape": ...}}."""
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found
