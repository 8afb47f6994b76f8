"""The pictures of a sized cache as inline SVG: layers, growth with the context, a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log2, log10

from markupsafe import Markup

from grader.html.charts import SLICE_WIDTH, rect, svg
from solutions.capacity.caches import Cache, HeadsCache
from solutions.capacity.fit import GB, Fit
from solutions.capacity.gpus import Gpu
from solutions.capacity.report import amount, kept_bytes
from solutions.capacity.size import CacheSize

WIDTH = 640
STRIP_HEIGHT = 96
LEAST = 2.0  # units of height or width below which something kept would not be seen
GROWTH_HEIGHT = 260
LEFT, RIGHT, BOTTOM, TOP = 72, 24, 38, 12  # room for the labels around the plot
CONTEXTS = (10, 20)  # powers of two between which growth is drawn: 1,024 to 1,048,576 tokens
MOST_REQUESTS = 40  # drawn one by one; more would be thinner than their edges


@dataclass(frozen=True)
class Growth:
    """The curve, and its figures for those who do not see it: tokens and bytes kept."""

    picture: Markup
    figures: tuple[tuple[int, int], ...]
    has_dot: bool  # whether the context asked for lies on the axis, and something is kept at it
    has_bound: bool  # whether some layer stops growing, so that a second curve is drawn


def _text(x: float, y: float, said: str, anchor: str = "middle") -> str:
    return f'<text class="label" x="{x:.5g}" y="{y:.5g}" text-anchor="{anchor}">{said}</text>'


def layer_strip(size: CacheSize) -> Markup:
    """Draw a column a layer, as high as what it keeps beside the layer that keeps most."""
    layers = size.plan.layers
    kept = [kept_bytes(layer, size) for layer in layers]
    highest, wide = max(*kept, 1), WIDTH / len(layers)
    drawn = [f'<path class="axis" d="M0 {STRIP_HEIGHT + 0.5}H{WIDTH}"/>']
    for number, (layer, n_bytes) in enumerate(zip(layers, kept, strict=True)):
        high = max(LEAST, (STRIP_HEIGHT - 4) * n_bytes / highest) if n_bytes else LEAST
        # One that keeps keys and a state beside them is drawn in the colour of its keys.
        kind = f"kind-{layer.kinds[0]}"
        gap = min(1.0, wide / 5)
        drawn.append(rect(kind, number * wide, STRIP_HEIGHT - high, wide - gap, high))
    counts = ", ".join(f"{count} {kind}" for kind, count in size.layers.items())
    label = f"What each of {len(layers)} layers keeps at {size.context_len:,} tokens: {counts}"
    return svg(STRIP_HEIGHT + 2, label, drawn, "strip", WIDTH)


def share_bar(part: int, whole: int) -> Markup:
    """Draw one group's share of all that is kept."""
    share = part / whole if whole else 0.0
    drawn = [rect("track", 0, 2, SLICE_WIDTH, 10)]
    if part:
        drawn.append(rect("column", 0, 2, max(LEAST, SLICE_WIDTH * share), 10))
    return svg(14, f"{share:.1%} of the request", drawn, "slice", SLICE_WIDTH)


