"""Drafts of one milestone, for tests that need no runs and no whole split."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from solutions.draft import Draft, Source, write_draft
from solutions.understanding import draw_understanding

SEED = 11
NO_RUNS: Any = None  # the draws that are asked here read no runs


def drawn_by(draw: Callable[[Source], Draft], seed: int) -> Draft:
    """Return what a milestone draws from a small seed."""
    return draw(Source(np.random.default_rng(seed), NO_RUNS, NO_RUNS, NO_RUNS))


def write_split(draft: Draft, folder: Path, slug: str) -> Path:
    """Write a draft, with closing questions beside it, as the part of a split that it is."""
    write_draft(draft, folder, slug)
    write_draft(draw_understanding(slug, np.random.default_rng(SEED)), folder, slug)
    return folder
