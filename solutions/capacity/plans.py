"""Which layer is of which kind: the plan that a config spells out, or its class makes.

A plan in `model_types.csv` is the name of a rule here and its arguments, as in
`period sliding sliding_window_pattern`. Kinds: `full`, `sliding`, `chunked`, `state`, `both`
(attention and state in one layer), `local_state`, `cross`, `indexed` (sparse attention with index
keys of its own), `none`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from solutions.capacity.reader import MOST_LAYERS, Reader, shown

LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_transformer_layers")
MORE_LAYERS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
"""Layers that only draft tokens; a list may cover them behind the ordinary ones."""
LISTS = ("layer_types", "layers_block_type")
WORDS = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "state",
    "mamba": "state",
    "conv": "state",
    "hybrid": "both",
    "minimax_m3_sparse": "indexed",
    "indexed_attention": "full",  # the indexer is a fact of the latent cache
    "deepseek_sparse_attention": "full",
    "moe": "none",
    "mlp": "none",
}
LETTERS = {"M": "state", "*": "full", "-": "none", "E": "none"}


@dataclass(frozen=True)
class LayerPlan:
    """The kind of each layer, and the rule and keys that said so."""

    kinds: tuple[str, ...]
    rule: str
    keys: tuple[str, ...]


Rule = Callable[[Reader, Sequence[str]], LayerPlan]


def n_layers(reader: Reader, most: int = MOST_LAYERS) -> int:
    """Return the number of decoder layers."""
    found = reader.need("n_layers", LAYERS)
    if found.value > most:
        reader.refuse([found.key.removeprefix(reader.path)], f"more than {most:,} layers")
    return found.value


def layer_plan(reader: Reader) -> LayerPlan:
    """Return the plan: a list in the file decides, and a rule that contradicts it is refused."""
    name, *args = reader.family.plan.split()
    spelled = _spelled(reader)
    if spelled is None:
        return RULES[name](reader, args)
    if name in CHECKED and reader.states(args[-1]) and reader.given(args[-1]) is not None:
        made = RULES[name](reader, args)
        if made.kinds != spelled.kinds:
            reader.refuse([*spelled.keys, args[-1]], "the two give different plans of the layers")
    for key in (*args[1:], *BESIDE_A_LIST.get(name, ())):
        reader.given(key)
    if "sliding" not in spelled.kinds:
        reader.given("sliding_window")
    elif reader.flag("use_sliding_window") is False and reader.states("use_sliding_window"):
        reader.refuse(
            ["use_sliding_window", *spelled.keys],
            "the window is off, yet layers are said to have it",
        )
    return spelled


def _spelled(reader: Reader) -> LayerPlan | None:
    for key in LISTS:
        entries = reader.listed(key)
        if entries is None:
            continue
        entries = trimmed(reader, key, entries)
        for entry in entries:
            if not isinstance(entry, str) or entry not in WORDS:
                reader.refuse([key], f"unknown kind of layer {shown(entry)}")
        kinds = tuple(WORDS[entry] for entry in entries)
        return LayerPlan(kinds, f"{key} lists every layer", (key,))
    return None


def trimmed(reader: Reader, key: str, entries: list[Any]) -> list[Any]:
    """Return one entry a layer: those of draft layers go, a wrong length is refused."""
    layers = reader.fact("n_layers", LAYERS)
    if layers is None:
        return entries
    drafts = [reader.whole(more, least=0) or 0 for more in MORE_LAYERS]
    if len(entries) not in {layers.value, layers.value + max(drafts)}:
        reader.refuse(
            [key, layers.key.removeprefix(reader.path)],
            f"{len(entries):,} entries for {layers.value:,} layers",
        )
    return entries[: layers.value]


def _all(kind: str, rule: str) -> Rule:
    def plan(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
        windows_off(reader)
        return LayerPlan((kind,) * n_layers(reader), rule, ())

    return plan


def windows_off(reader: Reader) -> bool:
    """Tell whether the file's window is switched off, and account for the keys that do it."""
    window = reader.raw("sliding_window")
    if window in (None, 0, False) or reader.flag("use_sliding_window") is False:
        for key in ("use_sliding_window", "max_window_layers"):
            reader.given(key)
        return True
    reader.seen.discard("sliding_window")  # only a rule that uses it may call it read
    reader.seen.discard("use_sliding_window")
    return False


