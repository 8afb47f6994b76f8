"""`python -m solutions runs FILE --out RUNS`: your own measurements as runs that a split reads.

Columns are found by their common names, model and GPU are looked up in `data/catalog/`, and every
row that cannot become a run is dropped for a reason that is told.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from grader.errors import BadInputError
from milestones.runs import COLUMNS, SHAPE_COUNTS
from solutions.instructor_runs import LABEL_RTOL, MIN_RUNS
from solutions.world.draw import QUESTION_COLUMNS, fits, significant, write_csv
from solutions.world.gpus import GPU_CATALOG
from solutions.world.shapes import read_catalog

SHAPE = (*SHAPE_COUNTS, "params_b")
GPU_FACTS = ("gpu_memory_gb", "gpu_bandwidth_gbps", "gpu_tflops")

NAMES: dict[str, tuple[str, ...]] = {  # ours, and what others call it, the surest first
    "model": ("model", "model_id", "model_name", "hf_model", "base_model"),
    "gpu": ("gpu", "gpu_name", "gpu_type", "accelerator", "device", "hardware", "system"),
    "n_gpus": ("tp", "tp_size", "tensor_parallel_size", "tensor_parallel", "num_gpus", "n_gpus"),
    "batch_size": ("batch_size", "batch", "bs", "max_concurrency", "concurrency", "num_seqs"),
    "context_len": ("context_len", "context", "context_length", "ctx", "kv_len", "seq_len"),
    "input_len": (
        "isl",
        "input_len",
        "input_length",
        "input_tokens",
        "prompt_len",
        "prompt_tokens",
    ),
    "output_len": ("osl", "output_len", "output_length", "output_tokens", "max_new_tokens"),
    "decode_step": (
        "decode_step",
        "step",
        "step_time",
        "tpot",
        "mean_tpot",
        "median_tpot",
        "time_per_output_token",
        "itl",
        "mean_itl",
        "median_itl",
        "inter_token_latency",
        "decode_latency",
        "latency",
    ),
    "tokens_per_s": (
        "tokens_per_s",
        "tokens_per_second",
        "output_throughput",
        "output_token_throughput",
        "tok_s",
        "tps",
        "throughput",
    ),
    "weights": ("weight_bits", "weight_dtype", "quantization", "quant", "precision", "dtype"),
    "cache": ("kv_bits", "kv_dtype", "kv_cache_dtype", "cache_dtype", "kv_precision"),
    **{name: (name,) for name in (*SHAPE, *GPU_FACTS)},
}
MS_PER = {"ms": 1.0, "s": 1000.0, "us": 0.001}  # the unit is the last part of a time's name
BITS = {
    16: ("16", "bf16", "bfloat16", "fp16", "float16", "half", "none", "auto", ""),
    8: ("8", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_block", "int8", "int8_wo", "w8a8", "w8a16", "sq"),
    4: ("4", "int4", "int4_wo", "w4a16", "awq", "gptq", "nvfp4", "mxfp4", "fp4"),
}
BITS_OF = {name: bits for bits, names in BITS.items() for name in names}
ENDINGS = ("hf", "instruct", "chat", "it", "base", "fp8", "awq", "gptq", "dynamic", "int4", "int8")
MAKERS = ("nvidia", "amd", "intel", "meta")
FORMS = ("sxm", "sxm4", "sxm5", "sxm6", "hbm3", "hbm3e", "tensor", "core", "gpu")
ENGINES = ("framework", "engine", "backend")
WITHOUT_SIZE = {"h100": "h100-80gb"}  # an A100 has 40 or 80 GB, and only its name can tell


def main(argv: list[str]) -> int:
    """Convert a file; 0 when enough runs came of it, 2 when not or on bad input."""
    parser = argparse.ArgumentParser("python -m solutions runs", description=__doc__)
    parser.add_argument("file", metavar="FILE", type=Path, help="a CSV of measurements")
    parser.add_argument("--out", metavar="RUNS", type=Path, required=True, help="a new CSV")
    parser.add_argument(
        "--map", metavar="OURS=THEIRS", action="append", default=[], help=f"of {', '.join(NAMES)}"
    )
    parser.add_argument(
        "--keep", metavar="COLUMN=VALUE", action="append", default=[], help="only these rows"
    )
    args = parser.parse_args(argv)
    if args.out.exists():
        raise BadInputError(f"{args.out}: is there already; name a new file")
    table = kept(args.file, read(args.file), dict(map(_pair, args.keep)))
    made = convert(table, dict(map(_pair, args.map)))
    print("\n".join(made.told))
    if len(made.runs) < MIN_RUNS:
        raise BadInputError(
            f"{args.file}: {len(made.runs)} runs came of it; a split needs {MIN_RUNS} or more"
        )
    write_csv(made.runs, args.out)
    runs = made.runs
    print(
        f"Wrote {len(runs):,} runs of {runs['model'].nunique()} models on "
        f"{runs['gpu'].nunique()} GPUs to {args.out}."
    )
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInputError(f"expected NAME=VALUE: {text!r}")
    return name, value


def read(path: Path) -> pd.DataFrame:
    """Read a CSV, every cell as text.

    Raises:
        BadInputError: it cannot be read.
    """
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: cannot be read as a CSV: {error}") from None


def kept(path: Path, table: pd.DataFrame, wanted: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows that have these values.

    Raises:
        BadInputError: there is no such column or value.
    """
    for column, value in wanted.items():
        if column not in table.columns:
            raise BadInputError(f"{path}: has no column {column}")
        if not (table[column] == value).any():
            there = ", ".join(sorted(table[column].unique())[:8])
            raise BadInputError(f"{path}: no row has {column} {value!r}; there are {there}")
        table = table[table[column] == value]
    return table.reset_index(drop=True)


