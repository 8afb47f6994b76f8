"""A sized cache as one self-contained page: what each layer keeps, how it grows, what fits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from grader.html.page import fill
from solutions.capacity.pictures import growth, layer_strip, memory_bar, share_bar
from solutions.capacity.report import (
    OnGpu,
    amount,
    fit_lines,
    groups,
    kept_bytes,
    request_lines,
    spans,
)
from solutions.capacity.size import CacheSize

TEMPLATES = Path(__file__).parent / "templates"
KINDS = {
    "full": "attends to every token",
    "sliding": "attends to a sliding window",
    "chunked": "attends within a chunk",
    "latent": "keeps a latent for all heads (MLA)",
    "compressed": "keeps a window and compressed entries",
    "state": "keeps a state of constant size",
    "cross": "attends to an encoder's tokens",
    "shared": "reads another layer's cache",
    "none": "keeps nothing",
}


@dataclass(frozen=True)
class Row:
    """Layers that keep the same for the same reason."""

    layers: str
    n_layers: int
    kinds: tuple[str, ...]
    kept: str
    share: Markup
    rule: str
    facts: tuple[str, ...]


def as_page(size: CacheSize, on: OnGpu | None, name: str) -> str:
    """Return the page: nothing in it is fetched or run, and text of the file stays text."""
    plan = size.plan
    whole = sum(kept_bytes(layer, size) for layer in plan.layers)
    rows = []
    for group in groups(plan.layers):
        kept = kept_bytes(group[0], size) * len(group)
        rows.append(
            Row(
                layers=spans([layer.index for layer in group]),
                n_layers=len(group),
                kinds=group[0].kinds,
                kept=amount(kept),
                share=share_bar(kept, whole),
                rule=group[0].rule,
                facts=tuple(map(str, group[0].facts)),
            )
        )
    drawn = growth(size)
    return fill(
        "capacity.html",
        templates=TEMPLATES,
        own_css=(TEMPLATES / "capacity.css").read_text(encoding="utf-8"),
        file=name,
        size=size,
        kinds=[(kind, count, KINDS[kind]) for kind, count in size.layers.items()],
        strip=layer_strip(size),
        rows=rows,
        request=tuple(request_lines(size)),
        growth=drawn,
        amount=amount,
        machine=None if on is None else on.told(size.engine.tp),
        memory=None if on is None else memory_bar(on.fit, on.gpu),
        fits=() if on is None else tuple(fit_lines(on, size)),
        notes=(*size.notes, *(() if on is None else on.notes)),
    )
