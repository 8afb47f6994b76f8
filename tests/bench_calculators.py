"""`make bench-capacity`: published KV-cache calculators and ours, against measured truth.

Every config.json of ../shared/configs for which bytes were measured is put to every calculator of
tests/calculators/peers.toml, in an environment of its own and without a network, and to the formula
that most people write. An answer is exact if it is the bytes of keys and values that an engine
stores for one request, to the byte. So that nobody loses by a difference of definition, an answer
is exact, too, with the constant state added (in 16 or 32 bits) or with index keys in 16 bits, not
FP8. A file counts as exact if all its context lengths are, as refused if any is refused and none is
wrong, else as wrong.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solutions.capacity import ConfigRefusedError, read_plan
from solutions.lesson import ROOT

CONFIGS = ROOT.parent / "shared" / "configs"
PEERS = ROOT / "tests" / "calculators" / "peers.toml"
PLACE = ROOT / ".bench" / "calculators"
NO_COMMIT = "0" * 40  # the hub's cache wants the name of a commit
INDEX_MORE = 124 / 132  # an index key of 128: 256 bytes in 16 bits, 132 in FP8 with its scale
LONGEST_S = 1_200


@dataclass(frozen=True)
class Question:
    """A file, a context length, and every number of bytes that is right for it."""

    name: str
    context_len: int
    right: frozenset[int]
    kv_bytes: int

    def verdict(self, answer: float | None) -> str:
        """Judge an answer in bytes; None is a refusal."""
        if answer is None:
            return "refused"
        if round(answer) in self.right:
            return "exact"
        return "too small" if answer < self.kv_bytes else "too large"


def questions(folder: Path) -> list[Question]:
    """Read the measured truth."""
    with (folder / "ground_truth.csv").open(encoding="utf-8", newline="") as lines:
        return [_question(row) for row in csv.DictReader(lines)]


def _question(row: Mapping[str, str]) -> Question:
    tokens, kv = int(row["context_len"]), int(float(row["serving_kv_bytes"]))
    states = (row["serving_state_bytes_bf16"], row["serving_state_bytes_fp32ssm"])
    index = round(float(row["dsa_index_bytes_per_token_fp8"] or 0) * INDEX_MORE) * tokens
    constant = {0, *(int(float(state or 0)) for state in states)}
    right = {kv + state + more for state in constant for more in {0, index}}
    return Question(row["config"], tokens, frozenset(right), kv)


# ---------------------------------------------------------------- who is asked


Answers = Sequence[float | None]
Ask = Callable[[Sequence[Question]], Answers]


def ours(asked: Sequence[Question]) -> Answers:
    """Answer by the library of this project, which must give keys and values alone."""
    answers: list[float | None] = []
    for question in asked:
        try:
            plan = read_plan(parsed(question.name))
        except ConfigRefusedError:
            answers.append(None)
        else:
            answers.append(plan.kv_bytes(question.context_len))
    return answers


def the_formula(asked: Sequence[Question]) -> Answers:
    """Answer 2 * layers * kv_heads * hidden / heads * tokens * 2 bytes, nested configs unnested."""
    answers: list[float | None] = []
    for question in asked:
        config = parsed(question.name)
        config = config.get("text_config") or config
        try:
            layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
            kv_heads = config.get("num_key_value_heads") or heads
            numbers = 2 * layers * kv_heads * (config["hidden_size"] // heads)
        except (KeyError, TypeError):
            answers.append(None)
        else:
            answers.append(2 * numbers * question.context_len)
    return answers


def parsed(name: str) -> dict[str, Any]:
    """Return a config; a list of architectures that is null, in rebuilt files, is left out."""
    config: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    if config.get("architectures", ()) is None:
        del config["architectures"]
    return config


@dataclass(frozen=True)
class Peer:
    """A calculator of peers.toml."""

    name: str
    version: str
    adapter: str
    more: tuple[str, ...] = ()
    heavy: bool = False

    @property
    def python(self) -> Path:
        """Where its interpreter is."""
        return PLACE / f"{self.name}-{self.version}" / "bin" / "python"

    def install(self) -> None:
        """Put it into an environment of its own, unless it is there; a half-made one is redone."""
        home = self.python.parent.parent
        ready = home / ".ready"
        if ready.exists():
            return
        wanted = [f"{self.name}=={self.version}", *self.more]
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted], check=True)
        ready.touch()

    def ask(self, laid_out: Path, asked: Sequence[Question]) -> list[dict[str, Any]]:
        """Put the questions to it; ask.py says what comes back."""
        numbers = {name: f"c{i:03}" for i, name in enumerate(names(asked))}
        cases = [
            {
                "folder": str(laid_out / numbers[question.name]),
                "repo": f"local/{numbers[question.name]}",
                "context_len": question.context_len,
            }
            for question in asked
        ]
        run = subprocess.run(
            [self.python, "-m", "tests.calculators.ask", self.adapter],
            cwd=ROOT,
            env=environment(laid_out),
            input=json.dumps(cases),
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_S,
        )
        if run.returncode:
            raise SystemExit(f"{self.name} could not be asked:\n{run.stderr[-2000:]}")
        answers: list[dict[str, Any]] = json.loads(run.stdout)
        return answers


def peers() -> list[Peer]:
    """Read peers.toml."""
    table = tomllib.loads(PEERS.read_text(encoding="utf-8"))
    return [
        Peer(name, p["version"], p["adapter"], tuple(p.get("with", ())), p.get("heavy", False))
        for name, p in table.items()
    ]


def names(asked: Iterable[Question]) -> list[str]:
    """Return the files in order, each once."""
    return list(dict.fromkeys(question.name for question in asked))


def lay_out(place: Path, asked: Sequence[Question]) -> None:
    """Write every config as a folder, and as a repository in a cache of the hub.

    Numbers name them: some calculators look a known name up and never read the file.
    """
    for i, name in enumerate(names(asked)):
        text = json.dumps(parsed(name))
        repository = place / "hub" / f"models--local--c{i:03}"
        for folder in (place / f"c{i:03}", repository / "snapshots" / NO_COMMIT):
            folder.mkdir(parents=True)
            (folder / "config.json").write_text(text, encoding="utf-8")
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(NO_COMMIT, encoding="utf-8")


def environment(laid_out: Path) -> dict[str, str]:
    """Return variables under which nothing of this machine's user is read or written."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    hub = {"HF_HOME": str(laid_out), "HF_HUB_CACHE": str(laid_out / "hub")}
    return {"PATH": os.environ["PATH"], "HOME": str(laid_out), **hub, **offline}


