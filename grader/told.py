"""A diagnosis on a terminal: labelled lines, then where the error lies as a table with bars."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from milestones.diagnosis import Breakdown, Diagnosis, Part

CUTS_SHOWN = 2  # of a breakdown; the page of feedback shows them all
BAR_WIDTH = 20
SHOWN_FROM = 0.01  # a smaller share has no bar
STYLES = {"came back": "red", "equals": "yellow", "think about": "bold"}


def told(diagnosis: Diagnosis, style: str) -> RenderableType:
    """Return what a terminal shows of a diagnosis; `style` is that of its outcome."""
    rows = diagnosis.rows
    if [label for label, _ in rows] == ["came back"] and diagnosis.breakdown is None:
        return Text(rows[0][1], style=style)  # no need of a label
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, text in rows:
        grid.add_row(
            label, Text(text, style=style if label == "came back" else STYLES.get(label, ""))
        )
    if diagnosis.breakdown is None:
        return grid
    return Group(grid, Text(""), *_breakdown(diagnosis.breakdown))


def _breakdown(breakdown: Breakdown) -> list[RenderableType]:
    cuts = list(breakdown.cuts.items())
    lines: list[RenderableType] = [Text(breakdown.title, style="bold")]
    if breakdown.told:
        lines.append(Text(breakdown.told))
    for by, parts in cuts[:CUTS_SHOWN]:
        lines += [Text(""), _table(breakdown, by, parts)]
    if len(cuts) > CUTS_SHOWN:
        others = ", ".join(by for by, _ in cuts[CUTS_SHOWN:])
        lines += [Text(f"Also cut by {others}: see `grader check --html`.", style="dim")]
    return lines


def _table(breakdown: Breakdown, by: str, parts: Sequence[Part]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(by)
    table.add_column(breakdown.unit, justify="right")
    if breakdown.figure:
        table.add_column(breakdown.figure, justify="right")
        table.add_column("predicted")
    table.add_column("share")
    for part in parts:
        cells: list[RenderableType] = [part.name, f"{part.count:,}"]
        if breakdown.figure:
            cells += ["" if part.figure is None else f"{part.figure:.3f}", bias_told(part)]
        table.add_row(*cells, _Bar(part.share))
    return table


def bias_told(part: Part) -> str:
    """Say which way a slice is off on average, where it is."""
    if part.bias is None or abs(part.bias) < 0.005:
        return ""
    return f"{abs(part.bias):.0%} too {'high' if part.bias > 0 else 'low'}"


class _Bar:
    """A share as a bar of text, in characters that the terminal has."""

    def __init__(self, share: float) -> None:
        self._share = share

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        block = "#" if options.ascii_only else "█"
        length = round(BAR_WIDTH * self._share) or int(self._share >= SHOWN_FROM)
        yield Text.assemble((block * length, "cyan"), f" {self._share:.0%}")