@dataclass(frozen=True)
class Made:
    """What came of a file: runs in the schema, and what was mapped and dropped, in sentences."""

    runs: pd.DataFrame
    told: tuple[str, ...]


def convert(table: pd.DataFrame, mapped: Mapping[str, str] | None = None) -> Made:
    """Turn measurements into runs in the schema of the course.

    Raises:
        BadInputError: a column that a run cannot do without is not found.
    """
    found = find_columns(list(table.columns), mapped or {})
    told = [f"  {ours:18} <- {theirs}" for ours, theirs in found.items()]
    rows = Rows(table, found)
    runs = rows.runs()
    rows.notes += [
        f"  {column} has {table[column].nunique()} values; runs do not tell them apart: "
        f"--keep {column}=VALUE keeps one"
        for column in table.columns
        if _plain(column) in ENGINES and len(set(table[column])) > 1
    ]
    rows.drop(_repeated(runs, rows.reason), "the same question again: its first answer is kept")
    runs = runs[rows.reason == ""].reset_index(drop=True)
    runs.insert(0, "run_id", [f"m{i:05d}" for i in range(len(runs))])
    counts = rows.reason[rows.reason != ""].value_counts()
    dropped = [f"  {count:7,} {reason}" for reason, count in counts.items()]
    return Made(
        runs[list(COLUMNS)],
        (
            "Columns:",
            *told,
            *rows.notes,
            f"Dropped {counts.sum():,} of {len(table):,} rows{':' if dropped else '.'}",
            *dropped,
        ),
    )


# ---------------------------------------------------------------- columns


def find_columns(columns: Sequence[str], mapped: Mapping[str, str]) -> dict[str, str]:
    """Return which of the file's columns is which of ours.

    Raises:
        BadInputError: a name of `mapped` is not known, or a column that is needed is not found.
    """
    for ours, theirs in mapped.items():
        if ours not in NAMES:
            raise BadInputError(f"--map {ours}: is none of {', '.join(NAMES)}")
        if theirs not in columns:
            raise BadInputError(f"--map {ours}={theirs}: the file has no column {theirs}")
    plain = {_plain(column): column for column in reversed(columns)}
    found = {}
    for ours, names in NAMES.items():
        units = ("_ms", "_s", "_us") if ours == "decode_step" else ("",)
        spelled = [f"{name}{unit}" for name in names for unit in units]
        known = [mapped[ours]] if ours in mapped else [plain[n] for n in spelled if n in plain]
        if known:
            found[ours] = known[0]
    needed: dict[str, tuple[str, ...]] = {
        "model": ("model",),
        "gpu": ("gpu",),
        "batch_size": ("batch_size",),
        "context_len, or input_len": ("context_len", "input_len"),
        "decode_step in ms, s or us, or tokens_per_s": ("decode_step", "tokens_per_s"),
    }
    missing = [what for what, any_of in needed.items() if not found.keys() & set(any_of)]
    if missing:
        raise BadInputError(
            f"no column is known as {'; '.join(missing)}; the file has {', '.join(columns)}; "
            "name it with --map OURS=THEIRS"
        )
    return found


