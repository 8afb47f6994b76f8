"""The runs table: its columns, in order, and which of them are raw numbers or labels."""

SHAPE_COUNTS = (
    "n_layers",
    "hidden_size",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "intermediate_size",
)
"""The whole numbers of a model's shape."""

COLUMNS = (
    "run_id",
    "model",
    *SHAPE_COUNTS,
    "params_b",  # 1e9 parameters
    "weight_bits",
    "kv_bits",
    "gpu",
    "gpu_memory_gb",  # decimal GB
    "gpu_bandwidth_gbps",  # GB/s
    "gpu_tflops",  # dense 16-bit TFLOP/s
    "batch_size",
    "context_len",  # tokens in the cache of each request
    "decode_step_ms",  # one step of the whole batch
    "tokens_per_s",
)
LABELS = ("decode_step_ms", "tokens_per_s")
TEXT = ("run_id", "model", "gpu")
RAW_COLUMNS = tuple(name for name in COLUMNS if name not in LABELS + TEXT)
"""The 14 numeric columns before the labels, nothing derived."""
