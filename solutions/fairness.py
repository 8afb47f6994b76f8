"""A study of hidden sets as it is shown: a summary, a table of draws, and a picture."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from solutions.proof import MARGIN
from solutions.study import STUDY_SEED, Line, Tally, study, tally

STUDY_FILE = Path("out/fairness.jsonl")
MOST_REFUSED = 0.05
FIGURES = (  # of the reference: as the checks name them, and as a person reads them
    ("m5.step_error", "m5 step error (MAPE)"),
    ("m5.throughput_r2", "m5 throughput (R²)"),
    ("m6.step_error", "m6 step error (MAPE)"),
    ("m6.throughput_r2", "m6 throughput (R²)"),
    ("m7.plans_hold", "m7 plans that hold"),
    ("m7.cost_ratio", "m7 cost ratio"),
    ("m7.none_only_where_nothing_holds", "m7 none where nothing holds"),
    ("m7.own_step", "m7 its own step (MAPE)"),
    ("m7.limited_by", "m7 what limits a plan"),
)
BOOSTING = (
    ("tuned, models_held_out", "tuned, whole models held out"),
    ("tuned, random", "tuned, random folds"),
    ("LightGBM, defaults", "LightGBM, defaults"),
    ("LightGBM, 500 trees of lines", "LightGBM, lines in leaves"),
    ("scikit-learn, 500 trees", "scikit-learn, 500 trees"),
)
RAW_BAR = 0.062


def run(n_trials: int, path: Path | None, seed: str | None, report: Path | None) -> int:
    """Run or finish a study and show it; 0 when it met its goals, 1 when not."""
    path = path or STUDY_FILE
    lines = study(path, n_trials, seed or STUDY_SEED)
    found = tally(lines)
    print()
    print("\n".join(summary(found, lines)))
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        write_table(report / "fairness.csv", lines)
        draw(report / "fairness.png", lines)
        print(f"\nWrote {report / 'fairness.csv'} and {report / 'fairness.png'}.")
    missed = goals_missed(found)
    for sentence in missed:
        print(f"split: {sentence}", file=sys.stderr)
    return 1 if missed else 0


def goals_missed(found: Tally) -> list[str]:
    """Return a sentence for each goal of a study that it missed."""
    wanted_none = {
        "the reference fails a bar or lacks its room": found.reference_fails,
        "a named mistake slips through": found.mistakes_slip,
        "tuned boosting on raw columns passes": found.boosting_passes,
    }
    missed = [f"{what} in {count} accepted sets" for what, count in wanted_none.items() if count]
    if found.refusal_rate >= MOST_REFUSED:
        missed.append(f"{found.refusal_rate:.1%} of draws refused, {MOST_REFUSED:.0%} or more")
    return missed


def summary(found: Tally, lines: Sequence[Line]) -> list[str]:
    """Return the study's figures as lines of Markdown that read well on a terminal too."""
    table = [
        "| over all trials | |",
        "|---|---|",
        f"| seeds | {found.trials} |",
        f"| draws | {found.draws} |",
        f"| refused | {found.refused} ({found.refusal_rate:.1%}) |",
        f"| accepted sets where the reference fails a bar or lacks its room | "
        f"{found.reference_fails} |",
        f"| where a named mistake slips through | {found.mistakes_slip} |",
        f"| where tuned boosting on raw columns passes | {found.boosting_passes} |",
        f"| where a mistake does not read its hint | {found.unhinted} |",
        f"| where other boosting on raw columns passes | {found.other_boosting_passes} |",
        f"| CPU seconds a trial; all | {found.cpu_s / found.trials:.1f}; {found.cpu_s:,.0f} |",
        "",
        "| figure of the reference, all draws | bar | median | nearest to the bar | least room |",
        "|---|---|---|---|---|",
    ]
    for key, name in FIGURES:
        values, rooms, bar = _reference(lines, key)
        nearest = values[int(np.argmin(rooms))]
        table.append(
            f"| {name} | {bar:g} | {np.median(values):.4f} | {nearest:.4f} | {min(rooms):.0%} |"
        )
    table += [
        "",
        "| boosting on raw columns, MAPE, accepted sets | bar | least | median | greatest |",
        "|---|---|---|---|---|",
    ]
    for key, name in BOOSTING:
        errors = _boosting(lines, key)
        table.append(
            f"| {name} | {RAW_BAR} | {min(errors):.4f} | {np.median(errors):.4f} | "
            f"{max(errors):.4f} |"
        )
    for fault, count in sorted(_faults(lines).items(), key=lambda item: -item[1]):
        table.append(f"\nRefused {count} time{'s' * (count > 1)}: {fault}")
    return table


def _draws(lines: Sequence[Line]) -> list[Line]:
    return [draw for line in lines for draw in line["draws"]]


def _reference(lines: Sequence[Line], key: str) -> tuple[list[float], list[float], float]:
    found = [draw["reference"][key] for draw in _draws(lines) if key in draw["reference"]]
    return [f["figure"] for f in found], [f["room"] for f in found], found[0]["bar"]


