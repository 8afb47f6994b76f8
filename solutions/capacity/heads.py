"""How many KV heads a layer keeps and how wide they are, in every spelling that families use."""

from __future__ import annotations

from dataclasses import dataclass

from solutions.capacity.facts import Fact
from solutions.capacity.reader import Reader, shown

QUERY_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS = (
    *("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads"),
    *("attn_config.kv_n_heads", "num_attention_groups", "num_query_groups"),
)
WIDTH = ("hidden_size", "n_embd", "d_model", "n_embed", "model_dim")
HEAD_SIZE = ("head_dim", "attention_head_dim", "kv_channels", "hidden_size_per_head")


@dataclass(frozen=True)
class Heads:
    """KV heads of one kind of layer: how many, and how many numbers in a key and in a value."""

    n_kv_heads: Fact
    key_dim: Fact
    value_dim: Fact

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Return the facts, a value as wide as a key told once."""
        same = self.key_dim.key == self.value_dim.key
        return (
            (self.n_kv_heads, self.key_dim)
            if same
            else (self.n_kv_heads, self.key_dim, self.value_dim)
        )


def query_heads(reader: Reader) -> Fact:
    """Return the number of query heads."""
    return reader.need("n_heads", QUERY_HEADS)


def heads_of(reader: Reader) -> Heads:
    """Return the heads that the file's plain keys describe."""
    key_dim = head_dim(reader)
    value_dim = reader.fact("value_dim", ["v_head_dim"], least=0)
    if value_dim is None or value_dim.value == 0:  # 0: a latent attention that is switched off
        value_dim = key_dim
    return Heads(kv_heads(reader), key_dim, value_dim)


def _prefixed(reader: Reader, prefix: str) -> Heads:
    plain = heads_of(reader)
    key_dim = reader.fact("key_dim", [f"{prefix}head_dim"]) or plain.key_dim
    return Heads(
        reader.fact("n_kv_heads", [f"{prefix}num_key_value_heads"]) or plain.n_kv_heads,
        key_dim,
        reader.fact("value_dim", [f"{prefix}v_head_dim"])
        or (key_dim if plain.value_dim.key == plain.key_dim.key else plain.value_dim),
    )


def kv_heads(reader: Reader) -> Fact:
    """Return the number of KV heads: flags of old families first, then the number by its names."""
    told = (rule(reader) for rule in (_falcon, _multi_query, _chatglm, _named))
    found = next((fact for fact in told if fact is not None), None)
    if found is None:
        found = reader.fact("n_kv_heads", KV_HEADS)
    queries = reader.fact("n_heads", QUERY_HEADS)
    if found is None:
        if queries is None:
            reader.refuse(
                [*QUERY_HEADS[:3], *KV_HEADS[:3]], "missing: neither query nor KV heads are given"
            )
        return Fact(
            "n_kv_heads", queries.value, queries.key, _from("one for each query head", queries)
        )
    if queries is not None and queries.value % found.value:
        reader.refuse(
            [found.key.removeprefix(reader.path), queries.key.removeprefix(reader.path)],
            f"{queries.value:,} query heads cannot share {found.value:,} KV heads evenly",
        )
    return found


def _falcon(reader: Reader) -> Fact | None:
    if reader.raw("new_decoder_architecture") is None:
        return None
    if reader.flag("new_decoder_architecture"):
        reader.flag("multi_query")
        return None  # the number decides, whatever `multi_query` says
    if not reader.flag("multi_query"):
        queries = query_heads(reader)
        _agrees(reader, "multi_query", queries.value)
        return Fact("n_kv_heads", queries.value, queries.key, "multi_query is off: one for each")
    for key in KV_HEADS:
        reader.given(key)  # old Falcon files name as many KV heads as query heads and have one
    return Fact("n_kv_heads", 1, reader.where("multi_query"), "on, and the decoder is the old one")


def _multi_query(reader: Reader) -> Fact | None:
    if reader.raw("multi_query") is None or reader.raw("new_decoder_architecture") is not None:
        return None
    if not reader.flag("multi_query"):
        return None
    _agrees(reader, "multi_query", 1)
    return Fact("n_kv_heads", 1, reader.where("multi_query"), "on: all queries share one head")


def _chatglm(reader: Reader) -> Fact | None:
    if reader.raw("multi_query_attention") is None:
        return None
    if reader.flag("multi_query_attention"):
        right = reader.need("n_kv_heads", ["multi_query_group_num"])
        rule = "multi_query_attention is on"
    else:
        reader.given("multi_query_group_num")
        right, rule = query_heads(reader), "multi_query_attention is off"
    _agrees(reader, "multi_query_attention", right.value)
    return Fact("n_kv_heads", right.value, right.key, rule)