def _plain(name: str) -> str:
    """Return a column's name in small letters, its words joined by one underscore."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


# ---------------------------------------------------------------- rows


class Rows:
    """A file's rows on their way to runs: `reason` says why one is dropped, empty where kept."""

    def __init__(self, table: pd.DataFrame, found: Mapping[str, str]) -> None:
        """`found` tells which of the file's columns is which of ours."""
        self._table, self._found = table, found
        self.reason = pd.Series("", index=table.index, dtype=object)
        self.notes: list[str] = []

    def drop(self, rows: pd.Series, why: str) -> None:
        """Drop rows for a reason; the first reason of a row counts."""
        self.reason[rows & (self.reason == "")] = why

    def runs(self) -> pd.DataFrame:
        """Return a run for each row; those of dropped rows may hold anything."""
        if "n_gpus" in self._found:
            self.drop(self._number("n_gpus") != 1, "not one GPU (tensor parallel, or no number)")
        runs = pd.DataFrame(index=self._table.index)
        self._look_up(runs, "model", SHAPE, catalog_model, _models())
        self._look_up(runs, "gpu", GPU_FACTS, catalog_gpu, _gpus())
        for ours, theirs in (("weight_bits", "weights"), ("kv_bits", "cache")):
            runs[ours] = self._bits(theirs)
        self.drop(runs["kv_bits"] == 4, "a 4-bit cache: the schema has 16 and 8")
        runs["batch_size"] = self._number("batch_size")
        runs["context_len"] = self._context()
        runs["decode_step_ms"] = self._step(runs["batch_size"])
        for name in ("batch_size", "context_len", "decode_step_ms"):
            good = np.isfinite(runs[name]) & (runs[name] > 0)
            if name == "batch_size":
                good &= runs[name] % 1 == 0
            self.drop(~good, f"{name} is no positive {'whole ' if name[0] == 'b' else ''}number")
        windows = _models()["sliding_window"].astype(str).str.extract(r"(\d+)")[0].astype(float)
        self.drop(
            runs["context_len"] > runs["model"].map(windows).fillna(np.inf),
            "a context beyond the model's sliding window, whose cache holds less than runs say",
        )
        good = self.reason == ""
        self.drop(good & ~pd.Series(self._fits(runs, good)), "does not fit in 92 % of the memory")
        runs.loc[self.reason != "", [c for c in runs if c not in ("model", "gpu")]] = 1
        for name in (*SHAPE_COUNTS, "weight_bits", "kv_bits", "batch_size", "context_len"):
            runs[name] = runs[name].astype(float).round().astype("int64")
        for name in ("params_b", *GPU_FACTS, "decode_step_ms"):
            runs[name] = runs[name].astype(float)
        runs["decode_step_ms"] = significant(runs["decode_step_ms"].to_numpy())
        runs["tokens_per_s"] = significant(
            1000 * runs["batch_size"].to_numpy() / runs["decode_step_ms"].to_numpy()
        )
        return runs

    def _fits(self, runs: pd.DataFrame, good: pd.Series) -> np.ndarray:
        fitting = np.ones(len(runs), dtype=bool)
        fitting[good.to_numpy()] = fits(runs[good].astype(dict.fromkeys(SHAPE, float)))
        return fitting

    def _number(self, ours: str) -> pd.Series:
        return pd.to_numeric(self._table[self._found[ours]], errors="coerce")

    def _look_up(
        self,
        runs: pd.DataFrame,
        what: str,
        facts: Sequence[str],
        known: Callable[[str], str | None],
        catalog: pd.DataFrame,
    ) -> None:
        """Fill in a model or a GPU: its facts from the file where all are there, or the catalog."""
        theirs = self._table[self._found[what]]
        names = {name: known(name) for name in theirs.unique()}
        runs[what] = theirs.map({name: ours or name for name, ours in names.items()})
        if all(fact in self._found for fact in facts):
            for fact in facts:
                runs[fact] = self._number(fact)
                self.drop(~(np.isfinite(runs[fact]) & (runs[fact] > 0)), f"{fact} is no number")
            return
        self.notes += [
            f"  {what} {name} is {ours} of the catalog"
            for name, ours in sorted(names.items())
            if ours
        ]
        for name in (name for name, ours in names.items() if not ours):
            self.drop(
                theirs == name,
                f"{what} {name!r} is not in data/catalog; "
                f"give columns {', '.join(facts)} to keep it",
            )
        for fact in facts:
            runs[fact] = runs[what].map(catalog[fact])

    def _bits(self, ours: str) -> pd.Series:
        if ours not in self._found:
            self.notes.append(f"  no column tells the {ours}' number format: 16 bits are assumed")
            return pd.Series(16, index=self._table.index)
        theirs = self._table[self._found[ours]].str.strip().str.lower()
        bits = theirs.str.replace("-", "_").map(BITS_OF)
        for name in sorted(theirs[bits.isna()].unique()):
            self.drop(theirs == name, f"{ours} of {name!r}: not known as 16, 8 or 4 bits")
        return bits

    def _context(self) -> pd.Series:
        if "context_len" in self._found:
            return self._number("context_len").round()
        if "output_len" not in self._found:
            self.notes.append("  context_len is the prompt alone: no column tells the output's")
            return self._number("input_len").round()
        self.notes.append("  context_len is input + output / 2, the mean over the decode steps")
        return (self._number("input_len") + self._number("output_len") / 2).round()

    def _step(self, batch: pd.Series) -> pd.Series:
        if "decode_step" not in self._found:
            self.notes.append("  decode_step_ms is 1000 batch_size / tokens_per_s")
            return 1000 * batch / self._number("tokens_per_s")
        theirs = self._found["decode_step"]
        unit = _plain(theirs).rpartition("_")[2]
        step = self._number("decode_step") * MS_PER.get(unit, 1.0)
        if unit not in MS_PER:
            self.notes.append(f"  {theirs} is taken to be in ms")
        if "latency" in theirs.lower() and "inter" not in theirs.lower():
            self.notes.append(f"  {theirs} is taken to be of one step: check that it is")
        if "tokens_per_s" in self._found:
            told = self._number("tokens_per_s")
            off = (told * step / (1000 * batch) - 1).abs() > LABEL_RTOL
            if off.any():
                self.notes.append(
                    f"  tokens_per_s of {off.sum():,} rows is not 1000 batch_size / "
                    "decode_step_ms: the step is kept, and tokens_per_s computed from it"
                )
        return step


