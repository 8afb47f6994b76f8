"""`python -m solutions.capacity.collect DIR`: writes class_defaults.csv from transformers' source.

DIR is an unpacked transformers wheel. The source is parsed, never imported, so nothing else need be
installed. Only keys that shape a cache or the weights are kept, of model types in model_types.csv.
"""

from __future__ import annotations

import ast
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from solutions.capacity.tables import CLASS_DEFAULTS, families

KEYS = frozenset(
    {
        *("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"),
        *("num_decoder_layers", "hidden_size", "n_embd", "d_model", "num_attention_heads"),
        *("n_head", "n_heads", "num_heads", "attention_heads", "decoder_attention_heads"),
        *("num_key_value_heads", "num_kv_heads", "head_dim", "kv_channels", "d_kv", "v_head_dim"),
        *("multi_query", "new_decoder_architecture", "kv_lora_rank", "qk_rope_head_dim"),
        *("sliding_window", "use_sliding_window", "max_window_layers", "sliding_window_pattern"),
        *("global_attn_every_n_layers", "attention_chunk_size", "no_rope_layer_interval"),
        *("attn_layer_period", "attn_layer_offset", "attn_layer_indices", "layer_group_size"),
        *("cross_attention_layers", "num_kv_shared_layers", "attention_k_eq_v"),
        *("index_topk", "index_head_dim", "mamba_ssm_cache_dtype", "conv_L_cache"),
        *("mamba_d_state", "mamba_d_conv", "mamba_expand", "mamba_n_groups", "mamba_n_heads"),
        *("ssm_state_size", "state_size", "conv_kernel", "expand", "n_groups", "mamba_num_heads"),
        *("mamba_head_dim", "mamba_d_head", "mamba_d_ssm", "mamba_ngroups", "num_heads"),
        *("linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads"),
        *("linear_value_head_dim", "linear_conv_kernel_dim", "linear_head_dim", "conv1d_width"),
        *(
            "linear_num_heads",
            "short_conv_kernel_size",
            "lru_width",
            "attention_window_size",
            "tie_word_embeddings",
        ),
        *("intermediate_size", "vocab_size", "max_position_embeddings", "qk_nope_head_dim"),
        *("q_lora_rank", "attention_bias", "mlp_bias", "moe_intermediate_size"),
    }
)


def main(root: Path) -> None:
    """Write the table anew."""
    version = next(root.glob("transformers-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    wanted = {family.defaults for family in families().values()}
    rows = sorted(
        (model_type, key, json.dumps(value), f"transformers {version} models/{where}")
        for model_type, where, fields in _classes(root / "transformers" / "models")
        if model_type in wanted
        for key, value in fields.items()
        if key in KEYS and _plain(value)
    )
    with CLASS_DEFAULTS.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("model_type", "key", "value", "source"))
        table.writerows(rows)


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(entry, int) for entry in value)
    return isinstance(value, bool | int) or value == "float32"


def _classes(models: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in sorted(models.glob("*/configuration_*.py")):
        known: dict[str, dict[str, Any]] = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef):
                continue
            fields: dict[str, Any] = {}
            for base in node.bases:
                fields |= known.get(ast.unparse(base), {})
            fields |= dict(_fields(node))
            known[node.name] = fields
            if isinstance(fields.get("model_type"), str):
                yield fields["model_type"], str(path.relative_to(models)), fields


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            name, value = line.target.id, line.value
        elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            name, value = line.targets[0].id, line.value
        else:
            continue
        if value is None:
            continue
        try:
            yield name, ast.literal_eval(value)
        except ValueError:
            continue  # a call that makes a default, as of rotary settings


if __name__ == "__main__":
    main(Path(sys.argv[1]))
