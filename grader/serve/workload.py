"""A workload of milestone 7 as a request carries it: every field with its unit and its bounds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

MOST = 1e9
Count = Annotated[int, Field(ge=1, le=10_000_000)]
Amount = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]


class _Strict(BaseModel):
    # Text is no number, and an unknown field is a mistyped one.
    model_config = ConfigDict(extra="forbid", strict=True)


class ModelShape(_Strict):
    """The model that is served: a dense decoder."""

    n_layers: Annotated[int, Field(ge=1, le=1_000, description="layers")]
    hidden_size: Annotated[Count, Field(description="width of the model")]
    n_heads: Annotated[Count, Field(description="query heads of a layer")]
    n_kv_heads: Annotated[
        Count, Field(description="KV heads of a layer; they divide the query heads")
    ]
    head_dim: Annotated[int, Field(ge=1, le=4_096, description="numbers in one head")]
    intermediate_size: Annotated[Count, Field(description="width of the MLP")]
    params_b: Annotated[Amount, Field(description="parameters, in units of 1e9")]

    @field_validator("n_kv_heads")
    @classmethod
    def _divides(cls, n_kv_heads: int, others: ValidationInfo) -> int:
        n_heads = others.data.get("n_heads")  # missing where it was refused itself
        if n_heads is not None and n_heads % n_kv_heads:
            raise ValueError(f"{n_kv_heads} does not divide n_heads = {n_heads}")
        return n_kv_heads


class GpuOffer(_Strict):
    """A GPU on offer."""

    gpu: Annotated[str, Field(min_length=1, max_length=60, description="name of the GPU class")]
    gpu_memory_gb: Annotated[
        float, Field(gt=0, le=10_000, allow_inf_nan=False, description="memory, decimal GB")
    ]
    gpu_bandwidth_gbps: Annotated[Amount, Field(description="memory bandwidth, GB/s")]
    gpu_tflops: Annotated[Amount, Field(description="dense 16-bit TFLOP/s")]
    usd_per_hour: Annotated[Amount, Field(description="price of one GPU, USD per hour")]


EXAMPLE: dict[str, Any] = {
    "model": {
        "n_layers": 32,
        "hidden_size": 4096,
        "n_heads": 32,
        "n_kv_heads": 8,
        "head_dim": 128,
        "intermediate_size": 14336,
        "params_b": 8.03,
    },
    "weight_bits": 16,
    "kv_bits": 16,
    "prompt_tokens": 6000,
    "output_tokens": 500,
    "requests_per_second": 10.0,
    "max_step_ms": 40.0,
    "gpus": [
        {
            "gpu": "H100-80GB",
            "gpu_memory_gb": 80.0,
            "gpu_bandwidth_gbps": 3350.0,
            "gpu_tflops": 989.0,
            "usd_per_hour": 2.8,
        },
    ],
}


class Workload(_Strict):
    """A workload as milestone 7 puts it."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [EXAMPLE]}
    )

    model: ModelShape
    weight_bits: Annotated[Literal[16, 8, 4], Field(description="bits of a weight")]
    kv_bits: Annotated[Literal[16, 8], Field(description="bits of a number in the KV cache")]
    prompt_tokens: Annotated[Count, Field(description="tokens of one prompt")]
    output_tokens: Annotated[Count, Field(description="tokens of one answer")]
    requests_per_second: Annotated[Amount, Field(description="requests that arrive in a second")]
    max_step_ms: Annotated[
        Amount, Field(description="the longest decode step promised, ms a token")
    ]
    gpus: Annotated[
        list[GpuOffer], Field(min_length=1, max_length=20, description="the GPUs on offer")
    ]

    @field_validator("gpus")
    @classmethod
    def _each_once(cls, gpus: list[GpuOffer]) -> list[GpuOffer]:
        names = [offer.gpu for offer in gpus]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} is offered twice; each GPU may be offered once")
        return gpus