def _window(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    if windows_off(reader):
        return LayerPlan(("full",) * count, "no sliding_window is set", ("sliding_window",))
    reader.flag("use_sliding_window")
    return LayerPlan(("sliding",) * count, "every layer has the window", ("sliding_window",))


def _window_tail(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    if windows_off(reader):
        keys = ("use_sliding_window", "sliding_window")
        return LayerPlan(("full",) * count, "the window is switched off", keys)
    reader.flag("use_sliding_window")
    reader.given("sliding_window")
    first = reader.whole("max_window_layers", least=0)
    if first is None:
        reader.refuse(["max_window_layers"], "missing: it says from which layer on windows apply")
    return LayerPlan(
        tuple("sliding" if i >= first else "full" for i in range(count)),
        "the first max_window_layers layers attend to everything, the others have the window",
        ("max_window_layers", "use_sliding_window"),
    )


def _window_alternate(reader: Reader, args: Sequence[str]) -> LayerPlan:
    if not windows_off(reader):
        reader.refuse(
            ["use_sliding_window"],
            "on: transformers and vLLM window different layers of this architecture; switch it off",
        )
    return _window_tail(reader, args)


def _period(full_at: Callable[[int, int, int], bool], rule: str) -> Rule:
    def plan(reader: Reader, args: Sequence[str]) -> LayerPlan:
        other, key = args
        count = n_layers(reader)
        period: Any = reader.raw(key)
        if isinstance(period, str):
            return _lettered(reader, key, period, count)
        every = reader.whole(key)
        if other == "sliding" and reader.states("sliding_window") and windows_off(reader):
            return LayerPlan(("full",) * count, "no sliding_window is set", ("sliding_window",))
        if every is None:
            reader.refuse([key], "missing: it says which layers attend to everything")
        return LayerPlan(
            tuple("full" if full_at(i, count, every) else other for i in range(count)),
            f"{rule.format(every=every)} attend to everything",
            (key,),
        )

    return plan


def _lettered(reader: Reader, key: str, pattern: str, count: int) -> LayerPlan:
    letters = {"L": "sliding", "G": "full"}
    if not pattern or len(pattern) > MOST_LAYERS or not set(pattern) <= set(letters):
        reader.refuse([key], f"expected letters L (window) and G (global), got {shown(pattern)}")
    kinds = tuple(letters[pattern[i % len(pattern)]] for i in range(count))
    return LayerPlan(kinds, f"{key} repeats: L has the window, G attends to everything", (key,))


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
    return LayerPlan(
        tuple("full" if i in chosen else "state" for i in range(count)),
        f"{key} lists the layers with attention",
        (key,),
    )


def index_set(
    reader: Reader, key: str, entries: list[Any] | None, count: int, first: int = 0
) -> frozenset[int]:
    """Return layer numbers counted from 0 out of a list that counts from `first`."""
    if entries is None:
        reader.refuse([key], "missing: it lists layers by number")
    numbers = [reader.checked(key, entry, first, count - 1 + first) - first for entry in entries]
    if len(set(numbers)) != len(numbers):
        reader.refuse([key], "a layer stands there twice")
    return frozenset(numbers)


def _letters(reader: Reader, args: Sequence[str]) -> LayerPlan:
    (key,) = args
    pattern = reader.given(key)
    if not isinstance(pattern, str) or not pattern:
        reader.refuse([*LISTS, key], f"missing or no text: {shown(pattern)}")
    letters = trimmed(reader, key, list(pattern))
    unknown = sorted(set(letters) - set(LETTERS))
    if unknown:
        reader.refuse([key], f"unknown letters {shown(''.join(unknown))}")
    windows_off(reader)
    rule = "M keeps a state, * attends, - and E are feed-forward blocks without a cache"
    return LayerPlan(tuple(LETTERS[letter] for letter in letters), rule, (key,))


def _cycle(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    key = "_block_types" if reader.states("_block_types") else "block_types"
    blocks = reader.listed(key)
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
        return _parity(reader, args) if reader.family.state else _all("full", "")(reader, args)
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


def _rope_chunks(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    if reader.raw("attention_chunk_size") is None:
        return LayerPlan(("full",) * count, "no attention_chunk_size", ("attention_chunk_size",))
    return LayerPlan(
        tuple("chunked" if rope else "full" for rope in _ropes(reader, count)),
        "layers with rotary positions attend within a chunk, those without to everything",
        ("no_rope_layers",),
    )


def _rope_window(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    ropes = _ropes(reader, count)
    if windows_off(reader) or not reader.flag("use_sliding_window"):
        return LayerPlan(("full",) * count, "the window is off", ("use_sliding_window",))
    reader.given("sliding_window")
    kinds = tuple("full" if rope else "sliding" for rope in ropes)
    return LayerPlan(kinds, "layers without rotary positions have the window", ("no_rope_layers",))


def _ropes(reader: Reader, count: int) -> list[int]:
    key = "no_rope_layers"  # in it 1 says that the layer has rotary positions
    entries = reader.listed(key)
    if entries is None:
        every = reader.need("no_rope_layer_interval", ["no_rope_layer_interval"]).value
        return [int((i + 1) % every != 0) for i in range(count)]
    return [reader.checked(key, entry, 0, 1) for entry in trimmed(reader, key, entries)]


def _global_local(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    count = n_layers(reader)
    key, total = "attention_types", 0
    for entry in reader.listed(key) or []:
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], list)):
            reader.refuse([key], f"expected [kinds, repeats], got {shown(entry)}")
        if not set(map(str, entry[0])) <= {"global", "local"}:
            reader.refuse([key], f"unknown kinds {shown(entry[0])}")
        total += len(entry[0]) * reader.checked(key, entry[1])
    if total not in (0, count):
        reader.refuse([key], f"it covers {total:,} layers, the model has {count:,}")
    rule = "local layers mask what they attend to, but their cache keeps every token"
    return LayerPlan(("full",) * count, rule, (key,))


def _flags(reader: Reader, args: Sequence[str]) -> LayerPlan:
    (key,) = args
    flags = reader.listed(key)
    reader.given("attention_chunk_size")  # MiMo states one that its layers do not use
    if flags is None:
        reader.refuse([*LISTS[:1], key], "missing: it says which layers have the window")
    flags = trimmed(reader, key, flags)
    kinds = tuple("sliding" if reader.checked(key, flag, 0, 1) else "full" for flag in flags)
    return LayerPlan(kinds, f"{key}: 1 has the window, 0 attends to everything", (key,))


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
        return _all("full", "no sparse layers are listed")(reader, ())
    kinds = tuple(
        "indexed" if reader.checked(key, flag, 0, 1) else "full"
        for flag in trimmed(reader, key, flags)
    )
    return LayerPlan(kinds, f"{key}: 1 keeps an index key beside keys and values", (key,))


def _zamba(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    rest = _offset(reader, ())
    kinds = ("state", "state", "both", *("both" if k == "full" else k for k in rest.kinds[:-3]))
    return LayerPlan(kinds[: len(rest.kinds)], rest.rule, rest.keys)


def _must_list(reader: Reader, args: Sequence[str]) -> LayerPlan:  # noqa: ARG001
    reader.refuse([LISTS[0], LISTS[1]], "missing: it says what each layer is")


RULES: dict[str, Rule] = {
    "full": _all("full", "every layer attends to everything"),
    "states": _all("state", "every layer keeps a state and no keys and values"),
    "both": _all("both", "every layer has attention and a state side by side"),
    "window": _window,
    "window_tail": _window_tail,
    "window_alternate": _window_alternate,
    "period": _period(
        lambda i, _, every: (i + 1) % every == 0, "every {every}th layer and no other"
    ),
    "period_first": _period(lambda i, _, every: i % every == 0, "the first of each {every} layers"),
    "period_back": _period(
        lambda i, n, every: (n - 1 - i) % every == 0, "every {every}th layer from the last one"
    ),
    "period_last": _period(
        lambda i, n, every: (i + 1) % every == 0 or i == n - 1,
        "every {every}th layer and the last one",
    ),
    "offset": _offset,
    "indices": _indices,
    "letters": _letters,
    "cycle": _cycle,
    "one_based": _one_based,
    "type_numbers": _type_numbers,
    "rope_chunks": _rope_chunks,
    "rope_window": _rope_window,
    "global_local": _global_local,
    "flags": _flags,
    "crossed": _crossed,
    "sparse": _sparse,
    "zamba": _zamba,
    "must_list": _must_list,
}
CHECKED = ("period", "period_first", "period_back", "period_last", "indices", "flags", "letters")
BESIDE_A_LIST = {
    "offset": ("attn_layer_period", "attn_layer_offset"),
    "zamba": ("attn_layer_period", "attn_layer_offset"),
    "rope_chunks": ("no_rope_layers", "no_rope_layer_interval", "attention_chunk_size"),
    "rope_window": ("no_rope_layers", "use_sliding_window"),
    "window_tail": ("max_window_layers", "use_sliding_window"),
    "type_numbers": ("attn_type_list",),
    "flags": ("attention_chunk_size",),
    "one_based": ("linear_attn_config",),
    "sparse": ("sparse_attention_config",),
}
"""Keys that a class leaves alone once the file lists the layers."""
