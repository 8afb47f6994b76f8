"""Reads one section of a config strictly, and remembers every key that it looked at.

What is left over afterwards and would shape a cache is a contradiction: `unread` finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from solutions.capacity.facts import Fact
from solutions.capacity.refusal import ConfigRefusedError
from solutions.capacity.tables import Family, class_defaults

MOST = 2**31  # no size in a released config comes near; a larger one is a slip or an attack
MOST_LAYERS = 10_000
SIZES = frozenset(
    {
        *("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"),
        *("num_decoder_layers", "hidden_size", "n_embd", "d_model"),
        *("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"),
        *("attention_heads",),
    }
)
"""A file at the top level spells these out; only a nested section, which transformers saves as its
difference from the class, leaves them to the class."""


class Reader:
    """One section of a config; `path` is its place in the file, as in `text_config.`."""

    def __init__(self, section: Mapping[str, Any], family: Family, path: str = "") -> None:
        """Read `section`, which lies at `path` in its file, as `family` does."""
        self.section = section
        self.family = family
        self.path = path
        self.seen: set[str] = set()

    def where(self, key: str) -> str:
        """Name a key as the whole file does."""
        return f"{self.path}{key}"

    def refuse(self, keys: Iterable[str], reason: str) -> NoReturn:
        """Refuse, naming keys of this section."""
        raise ConfigRefusedError([self.where(key) for key in keys], reason)

    def states(self, key: str) -> bool:
        """Tell whether the file itself has the key (a null counts: it switches a default off)."""
        place, last = self._place(key)
        return last in place

    def given(self, key: str) -> Any:
        """Return what the file says, None if nothing."""
        self.seen.add(key)
        place, last = self._place(key)
        return place.get(last)

    def raw(self, key: str) -> Any:
        """Return what the file says, or the class default where it has no such key."""
        value = self.given(key)
        if self.states(key):
            return value
        default = class_defaults().get((self.family.defaults, key))
        if default is None or (key in SIZES and not self.path):
            return None
        return default.value

    def defaults(self, key: str) -> bool:
        """Tell whether the class gives the key a value that means something."""
        default = class_defaults().get((self.family.defaults, key))
        return default is not None and default.value not in NEUTRAL

    def source(self, key: str) -> str:
        """Say where a value came from."""
        if self.states(key):
            return "stated"
        return f"class default of {self.family.defaults}, {self._default_source(key)}"

    def flag(self, key: str) -> bool | None:
        """Return a yes or no; None where neither file nor class says."""
        value = self.raw(key)
        if not (value is None or isinstance(value, bool)):
            self.refuse([key], f"expected true or false, got {shown(value)}")
        return value

    def whole(self, key: str, least: int = 1, most: int = MOST) -> int | None:
        """Return a whole number; None where neither file nor class says."""
        value = self.raw(key)
        if value is None:
            return None
        return self.checked(key, value, least, most)

    def checked(self, key: str, value: Any, least: int = 1, most: int = MOST) -> int:
        """Return a value as a whole number between two bounds, or refuse it."""
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse([key], f"expected a whole number, got {shown(value)}")
        if not least <= value <= most:
            self.refuse([key], f"expected {least:,} to {most:,}, got {shown(value)}")
        return value

    def fact(self, name: str, keys: Iterable[str], least: int = 1) -> Fact | None:
        """Return the number that one of several spellings gives; two that disagree are refused.

        What the file says under any spelling comes before a class default, and a null where the
        class has a default switches it off.
        """
        keys = list(keys)
        stated = [
            (key, value)
            for key in keys
            if self.states(key) and (value := self.whole(key, least)) is not None
        ]
        if len({value for _, value in stated}) > 1:
            said = " and ".join(f"{key} {value:,}" for key, value in stated)
            self.refuse([key for key, _ in stated], f"they name one thing but differ: {said}")
        if stated:
            key, value = stated[0]
            return Fact(name, value, self.where(key), "stated")
        for key in keys:
            if (value := self.whole(key, least)) is not None:
                return Fact(name, value, self.where(key), self.source(key))
        return None

    def need(self, name: str, keys: Iterable[str], least: int = 1) -> Fact:
        """Return the number, or refuse naming every spelling it could have had."""
        keys = list(keys)
        found = self.fact(name, keys, least)
        if found is None:
            self.refuse(
                keys[:4], f"missing: {name} is under none of these keys; is it the whole file?"
            )
        return found

    def listed(self, key: str) -> list[Any] | None:
        """Return a list that is not empty; None where there is none."""
        value = self.raw(key)
        if value is None or value == []:
            return None
        if not isinstance(value, list):
            self.refuse([key], f"expected a list, got {shown(value)}")
        if len(value) > MOST_LAYERS:
            self.refuse([key], f"a list of {len(value):,} entries, more than {MOST_LAYERS:,}")
        return value

    def unread(self, shaping: Iterable[str]) -> list[str]:
        """Return the keys that would shape a cache, say something, and were never looked at."""
        return [
            key for key in shaping if key not in self.seen and self.section.get(key) not in NEUTRAL
        ]

    def _place(self, key: str) -> tuple[Mapping[str, Any], str]:
        *outer, last = key.split(".")
        place: Any = self.section
        for name in outer:
            place = place.get(name)
            if place is None:
                return {}, last
            if not isinstance(place, Mapping):
                self.refuse([name], f"expected a section, got {shown(place)}")
            self.seen.add(name)
        return place, last

    def _default_source(self, key: str) -> str:
        default = class_defaults().get((self.family.defaults, key))
        return default.source if default else "no source"


NEUTRAL: tuple[Any, ...] = (None, False, 0, [], {}, "")
"""Values with which a saved config says that it does not use a thing."""


def shown(value: Any) -> str:
    """Show a value of a stranger's file within bounds."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    text = repr(value) if not isinstance(value, Mapping) else f"a section of {len(value)} keys"
    return text if len(text) <= 60 else f"{text[:57]}..."
