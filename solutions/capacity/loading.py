"""Reads a config.json from disk, or says in a sentence why it is none.

`Infinity` is let through, as real files have it (time_step_limit); where a size is read it is not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from solutions.capacity.refusal import ConfigRefusedError

MOST_BYTES = 16 * 2**20


def load_config(path: Path) -> dict[str, Any]:
    """Return the parsed config, or refuse in a sentence."""
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigRefusedError([name], f"cannot be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise ConfigRefusedError([name], f"larger than {MOST_BYTES:,} bytes: no config.json is")
    try:
        config = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_told_once)
    except UnicodeDecodeError as error:
        raise ConfigRefusedError([name], "no text in UTF-8, so no JSON") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigRefusedError([name], f"not JSON: {error.msg} at {where}") from error
    except ConfigRefusedError:
        raise
    except (ValueError, RecursionError) as error:
        told = "a number or a nesting in it is larger than any config's"
        raise ConfigRefusedError([name], told) from error
    if not isinstance(config, dict):
        raise ConfigRefusedError([name], "expected a JSON object, as every config.json is")
    return config


def _told_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a section of its keys and values; one that stands there twice must say the same."""
    section: dict[str, Any] = {}
    for key, value in pairs:
        if key in section and section[key] != value:
            raise ConfigRefusedError([key], "it stands twice in one section, with two values")
        section[key] = value
    return section
