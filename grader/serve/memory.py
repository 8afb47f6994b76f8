"""What memory alone allows, by the public arithmetic of milestone 3's handout.

No planner is asked here. Sizes are decimal GB, 92 % of a GPU's memory may be used, the weights lie
there once, and each request keeps prompt and output in its cache. Fractions, so that a count is
exact for the decimals that were sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import Any

from pydantic import BaseModel, Field

from grader.serve.workload import GpuOffer, Workload

USABLE = Fraction(92, 100)
SHORTEST, LONGEST = 256, 262_144  # tokens: what a picture of contexts spans, if not more is asked
PER_DOUBLING = 6  # contexts drawn between one and twice it


class OnOneGpu(BaseModel):
    """How one GPU's memory is spent, in decimal GB."""

    gpu: str
    gpu_memory_gb: float
    usable_gb: float = Field(description="92 % of the memory")
    weights_gb: float
    cache_gb_per_request: float = Field(description="prompt and output of one request")
    requests_that_fit: int
    max_context_len: int = Field(description="tokens of a single request that is alone there")


class Line(BaseModel):
    """Requests that fit against context, of all GPUs on offer with the same memory."""

    gpu_memory_gb: float
    gpus: list[str]
    context_len: list[int] = Field(description="tokens of prompt and output; only where one fits")
    requests_that_fit: list[int]


class Memory(BaseModel):
    """The memory arithmetic of one workload."""

    kv_bytes_per_token: int = Field(description="of one request")
    context_len: int = Field(description="prompt_tokens + output_tokens")
    gpus: list[OnOneGpu]
    lines: list[Line]


def memory_of(workload: Workload) -> Memory:
    """Return what fits where, at the workload's context and at others."""
    offers = {offer.gpu_memory_gb: offer for offer in workload.gpus}
    return Memory(
        kv_bytes_per_token=int(_kv_bytes(workload)),
        context_len=context_len(workload),
        gpus=[_on_one(workload, offer) for offer in workload.gpus],
        lines=[
            _line(workload, offer, [o.gpu for o in workload.gpus if o.gpu_memory_gb == memory_gb])
            for memory_gb, offer in sorted(offers.items())
        ],
    )


def context_len(workload: Workload) -> int:
    """Return the tokens that one request has in its cache at the end."""
    return workload.prompt_tokens + workload.output_tokens


def weights_bytes(workload: Workload) -> Fraction:
    """Return the bytes of the weights: parameters times bits over eight."""
    return _exact(workload.model.params_b) * 10**9 * workload.weight_bits / 8


def requests_that_fit(workload: Workload, gpu_memory_gb: float, tokens: int) -> int:
    """Return how many requests of so many tokens one GPU holds; 0 where not even one fits."""
    return max(0, floor(_left_bytes(workload, gpu_memory_gb) / (tokens * _kv_bytes(workload))))


def _kv_bytes(workload: Workload) -> Fraction:
    shape = workload.model
    values = 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim
    return Fraction(values * workload.kv_bits, 8)


def _left_bytes(workload: Workload, gpu_memory_gb: float) -> Fraction:
    return USABLE * _exact(gpu_memory_gb) * 10**9 - weights_bytes(workload)


def _exact(number: float) -> Fraction:
    """Return the decimal number that was written, not its nearest binary one."""
    return Fraction(repr(number))


def _on_one(workload: Workload, offer: GpuOffer) -> OnOneGpu:
    memory_gb, tokens = offer.gpu_memory_gb, context_len(workload)
    return OnOneGpu(
        gpu=offer.gpu,
        gpu_memory_gb=memory_gb,
        usable_gb=float(USABLE * _exact(memory_gb)),
        weights_gb=float(weights_bytes(workload) / 10**9),
        cache_gb_per_request=float(tokens * _kv_bytes(workload) / 10**9),
        requests_that_fit=requests_that_fit(workload, memory_gb, tokens),
        max_context_len=_longest(workload, memory_gb),
    )


def _longest(workload: Workload, gpu_memory_gb: float) -> int:
    return max(0, floor(_left_bytes(workload, gpu_memory_gb) / _kv_bytes(workload)))


def _line(workload: Workload, offer: GpuOffer, gpus: Sequence[str]) -> Line:
    """Return one line, to the very last context that still fits once."""
    memory_gb, asked = offer.gpu_memory_gb, context_len(workload)
    last = _longest(workload, memory_gb)
    drawn = {*_contexts(max(LONGEST, 2 * asked)), asked, last}
    tokens = sorted(context for context in drawn if SHORTEST <= context <= last)
    fits = [requests_that_fit(workload, memory_gb, context) for context in tokens]
    return Line(
        gpu_memory_gb=memory_gb, gpus=list(gpus), context_len=tokens, requests_that_fit=fits
    )


def _contexts(longest: int) -> list[int]:
    found: list[Any] = [SHORTEST]
    while found[-1] < longest:
        found.append(SHORTEST * 2 ** (len(found) / PER_DOUBLING))
    return [round(context) for context in found]
