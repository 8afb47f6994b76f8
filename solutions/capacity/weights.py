"""How many weights a decoder has, counted from its config where the matrices follow from it.

Matrices and embeddings are counted, biases and norms are not: they are a thousandth or less. What
kind of feed-forward block a model type has stands in model_types.csv (`mlp`: gated has three
matrices, plain two); where it is empty, or the file has parts whose weights are elsewhere (a vision
tower, states), the count cannot be told and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from solutions.capacity.facts import Fact
from solutions.capacity.heads import WIDTH, heads_of, query_heads
from solutions.capacity.latent import latent_of
from solutions.capacity.plans import n_layers
from solutions.capacity.reader import Reader
from solutions.capacity.refusal import ConfigRefusedError

VOCAB = ("vocab_size", "padded_vocab_size")
INNER = (
    *("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "ff_intermediate_size"),
    "ffn_config.ffn_hidden_size",
)
EXPERTS = (
    *("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    "ffn_config.moe_num_experts",
)
EXPERT_INNER = ("moe_intermediate_size", "expert_ffn_hidden_size")
POSITIONS = {
    "gpt2": ("n_positions", 0),
    "gpt_bigcode": ("n_positions", 0),
    "openai-gpt": ("n_positions", 0),
    "gpt_neo": ("max_position_embeddings", 0),
    "opt": ("max_position_embeddings", 2),
    "biogpt": ("max_position_embeddings", 2),
}
"""Types with a learned table of positions: its key, and rows that it has beyond that."""
TOWERS = ("vision_config", "audio_config", "visual", "vision_tower", "mm_vision_tower")


@dataclass(frozen=True)
class Weights:
    """A count of weights, and the sentence that says how it came about."""

    count: int
    rule: str


def count_weights(reader: Reader, outer_keys: tuple[str, ...] = ()) -> Weights:
    """Return the weights of the decoder in a section; `outer_keys` are those of the whole file."""
    family = reader.family
    towers = [key for key in TOWERS if key in outer_keys or reader.section.get(key)]
    if towers:
        raise ConfigRefusedError(towers, "weights beside the language model's are not in its keys")
    if family.mlp not in ("gated", "plain"):
        reader.refuse(["model_type"], f"the weights of {family.model_type} are not counted here")
    layers = n_layers(reader)
    width = reader.need("hidden_size", WIDTH).value
    vocab = reader.need("vocab_size", VOCAB).value
    tied = reader.flag("tie_word_embeddings")
    if tied is None:
        reader.refuse(["tie_word_embeddings"], "missing: is the output head a matrix of its own?")
    table = vocab * width * (1 if tied else 2)
    positions = 0
    if family.model_type in POSITIONS:
        key, more = POSITIONS[family.model_type]
        positions = (reader.need("positions", [key]).value + more) * width
    attention = _attention(reader, width, layers)
    feed_forward, experts = _feed_forward(reader, width, layers)
    count = table + positions + layers * attention + feed_forward
    parts = f"{layers} x {attention:,} attention + {feed_forward:,} feed-forward{experts}"
    head = "tied to the output head" if tied else "and an output head"
    rule = f"{table + positions:,} embeddings ({head}) + {parts}; biases and norms not counted"
    return Weights(count, rule)


def _attention(reader: Reader, width: int, layers: int) -> int:
    latent = latent_of(reader, layers)
    queries = query_heads(reader).value
    if latent is None:
        heads = heads_of(reader)
        keys = heads.n_kv_heads.value * (heads.key_dim.value + heads.value_dim.value)
        outs = queries * (heads.key_dim.value + heads.value_dim.value)
        return width * (keys + outs)
    nope = reader.need("qk_nope_head_dim", ["qk_nope_head_dim"], least=0).value
    value = reader.fact("v_head_dim", ["v_head_dim"])
    value_dim = value.value if value else width // queries
    query_dim = nope + latent.rope_dim.value
    low = reader.fact("q_lora_rank", ["q_lora_rank"])
    query = (width + queries * query_dim) * low.value if low else width * queries * query_dim
    down = width * (latent.latent_dim.value + latent.rope_dim.value)
    up = latent.latent_dim.value * queries * (nope + value_dim)
    return query + down + up + queries * value_dim * width


def _feed_forward(reader: Reader, width: int, layers: int) -> tuple[int, str]:
    matrices = 3 if reader.family.mlp == "gated" else 2
    inner = reader.fact("intermediate_size", INNER)
    if inner is None:
        if reader.family.mlp == "gated":
            reader.refuse(INNER[:1], "missing: the width of the feed-forward blocks")
        inner = Fact("intermediate_size", 4 * width, "hidden_size", "four times the width")
    experts = reader.fact("n_experts", EXPERTS, least=0)
    if experts is None or experts.value == 0:
        return layers * matrices * width * inner.value, ""
    sparse = _sparse_layers(reader, layers)
    own = reader.fact("expert_width", EXPERT_INNER) or inner
    shared = _shared_width(reader, own.value)
    one = experts.value * (matrices * own.value + 1) + matrices * shared  # the 1 is the router's
    dense = layers - sparse
    told = f" ({sparse} layers of {experts.value} experts)"
    return width * (sparse * one + dense * matrices * inner.value), told


def _shared_width(reader: Reader, expert_width: int) -> int:
    stated = reader.fact("shared_width", ["shared_expert_intermediate_size"], least=0)
    if stated is not None:
        return stated.value
    several = reader.fact("n_shared_experts", ["n_shared_experts", "num_shared_experts"], least=0)
    return (several.value if several else 0) * expert_width


def _sparse_layers(reader: Reader, layers: int) -> int:
    """Return how many layers have experts."""
    kinds = reader.given("mlp_layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return sum(kind == "sparse" for kind in kinds)
    frequency = reader.given("moe_layer_freq")
    if isinstance(frequency, list) and len(frequency) == layers:
        return sum(bool(flag) for flag in frequency)
    dense = reader.fact("first_k_dense_replace", ["first_k_dense_replace"], least=0)
    step = reader.fact("sparse_step", ["decoder_sparse_step", "interleave_moe_layer_step"])
    only = reader.given("mlp_only_layers")
    left_out = set(range(dense.value if dense else 0))
    left_out |= {i for i in only if isinstance(i, int)} if isinstance(only, list) else set()
    every = step.value if step else 1
    return sum((i + 1) % every == 0 and i not in left_out for i in range(layers))