def _boosting(lines: Sequence[Line], key: str) -> list[float]:
    return [d["again"]["boosting"][key]["mape"] for d in _draws(lines) if d["accepted"]]


def _faults(lines: Sequence[Line]) -> dict[str, int]:
    """Count the reasons of refusals, without their figures."""
    counts: dict[str, int] = {}
    for draw in _draws(lines):
        for fault in draw["faults"]:
            without_figures = re.sub(r" \([^)]*\)", "", fault)
            reason = re.sub(r"(?<![\w.])-?\d[\d.]*%?(?!\w)", "...", without_figures)
            counts[reason] = counts.get(reason, 0) + 1
    return counts


def write_table(path: Path, lines: Sequence[Line]) -> None:
    """Write one row a draw."""
    header = [
        "trial",
        "draw",
        "accepted",
        "why",
        *(key for key, _ in FIGURES),
        "least_room",
        "linear_r2",
        "throughput_ratio",
        *(f"boosting {key}" for key, _ in BOOSTING),
        "reference_fails",
        "mistakes",
        "mistakes_slipped",
        "unhinted",
        "blank_points",
        "boosting_passes",
        "trial_cpu_s",
        "seed",
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for line in lines:
            for drawn in line["draws"]:
                writer.writerow(_row(line, drawn))


def _row(line: Line, drawn: Line) -> list[object]:
    again = drawn.get("again")
    reference = drawn["reference"]
    boosting = {} if again is None else again["boosting"]
    figures = drawn["figures"]
    return [
        line["trial"],
        drawn["draw"],
        "yes" if drawn["accepted"] else "no",
        "; ".join(drawn["faults"]),
        *(reference[key]["figure"] if key in reference else "" for key, _ in FIGURES),
        min(found["room"] for found in reference.values()),
        figures["linear_r2"],
        figures["throughput_ratio"],
        *(boosting[key]["mape"] if key in boosting else "" for key, _ in BOOSTING),
        "" if again is None else " ".join([*again["reference_failed"], *again["reference_tight"]]),
        drawn["mistakes"],
        "" if again is None else " ".join(again["slipped"]),
        "" if again is None else " ".join(again["unhinted"]),
        "" if again is None else again["blank_points"],
        ""
        if again is None
        else " ".join(k for k, b in boosting.items() if b["outcome"] != "FAILED"),
        line["cpu_s"],
        line["seed"],
    ]


def draw(path: Path, lines: Sequence[Line]) -> None:
    """Draw how far every figure stays from its bar."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.2), layout="constrained")
    _draw_rooms(left, lines)
    _draw_boosting(right, lines)
    fig.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(fig)


def _draw_rooms(ax: Axes, lines: Sequence[Line]) -> None:
    rng = np.random.default_rng(0)
    accepted = np.array([draw["accepted"] for draw in _draws(lines)])
    for row, (key, _) in enumerate(reversed(FIGURES)):
        rooms = np.array(_reference(lines, key)[1])
        height = row + rng.uniform(-0.25, 0.25, len(rooms))
        ax.scatter(rooms[accepted], height[accepted], s=5, color="tab:blue", alpha=0.5)
        ax.scatter(rooms[~accepted], height[~accepted], s=14, color="tab:red", marker="x")
    ax.axvline(MARGIN, color="black", ls=":", lw=1)
    ax.text(MARGIN + 0.01, len(FIGURES) - 0.45, "required: 10 %", fontsize=8)
    ax.axvline(0, color="black", lw=1)
    ax.set(
        xlim=(-0.05, 1.03),
        ylim=(-0.6, len(FIGURES) - 0.1),
        xlabel="room left to the bar, as a share of what it allows",
        title=f"The reference, {len(accepted)} draws (refused: red crosses)",
    )
    ax.set_yticks(range(len(FIGURES)), [name for _, name in reversed(FIGURES)])
    ax.title.set_fontsize(10)


def _draw_boosting(ax: Axes, lines: Sequence[Line]) -> None:
    rng = np.random.default_rng(0)
    ticks = [0.06, 0.08, 0.1, 0.15, 0.2, 0.3]
    for row, (key, _) in enumerate(reversed(BOOSTING)):
        errors = np.array(_boosting(lines, key))
        height = row + rng.uniform(-0.25, 0.25, len(errors))
        ax.scatter(errors, height, s=5, color="tab:orange", alpha=0.5)
    ax.axvline(RAW_BAR, color="black", lw=1)
    ax.text(
        RAW_BAR * 1.03, len(BOOSTING) - 0.45, f"bar of m6, {RAW_BAR}: left of it passes", fontsize=8
    )
    ax.set(
        xscale="log",
        ylim=(-0.6, len(BOOSTING) - 0.1),
        xlabel="MAPE of the step",
        title="Boosting on raw columns, accepted sets",
    )
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_yticks(range(len(BOOSTING)), [name for _, name in reversed(BOOSTING)])
    ax.title.set_fontsize(10)