def growth(size: CacheSize) -> Growth:
    """Draw what a request keeps against its context, and what it would without windows."""
    bits, state = size.engine.kv_bits, size.state_bytes + size.cross_bytes
    caches = list(size.plan.caches)
    unbounded = [_without_window(cache) for cache in caches]
    has_bound = unbounded != caches
    contexts = [2 ** (step / 4) for step in range(4 * CONTEXTS[0], 4 * CONTEXTS[1] + 1)]

    def kept(of: Sequence[Cache], context_len: float) -> int:
        return state + sum(cache.kv_bytes(int(context_len), bits) for cache in of)

    lines = {"kept": [kept(caches, tokens) for tokens in contexts]}
    if has_bound:
        lines["unbounded"] = [kept(unbounded, tokens) for tokens in contexts]
    here = 2 ** CONTEXTS[0] <= size.context_len <= 2 ** CONTEXTS[1]
    values = [value for line in lines.values() for value in line if value]
    low = floor(log10(min(values, default=1)))
    high = max(low + 1, ceil(log10(max(values, default=10))))

    def x_of(tokens: float) -> float:
        return LEFT + (log2(tokens) - CONTEXTS[0]) / (CONTEXTS[1] - CONTEXTS[0]) * (
            WIDTH - LEFT - RIGHT
        )

    def y_of(n_bytes: float) -> float:
        return TOP + (high - log10(n_bytes)) / (high - low) * (GROWTH_HEIGHT - TOP - BOTTOM)

    drawn = list(_grid(x_of, y_of, low, high))
    for kind, line in reversed(lines.items()):  # what is kept lies over what would be
        points = " ".join(
            f"{x_of(tokens):.5g},{y_of(value):.5g}"
            for tokens, value in zip(contexts, line, strict=True)
            if value
        )
        drawn.append(f'<polyline class="{kind}" points="{points}"/>')
    now = kept(caches, size.context_len)
    has_dot = here and now > 0
    if has_dot:
        x, y = x_of(size.context_len), y_of(now)
        drawn.append(f'<circle class="mark" cx="{x:.5g}" cy="{y:.5g}" r="5"/>')
    figures = tuple((2**power, kept(caches, 2**power)) for power in range(*CONTEXTS, 2))
    label = (
        f"Bytes kept for one request, from {figures[0][1]:,} at {figures[0][0]:,} tokens to "
        f"{lines['kept'][-1]:,} at {2 ** CONTEXTS[1]:,}"
    )
    return Growth(svg(GROWTH_HEIGHT, label, drawn, "growth", WIDTH), figures, has_dot, has_bound)


def _grid(
    x_of: Callable[[float], float], y_of: Callable[[float], float], low: int, high: int
) -> Iterator[str]:
    for power in range(CONTEXTS[0], CONTEXTS[1] + 1, 2):
        x = x_of(2**power)
        yield f'<path class="rule" d="M{x:.5g} {TOP}V{GROWTH_HEIGHT - BOTTOM}"/>'
        thousands = 2 ** (power - 10)
        named = f"{thousands}k" if thousands < 1_024 else f"{thousands // 1_024}M"
        yield _text(x, GROWTH_HEIGHT - BOTTOM + 17, named)
    yield _text((LEFT + WIDTH) / 2, GROWTH_HEIGHT - 3, "tokens of context (1k = 1,024)")
    for power in range(low, high + 1):
        y = y_of(10.0**power)
        yield f'<path class="rule" d="M{LEFT} {y:.5g}H{WIDTH - RIGHT}"/>'
        yield _text(LEFT - 6, y + 4, _decimal(power), "end")


def _decimal(power: int) -> str:
    names = ("B", "kB", "MB", "GB", "TB", "PB")
    step = min(max(power, 0) // 3, len(names) - 1)
    return f"{10 ** (power - 3 * step):,} {names[step]}"


def _without_window(cache: Cache) -> Cache:
    return replace(cache, window=None) if isinstance(cache, HeadsCache) else cache


def memory_bar(fit: Fit, gpu: Gpu) -> Markup:
    """Draw one GPU's memory: weights, overhead, each request, what is left over, the reserve."""
    whole = gpu.memory_gb * GB
    drawn, x = [rect("track", 0, 0, WIDTH, 40)], 0.0

    def add(kind: str, n_bytes: float, edge: float = 0.0) -> None:
        nonlocal x
        width = min(WIDTH - x, WIDTH * n_bytes / whole)
        if width > 0:
            drawn.append(rect(kind, x, 0, max(width - edge, width / 2), 40))
        x += max(0.0, width)

    add("weights", fit.weight_bytes)
    add("overhead", fit.overhead_bytes)
    requests = fit.n_requests
    if requests > MOST_REQUESTS:
        add("request", requests * fit.request_bytes)
    else:
        for _ in range(requests):
            add("request", fit.request_bytes, edge=1.0)
    start = max(x, WIDTH * fit.usable_bytes / whole)
    if start < WIDTH:
        drawn.append(rect("reserve", start, 0, WIDTH - start, 40))
    label = (
        f"Of {gpu.memory_gb:g} GB: weights {fit.weight_bytes / GB:,.1f}, overhead "
        f"{fit.overhead_bytes / GB:,.1f}, {requests:,} requests of {amount(fit.request_bytes)}, "
        f"{(whole - fit.usable_bytes) / GB:,.1f} in reserve"
    )
    return svg(40, label, drawn, "memory", WIDTH)