def _repeated(runs: pd.DataFrame, reason: pd.Series) -> pd.Series:
    """Say of each run that is kept whether an earlier one asks the same."""
    good = runs[reason == ""]
    again = good[list(QUESTION_COLUMNS)].duplicated()
    return again.reindex(runs.index, fill_value=False)


# ---------------------------------------------------------------- catalog


@cache
def _models() -> pd.DataFrame:
    return read_catalog().set_index("model")


@cache
def _gpus() -> pd.DataFrame:
    return pd.read_csv(GPU_CATALOG).set_index("gpu")


def catalog_model(name: str) -> str | None:
    """Return the catalog's name of a model, by its id with or without owner and endings."""
    known = {_joined(_words(model)): str(model) for model in _models().index}
    words = [word for word in _words(name.rpartition("/")[2]) if word not in MAKERS]
    while words:
        whole = _joined(words)
        if whole in known:
            return known[whole]
        first = [ours for theirs, ours in known.items() if re.fullmatch(f"{whole}v[0-9p]+", theirs)]
        if len(first) == 1:  # the catalog has one version, and the file does not say which
            return first[0]
        if words[-1] not in ENDINGS:
            return None
        words = words[:-1]
    return None


def catalog_gpu(name: str) -> str | None:
    """Return the catalog's name of a GPU, whatever the order of maker, form and memory."""
    known = {frozenset(_words(str(gpu))): str(gpu) for gpu in _gpus().index}
    words = frozenset(_words(name)) - {*MAKERS, *FORMS}
    for spelled in (words, frozenset(_words(WITHOUT_SIZE.get("-".join(sorted(words)), "")))):
        if spelled in known:
            return known[spelled]
    memory = {word for word in words if re.fullmatch(r"\d+gb", word)}
    without = known.get(words - memory)  # H200-141GB is the catalog's H200, if that has 141 GB
    told = [float(word[:-2]) for word in memory]
    return without if without and told == [float(_gpus()["gpu_memory_gb"][without])] else None


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\s_()/-]+", name.lower()) if word]


def _joined(words: Sequence[str]) -> str:
    """Return a name without what people leave out of it; the point of 2.5 stays told apart."""
    return re.sub(r"[^a-z0-9]", "", "".join(words).replace(".", "p"))