# ---------------------------------------------------------------- the table


@dataclass(frozen=True)
class Row:
    """How many files a calculator got exact, wrong (in any row too small), or refused."""

    name: str
    version: str
    exact: int
    wrong: int
    too_small: int
    refused: int


def row(name: str, version: str, asked: Sequence[Question], answers: Answers) -> Row:
    """Count by file."""
    verdicts: dict[str, set[str]] = {}
    for question, answer in zip(asked, answers, strict=True):
        verdicts.setdefault(question.name, set()).add(question.verdict(answer))
    exact = sum(found == {"exact"} for found in verdicts.values())
    wrong = [found for found in verdicts.values() if found & {"too small", "too large"}]
    too_small = sum("too small" in found for found in wrong)
    return Row(name, version, exact, len(wrong), too_small, len(verdicts) - exact - len(wrong))


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a table in Markdown, the best first."""
    best = sorted(rows, key=lambda r: (-r.exact, r.wrong, r.name))
    lines = [
        "| calculator | version | exact | wrong | of these too small | refused |",
        "|---|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r.name} | {r.version} | {r.exact} | {r.wrong} | {r.too_small} | {r.refused} |"
        for r in best
    ]
    return "\n".join(lines)


def main() -> None:
    """Install who is missing, ask everybody, and print the table."""
    parser = argparse.ArgumentParser("python -m tests.bench_calculators", description=__doc__)
    parser.add_argument("--heavy", action="store_true", help="ask those that bring PyTorch, too")
    parser.add_argument("--show", metavar="NAME", help="print what this one got wrong or refused")
    args = parser.parse_args()
    if not (CONFIGS / "ground_truth.csv").exists():
        raise SystemExit(f"{CONFIGS} is not here: it has the files and what was measured of them")
    asked = questions(CONFIGS)
    rows = [
        row("**this course**", importlib.metadata.version("kv-capacity"), asked, ours(asked)),
        row("2 · layers · KV heads · hidden / heads", "", asked, the_formula(asked)),
    ]
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        lay_out(place, asked)
        for peer in peers():
            if peer.heavy and not args.heavy:
                continue
            peer.install()
            told = peer.ask(place, asked)
            rows.append(row(peer.name, peer.version, asked, [each["bytes"] for each in told]))
            if peer.name == args.show:
                show(asked, told)
    print(f"{len(names(asked))} files, {len(asked)} rows of truth; {sys.version.split()[0]}\n")
    print(table(rows))


def show(asked: Sequence[Question], told: Sequence[Mapping[str, Any]]) -> None:
    """Print every answer of one calculator that is not exact."""
    for question, each in zip(asked, told, strict=True):
        verdict = question.verdict(each["bytes"])
        if verdict != "exact":
            what = each["error"] if verdict == "refused" else f"{each['bytes']:,.0f}"
            print(f"{question.name} at {question.context_len:,}: {verdict}, {what}"[:200])


if __name__ == "__main__":
    main()
