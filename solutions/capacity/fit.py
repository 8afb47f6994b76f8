"""How many requests of a kind fit beside the weights on the GPUs of one tensor-parallel group."""

from __future__ import annotations

from dataclasses import dataclass

from solutions.capacity.gpus import Gpu
from solutions.capacity.refusal import ConfigRefusedError
from solutions.capacity.size import CacheSize

MEMORY_FRACTION = 0.92  # of a GPU, as in the course; vLLM 0.33.0's default as well
GB = 1_000_000_000


@dataclass(frozen=True)
class Fit:
    """Bytes of one GPU, and the requests that the group holds; `quotient` is not rounded."""

    usable_bytes: float
    weight_bytes: float
    overhead_bytes: float
    request_bytes: int

    @property
    def free_bytes(self) -> float:
        """What weights and overhead leave."""
        return self.usable_bytes - self.weight_bytes - self.overhead_bytes

    @property
    def quotient(self) -> float:
        """Requests by division; negative where the weights alone are too large."""
        return self.free_bytes / self.request_bytes

    @property
    def n_requests(self) -> int:
        """Whole requests, never negative."""
        return max(0, int(self.quotient // 1))


def fit(
    size: CacheSize, gpu: Gpu, params_b: float, weight_bits: float, overhead_gb: float = 0.0
) -> Fit:
    """Return what fits: each GPU holds 1 / tp of the weights, its part of a request, its overhead.

    `params_b` in 1e9 parameters, `overhead_gb` in decimal GB on each GPU within the 92 %.
    """
    request = size.allocated_bytes_per_gpu
    if request == 0:
        raise ConfigRefusedError(["context"], "a request that holds nothing fits without end")
    return Fit(
        usable_bytes=MEMORY_FRACTION * gpu.memory_gb * GB,
        weight_bytes=params_b * GB * weight_bits / 8 / size.engine.tp,
        overhead_bytes=overhead_gb * GB,
        request_bytes=request,
    )
