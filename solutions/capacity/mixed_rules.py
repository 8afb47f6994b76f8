"""Plans of layers of different makes: attention among states, cross attention, index keys."""

from __future__ import annotations

from collections.abc import Sequence

from solutions.capacity.plans import (
    LayerPlan,
    Rule,
    index_set,
    n_layers,
    trimmed,
    windows_off,
)
from solutions.capacity.reader import Reader, shown
from solutions.capacity.window_rules import everywhere

LETTERS = {"M": "state", "*": "full", "-": "none", "E": "none"}


def _offset(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    period = reader.need("attn_layer_period", ["attn_layer_period"]).value
    offset = reader.need("attn_layer_offset", ["attn_layer_offset"], least=0).value
    if offset >= period:
        reader.refuse(["attn_layer_offset", "attn_layer_period"], "no layer would have attention")
    windows_off(reader)
    return LayerPlan(
        tuple("full" if i % period == offset else "state" for i in range(n_layers(reader))),
        f"attention in layer {offset} of each {period}",
        ("attn_layer_period", "attn_layer_offset"),
    )


def _indices(reader: Reader, args: Sequence[str]) -> LayerPlan:
    (key,) = args
    count = n_layers(reader)
    chosen = index_set(reader, key, reader.listed(key), count)
    windows_off(reader)
    return LayerPlan(
        tuple("full" if i in chosen else "state" for i in range(count)),
        f"{key} lists the layers with attention",
        (key,),
    )


def _letters(reader: Reader, args: Sequence[str]) -> LayerPlan:
    (key,) = args
    pattern = reader.given(key)
    if not isinstance(pattern, str) or not pattern:
        reader.refuse(
            ["layer_types", "layers_block_type", key], f"missing or no text: {shown(pattern)}"
        )
    letters = trimmed(reader, key, list(pattern))
    unknown = sorted(set(letters) - set(LETTERS))
    if unknown:
        reader.refuse([key], f"unknown letters {shown(''.join(unknown))}")
    windows_off(reader)
    rule = "M keeps a state, * attends, - and E are feed-forward blocks without a cache"
    return LayerPlan(tuple(LETTERS[letter] for letter in letters), rule, (key,))


def _cycle(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    key, other = "_block_types", "block_types"  # the second is what newer classes save beside it
    if not reader.states(key):
        key, other = other, key
    blocks = reader.listed(key)
    if reader.given(other) not in (None, blocks):
        reader.refuse([key, other], "they list different blocks")
    words = {"recurrent": "state", "attention": "sliding"}
    if blocks is None:
        reader.refuse([key], "missing: it says which blocks repeat")
    for block in blocks:
        if not isinstance(block, str) or block not in words:
            reader.refuse([key], f"unknown block {shown(block)}")
    kinds = tuple(words[blocks[i % len(blocks)]] for i in range(n_layers(reader)))
    return LayerPlan(kinds, f"{key} repeats; attention has a window", (key,))


def _one_based(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    place = "linear_attn_config"
    full, linear = (
        index_set(reader, f"{place}.{key}", reader.listed(f"{place}.{key}"), count, first=1)
        for key in ("full_attn_layers", "kda_layers")
    )
    if full & linear or len(full) + len(linear) != count:
        reader.refuse(
            [f"{place}.full_attn_layers", f"{place}.kda_layers"],
            f"together they must name each of the {count} layers once, counted from 1",
        )
    return LayerPlan(
        tuple("full" if i in full else "state" for i in range(count)),
        "linear_attn_config lists the layers of each kind, counted from 1",
        (place,),
    )


def _type_numbers(reader: Reader, args: Sequence[str]) -> LayerPlan:
    (key,) = args
    numbers = reader.listed(key)
    if numbers is None:
        return (
            _parity(reader, args) if reader.family.state else everywhere("full", "")(reader, args)
        )
    numbers = trimmed(reader, key, numbers)
    return LayerPlan(
        tuple("full" if reader.checked(key, number, 0, 1) else "state" for number in numbers),
        f"{key}: 1 is attention, 0 linear attention",
        (key,),
    )


def _parity(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    windows_off(reader)
    kinds = tuple("state" if i % 2 else "full" for i in range(n_layers(reader)))
    return LayerPlan(kinds, "every second layer is linear attention", ())


def _crossed(reader: Reader, args: Sequence[str]) -> LayerPlan:
    (key,) = args
    count = n_layers(reader)
    chosen = index_set(reader, key, reader.listed(key), count)
    kinds = tuple("cross" if i in chosen else "full" for i in range(count))
    return LayerPlan(kinds, f"{key} lists the layers that read the image only", (key,))


def _sparse(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    key = "sparse_attention_config.sparse_attention_freq"
    flags = reader.listed(key)
    windows_off(reader)
    if flags is None:
        return everywhere("full", "no sparse layers are listed")(reader, ())
    kinds = tuple(
        "indexed" if reader.checked(key, flag, 0, 1) else "full"
        for flag in trimmed(reader, key, flags)
    )
    return LayerPlan(kinds, f"{key}: 1 keeps an index key beside keys and values", (key,))


def _zamba(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    rest = _offset(reader, ())
    kinds = ("state", "state", "both", *("both" if k == "full" else k for k in rest.kinds[:-3]))
    return LayerPlan(kinds[: len(rest.kinds)], rest.rule, rest.keys)


def _samba_y(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    """The first half alternates states and windows; then one more state and one full layer, whose
    scan and cache the rest read: nothing of their own."""
    count, every = n_layers(reader), reader.need("mb_per_layer", ["mb_per_layer"]).value
    half = count // 2
    if every != 2 or count % 4:
        reader.refuse(["mb_per_layer"], "expected 2, and layers in fours: no other was released")
    reader.given("sliding_window")
    kinds = ["sliding" if i % 2 else "state" for i in range(half)] + ["state", "full"]
    rest = ["shared"] * (count - len(kinds))
    rule = f"windows and states by turns, layer {half + 1} attends to everything, the rest read it"
    return LayerPlan((*kinds, *rest), rule, ("mb_per_layer",))


def _must_list(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    reader.refuse(["layer_types", "layers_block_type"], "missing: it says what each layer is")


MIXED_RULES: dict[str, Rule] = {
    "offset": _offset,
    "indices": _indices,
    "letters": _letters,
    "cycle": _cycle,
    "one_based": _one_based,
    "type_numbers": _type_numbers,
    "crossed": _crossed,
    "sparse": _sparse,
    "zamba": _zamba,
    "samba_y": _samba_y,
    "must_list": _must_list,
}
"""By the first word of the `plan` column of model_types.csv."""
