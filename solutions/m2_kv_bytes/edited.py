"""The functions of milestone 2 that mistakes edit, and the checks that many of them fail."""

PER_TOKEN, FOR_RUNS, FROM_CONFIG = (
    "kv_bytes_per_token",
    "kv_bytes_for_runs",
    "kv_bytes_from_config",
)
FIRST, KINDS, HEADS = "first", "kinds_of_layers", "kv_heads_of_layers"
BONUS = ("other_layer_plans", "chunked_attention", "shared_caches", "heads_by_layer")
SIZED = ("plain_configs", "other_spellings", "layers_that_hold_less", "latent_attention")
