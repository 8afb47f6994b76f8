"""Finds the part of a config that describes the decoder, and the model type that it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solutions.capacity.reader import Reader, shown
from solutions.capacity.refusal import ConfigRefusedError
from solutions.capacity.tables import Family, families

NESTS = ("text_config", "language_config", "llm_config", "thinker_config", "lm_config")
"""Where multimodal configs keep the language model; each may hold another."""
MOST_NESTED = 4


def decoder_section(config: Mapping[str, Any]) -> Reader:
    """Return a reader of the decoder's section.

    A nested section wins over outer keys of the same names: those are another module's, or copies.
    """
    if not isinstance(config, Mapping):
        raise ConfigRefusedError(["config"], f"expected a JSON object, got {shown(config)}")
    section, path, outer_type = config, "", _type_of(config, "")
    for _ in range(MOST_NESTED):
        nested = [key for key in NESTS if section.get(key) not in (None, {})]
        if not nested:
            return Reader(section, _family(outer_type, path), path)
        if len(nested) > 1:
            raise ConfigRefusedError(
                [f"{path}{key}" for key in nested], "more than one language model in one config"
            )
        (key,) = nested
        inner = section[key]
        if not isinstance(inner, Mapping):
            raise ConfigRefusedError([f"{path}{key}"], f"expected a section, got {shown(inner)}")
        wrapper = families().get(outer_type or "")
        section, path = inner, f"{path}{key}."
        outer_type = _type_of(section, path) or (wrapper.text if wrapper else None)
    raise ConfigRefusedError([path], "language models nested too deeply")


def _type_of(section: Mapping[str, Any], path: str) -> str | None:
    named = section.get("model_type")
    if named is None or named == "":
        return None
    if not isinstance(named, str):
        raise ConfigRefusedError([f"{path}model_type"], f"expected a name, got {shown(named)}")
    return named


def _family(model_type: str | None, path: str) -> Family:
    key = f"{path}model_type"
    if not model_type:
        raise ConfigRefusedError(
            [key], "missing: without it nobody can tell what the layers keep; add it"
        )
    family = families().get(model_type)
    if family is None:
        raise ConfigRefusedError([key], f"unknown architecture {shown(model_type)}")
    if not family.plan:
        raise ConfigRefusedError(
            [f"{path}text_config"], f"missing: {model_type} keeps its language model there"
        )
    return family
