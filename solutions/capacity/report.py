"""A sized cache in words and as JSON: each line a figure and the reasoning behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from solutions.capacity.caches import CrossCache, HeadsCache, StateCache
from solutions.capacity.engine import VERSION
from solutions.capacity.fit import GB, MEMORY_FRACTION, Fit
from solutions.capacity.gpus import Gpu
from solutions.capacity.plan import Layer
from solutions.capacity.size import CacheSize

GIB = 2**30
MB, MIB = 1_000_000, 2**20
WIDTH = 26


@dataclass(frozen=True)
class OnGpu:
    """What fits on a kind of GPU. `weights` says where their number comes from."""

    fit: Fit
    gpu: Gpu
    weights: str
    weight_bits: float
    notes: tuple[str, ...] = ()

    def told(self, tp: int) -> str:
        """Name the group of `tp` GPUs and their memory."""
        many = f"{tp} x {self.gpu.name}, each" if tp > 1 else self.gpu.name
        return f"{many} with {self.gpu.memory_gb:g} GB"


def amount(n_bytes: float) -> str:
    """Show bytes exactly, and in both units that people mix up."""
    text = f"{n_bytes:,.2f}".removesuffix(".00")
    if n_bytes < MB:
        return f"{text} bytes"
    if n_bytes < GB:
        return f"{text} bytes ({n_bytes / MB:,.2f} MB, {n_bytes / MIB:,.2f} MiB)"
    return f"{text} bytes ({n_bytes / GB:,.2f} GB, {n_bytes / GIB:,.2f} GiB)"


def groups(layers: Iterable[Layer]) -> list[list[Layer]]:
    """Put layers that keep the same for the same reason together, in order of first appearance."""
    alike: dict[tuple[Any, ...], list[Layer]] = {}
    for layer in layers:
        alike.setdefault((layer.caches, layer.rule, layer.facts), []).append(layer)
    return list(alike.values())


def spans(numbers: list[int]) -> str:
    """Write layer numbers briefly: 0-3, 5, 7-9."""
    told: list[list[int]] = []
    for number in numbers:
        if told and number == told[-1][-1] + 1:
            told[-1] = [told[-1][0], number]
        else:
            told.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in told)


def as_text(size: CacheSize) -> str:
    """Return the breakdown by layer and the figures of one request, for a terminal."""
    plan, engine = size.plan, size.engine
    counts = ", ".join(f"{count} {kind}" for kind, count in size.layers.items())
    lines = [f"{plan.model_type}: {len(plan.layers)} layers ({counts})", f"  {plan.rule}", ""]
    for group in groups(plan.layers):
        first = group[0]
        kept = kept_bytes(first, size) * len(group)
        lines.append(
            f"{len(group)} x {' + '.join(first.kinds)}, layers "
            f"{spans([layer.index for layer in group])}: {amount(kept)}"
        )
        lines.append(f"  {first.rule}")
        lines += [f"    {fact}" for fact in first.facts]
    lines += ["", f"One request at {size.context_len:,} tokens, {engine.kv_bits}-bit KV cache"]
    lines += [f"  {name:{WIDTH}} {figure}" for name, figure in request_lines(size)]
    lines += [f"Note: {note}." for note in size.notes]
    return "\n".join(lines)


def _copied(size: CacheSize) -> str:
    """Say what a tensor-parallel group keeps more than once."""
    if "latent" in size.layers or "compressed" in size.layers:
        return "every GPU keeps the latents, which belong to all heads"
    heads = [c.n_kv_heads for c in size.plan.caches if isinstance(c, HeadsCache | CrossCache)]
    if heads and min(heads) < size.engine.tp:
        many = "the one KV head is" if min(heads) == 1 else f"{min(heads)} KV heads are"
        return f"{many} copied until each GPU has one"
    return "KV heads are shared out evenly"


def kept_bytes(layer: Layer, size: CacheSize) -> int:
    """Return what one layer keeps, growing and constant, before blocks."""
    states = [cache for cache in layer.caches if isinstance(cache, StateCache)]
    crosses = [cache for cache in layer.caches if isinstance(cache, CrossCache)]
    return (
        sum(cache.kv_bytes(size.context_len, size.engine.kv_bits) for cache in layer.caches)
        + sum(cache.state_bytes() for cache in states)
        + sum(cache.encoder_bytes(size.encoder_len, size.engine.kv_bits) for cache in crosses)
    )


def request_lines(size: CacheSize) -> Iterable[tuple[str, str]]:
    """Yield each figure of one request: its name, or none where it goes on, and what it is."""
    engine = size.engine
    together = "the layers above together, before whole blocks and copies"
    yield "grows with the context", f"{amount(size.kv_bytes)}: {together}"
    still = "in the layers that still grow at this context"
    yield "the next token adds", f"{amount(size.kv_bytes_per_token)}: {still}"
    if "state" in size.layers:
        yield "constant state", f"{amount(size.state_bytes)}, all of it in 16 bits"
        yield "", f"{amount(size.state_bytes_fp32)}, recurrent part in float32"
        yield "", f"{amount(size.state_bytes_engine)}, as {VERSION} keeps it by default"
    if "cross" in size.layers:
        told = f"{amount(size.cross_bytes)} for {size.encoder_len:,} encoder tokens"
        yield "cross attention", told
    copies = f" on each of {engine.tp} GPUs" if engine.tp > 1 else ""
    blocks = f"whole blocks of {engine.block_size} tokens"
    if size.layers.get("sliding"):
        blocks += ", and one more for a window that begins inside one"
    yield f"{VERSION} sets aside", f"{amount(size.allocated_bytes_per_gpu)}{copies}: {blocks}"
    if engine.tp > 1:
        yield "", f"{amount(size.allocated_bytes)} on all of them: {_copied(size)}"
    if size.batch_size > 1:
        yield f"a batch of {size.batch_size:,}", f"{amount(size.batch_kv_bytes)} kept"
        yield "", f"{amount(size.batch_allocated_bytes)} set aside"


def fit_lines(on: OnGpu, size: CacheSize) -> Iterable[tuple[str, str]]:
    """Yield each term of how many requests fit: its name and its amount with the reason."""
    found, tp = on.fit, size.engine.tp
    rest = (1 - MEMORY_FRACTION) * on.gpu.memory_gb
    share = f", 1/{tp} of them here" if tp > 1 else ""
    yield (
        "usable",
        f"{amount(found.usable_bytes)}: {MEMORY_FRACTION:.0%}; the other {rest:.1f} GB are for "
        "activations, graphs and the allocator",
    )
    bits = f"{on.weight_bits:g} bits each{share}"
    yield "weights", f"{amount(found.weight_bytes)}: {bits}; {on.weights}"
    yield "overhead", f"{amount(found.overhead_bytes)}: --overhead-gb"
    yield "left for requests", amount(max(0.0, found.free_bytes))
    yield "requests at a time", f"{found.n_requests:,} ({found.quotient:,.3f} by division)"
    if size.batch_size > 1:
        verdict = "fits" if size.batch_size <= found.n_requests else "does not fit"
        yield f"a batch of {size.batch_size:,}", verdict


def fit_text(on: OnGpu, size: CacheSize) -> str:
    """Return how many requests fit, each term with its reason."""
    lines = ["", f"On {on.told(size.engine.tp)}"]
    lines += [f"  {name:{WIDTH}} {told}" for name, told in fit_lines(on, size)]
    lines += [f"Note: {note}." for note in on.notes]
    return "\n".join(lines)


def as_json(size: CacheSize, found: Fit | None) -> dict[str, Any]:
    """Return everything as JSON types; bytes are of one request unless a name says otherwise."""
    plan, engine = size.plan, size.engine
    return {
        "schema": 1,
        "model_type": plan.model_type,
        "context_len": size.context_len,
        "batch_size": size.batch_size,
        "kv_bits": engine.kv_bits,
        "tp": engine.tp,
        "block_size": engine.block_size,
        "encoder_len": size.encoder_len,
        "engine": VERSION,
        "kv_bytes": size.kv_bytes,
        "kv_bytes_per_token": size.kv_bytes_per_token,
        "state_bytes": size.state_bytes,
        "state_bytes_fp32_ssm": size.state_bytes_fp32,
        "state_bytes_engine": size.state_bytes_engine,
        "cross_bytes": size.cross_bytes,
        "allocated_bytes": size.allocated_bytes,
        "allocated_bytes_per_gpu": size.allocated_bytes_per_gpu,
        "batch_kv_bytes": size.batch_kv_bytes,
        "batch_allocated_bytes": size.batch_allocated_bytes,
        "layers": dict(size.layers),
        "rule": plan.rule,
        "notes": list(size.notes),
        "breakdown": [
            {
                "layers": [layer.index for layer in group],
                "kinds": list(group[0].kinds),
                "kv_bytes_per_layer": sum(
                    cache.kv_bytes(size.context_len, engine.kv_bits) for cache in group[0].caches
                ),
                "rule": group[0].rule,
                "facts": [
                    {"name": f.name, "value": f.value, "key": f.key, "rule": f.rule}
                    for f in group[0].facts
                ],
            }
            for group in groups(plan.layers)
        ],
        "concurrency": found
        and {
            "requests": found.n_requests,
            "quotient": found.quotient,
            "usable_bytes": found.usable_bytes,
            "weight_bytes": found.weight_bytes,
            "overhead_bytes": found.overhead_bytes,
            "request_bytes": found.request_bytes,
        },
    }