NAMED = {
    "attn_config.attn_type": {
        "multihead_attention": "heads",
        "grouped_query_attention": "stated",
        "multiquery_attention": "one",
    },
    "attention_head_type": {"multihead": "heads", "multiquery": "one"},
}
"""Words for the kind of attention: MPT's, and SantaCoder's in its own code."""


def _named(reader: Reader) -> Fact | None:
    for key, kinds in NAMED.items():
        kind = reader.given(key)
        if kind is None:
            continue
        if not isinstance(kind, str) or kind not in kinds:
            reader.refuse([key], f"unknown kind of attention {shown(kind)}")
        if kinds[kind] == "stated":
            return None
        right = query_heads(reader).value if kinds[kind] == "heads" else 1
        _agrees(reader, key, right)
        return Fact("n_kv_heads", right, reader.where(key), f"it is {kind}")
    return None


def _agrees(reader: Reader, key: str, right: int) -> None:
    """Refuse a number of KV heads in the file that differs from what another key means."""
    stated = reader.fact("n_kv_heads", KV_HEADS)
    if stated is not None and stated.value != right:
        reader.refuse(
            [key, stated.key.removeprefix(reader.path)],
            f"the first means {right:,} KV heads here, the second says {stated.value:,}",
        )


TWICE_AS_WIDE = ("zamba", "zamba2")  # attention sees the stream and the embedding side by side


def head_dim(reader: Reader) -> Fact:
    """Return how many numbers a head has: the file's own, or the width over the query heads."""
    keys: tuple[str, ...] = HEAD_SIZE
    if reader.family.state in TWICE_AS_WIDE:
        reader.given("kv_channels")  # that of the width, while attention sees twice the width
        keys = ("attention_head_dim",)
    found = reader.fact("key_dim", keys)
    if found is not None:
        return found
    width, queries = reader.fact("hidden_size", WIDTH), query_heads(reader)
    if width is None:
        reader.refuse(
            [*WIDTH[:3], *HEAD_SIZE[:2]], "missing: the size of a head follows from none of these"
        )
    seen = width.value * (2 if reader.family.state in TWICE_AS_WIDE else 1)
    if seen % queries.value:
        reader.refuse(
            [width.key.removeprefix(reader.path), queries.key.removeprefix(reader.path)],
            f"{seen:,} over {queries.value:,} heads is no whole number, and no head_dim is given",
        )
    twice = "2 * " if seen != width.value else ""
    rule = _from(f"{twice}{width.key} / {queries.key}", width, queries)
    return Fact("key_dim", seen // queries.value, width.key, rule)


def _from(rule: str, *facts: Fact) -> str:
    """Say with a rule which of the numbers it took were not in the file."""
    unstated = [f"{fact.key}: {fact.rule}" for fact in facts if fact.rule != "stated"]
    return "; ".join([rule, *unstated])


def full_heads(reader: Reader) -> Heads:
    """Return the heads of layers that attend to everything beside layers that do not.

    Gemma 4 makes them wider and fewer.
    """
    plain = heads_of(reader)
    key_dim = reader.fact("key_dim", ["global_head_dim"])
    few = reader.fact("n_kv_heads", ["num_global_key_value_heads"])
    if few is not None and reader.flag("attention_k_eq_v") is False:
        few = None  # the class reads it only where keys serve as values
    if key_dim is None and few is None:
        return plain
    return Heads(
        few or plain.n_kv_heads,
        key_dim or plain.key_dim,
        key_dim or plain.value_dim,
    )


def sliding_heads(reader: Reader) -> Heads:
    """Return the heads of layers with a window, where the file tells them apart."""
    place = "attention_other_setting"
    if reader.family.plan.startswith("flags"):
        reader.need("n_kv_heads", ["swa_num_key_value_heads"])  # a class doubles them unasked
    if reader.given(place) is not None:
        kind = reader.given(f"{place}.attention_type")
        if kind not in (None, "sliding_attention"):
            reader.refuse([f"{place}.attention_type"], f"expected sliding_attention: {shown(kind)}")
        plain = heads_of(reader)
        key_dim = reader.fact("key_dim", [f"{place}.head_dim"]) or plain.key_dim
        few = reader.fact("n_kv_heads", [f"{place}.num_attention_groups"])
        return Heads(few or plain.n_kv_heads, key_dim, key_dim)
    return _prefixed(reader, "swa_")
