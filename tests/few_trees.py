"""Milestone 6 with a twentieth of its trees, for what does not hang on how well they fit."""

from __future__ import annotations

import nbformat

FIT = "return lightgbm.LGBMRegressor(**settings"
FEW = 'settings["n_estimators"] //= 20\n    ' + FIT


def fit_few_trees(notebook: nbformat.NotebookNode) -> None:
    """Let a solved or wrong notebook fit fewer trees, where it fits any."""
    for cell in notebook.cells:
        cell.source = cell.source.replace(FIT, FEW)
