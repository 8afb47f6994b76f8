"""Small pictures as inline SVG: colours from the page's style, the figures in their text."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from grader.html.scale import SHOWN, Scale

WIDTH = 240
SLICE_WIDTH = 140


def svg(height: int, label: str, parts: Sequence[str], kind: str, width: int = WIDTH) -> Markup:
    """Return a picture whose text alternative is `label`; the parts hold numbers alone."""
    return Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        kind, width, height, label, Markup("".join(parts))
    )


def rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle, a part of a picture, to a hundredth of its units."""
    return (
        f'<rect class="{kind}" x="{x:.5g}" y="{y:.5g}" width="{width:.5g}" height="{height:.5g}"/>'
    )


def bullet(figure: float, bar: float) -> Markup:
    """Draw a figure against its bar: the zone that passes, the zone of half points, a mark."""
    scale = Scale.of(bar)
    inside = scale.inside(figure)
    place = scale.at(figure)
    label = f"{figure:.4f}, {'inside' if inside else 'outside'} the bar of {scale.words}"
    at = WIDTH / SHOWN
    mark = 6 + place * (WIDTH - 12)
    shape = (
        f'<path class="mark" d="M{WIDTH - 12} 4l11 8l-11 8z"/>'
        if scale.beyond(figure)
        else f'<path class="mark" d="M{mark:.4g} 4l6 8l-6 8l-6 -8z"/>'
    )
    return svg(
        24,
        label,
        (
            rect("track", 0, 7, WIDTH, 10),
            rect("half", at, 7, at / 4, 10),
            rect("zone", 0, 7, at, 10),
            f'<path class="bar" d="M{at:.4g} 1V23"/>',
            shape,
        ),
        "bullet",
    )


def slice_bar(share: float, of_count: float | None) -> Markup:
    """Draw a slice's share of an error as a bar, with a mark at its share of the runs or plans."""
    drawn = [rect("track", 0, 2, SLICE_WIDTH, 10)]
    drawn.append(rect("column", 0, 2, share * SLICE_WIDTH, 10))
    if of_count is None:
        return svg(14, f"{share:.0%}", drawn, "slice", SLICE_WIDTH)
    drawn.append(f'<path class="bar" d="M{1 + of_count * (SLICE_WIDTH - 2):.4g} 0V14"/>')
    label = f"{share:.0%} of the error, {of_count:.0%} of the count"
    return svg(14, label, drawn, "slice", SLICE_WIDTH)


def shares(parts: Sequence[tuple[str, str, int]]) -> Markup:
    """Draw counts as one bar of parts; each has a class, a word and a count."""
    total = sum(count for _, _, count in parts)
    drawn, x = [rect("track", 0, 0, 160, 12)], 0.0
    for kind, _, count in parts:
        width = 160 * count / total if total else 0.0
        if count:
            drawn.append(rect(kind, x, 0, max(1.0, width - 1), 12))
        x += width
    label = ", ".join(f"{count} {word}" for _, word, count in parts if count) or "none"
    return svg(12, label, drawn, "shares", 160)


def columns(counts: Sequence[int], label: str) -> Markup:
    """Draw counts as columns side by side, the highest as high as the picture."""
    highest, wide = max(*counts, 1), 480 / len(counts)
    drawn = [
        rect("column", i * wide + 1, 100 - 96 * count / highest, wide - 2, 96 * count / highest)
        for i, count in enumerate(counts)
        if count
    ]
    drawn.append('<path class="axis" d="M0 100.5H480"/>')
    return svg(102, label, drawn, "columns", 480)


def spread(figures: Sequence[float], bar: float, label: str) -> Markup:
    """Draw how figures lie beside their bar, as columns; the last one holds all that lie beyond."""
    scale, n_bins = Scale.of(bar), 50
    counts = [0] * (n_bins + 1)
    for figure in figures:
        place = n_bins if scale.beyond(figure) else min(n_bins - 1, int(scale.at(figure) * n_bins))
        counts[place] += 1
    highest, wide = max(counts), 9.0
    drawn = [rect("zone", 0, 0, n_bins * wide / SHOWN, 60)]
    drawn.append(rect("half", n_bins * wide / SHOWN, 0, n_bins * wide / SHOWN / 4, 60))
    for i, count in enumerate(counts):
        if count:
            x = i * wide + (1 if i < n_bins else 12)
            tall = max(2.0, 54 * count / highest)
            drawn.append(rect("column", x, 60 - tall, wide - 2, tall))
    at = n_bins * wide / SHOWN
    drawn.append(
        f'<path class="axis" d="M0 60.5H{n_bins * wide:g}M{n_bins * wide + 10:g} 60.5h12"/>'
    )
    drawn.append(f'<path class="bar" d="M{at:g} 0V64"/>')
    return svg(64, label, drawn, "spread", 480)
