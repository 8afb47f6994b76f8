"""What an oracle hands over: the question files and the truth files of one milestone."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Content = Any
"""A DataFrame for `.csv`, a dict of arrays for `.npz`, JSON types for `.json`."""


@dataclass(frozen=True)
class Source:
    """What a split is drawn from: its own random stream, and the labelled runs it is about.

    `rng` is this milestone's own generator, so that changing one milestone's draw changes no
    other's. `runs` are the split's labelled runs, `train` the 12,000 public ones; `known` are all
    runs whose labels a student may have or must guess, which no further question may repeat.
    """

    rng: np.random.Generator
    runs: pd.DataFrame
    train: pd.DataFrame
    known: pd.DataFrame


@dataclass(frozen=True)
class Draft:
    """Files of one milestone, by name within its folder of `questions/` and of `truth/`."""

    questions: Mapping[str, Content]
    truth: Mapping[str, Content]


def write_draft(draft: Draft, folder: Path, slug: str) -> None:
    """Write one milestone's files below `questions/` and `truth/` of a split's folder."""
    for kind, files in (("questions", draft.questions), ("truth", draft.truth)):
        for name, content in files.items():
            write_content(folder / kind / slug / name, content)


def write_content(path: Path, content: Content) -> None:
    """Write one file of a split; the same content gives the same bytes on any platform."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".json":
            text = json.dumps(content, indent=1, allow_nan=False) + "\n"
            path.write_text(text, encoding="utf-8", newline="\n")
        case ".csv":
            content.to_csv(path, index=False, lineterminator="\n")
        case ".npz":
            _write_arrays(path, content)
        case other:
            raise ValueError(f"{path}: a split has no {other} files")


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    # np.savez stamps each member with the time of day; a fixed date keeps the bytes the same.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w") as stream:
                np.lib.format.write_array(stream, np.asarray(arrays[name]), allow_pickle=False)
