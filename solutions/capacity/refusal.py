"""A config that cannot be sized is refused, with the keys to look at named."""

from __future__ import annotations

from collections.abc import Iterable


class ConfigRefusedError(ValueError):
    """A config (or a question about it) that has no one right answer; `keys` names what to mend."""

    def __init__(self, keys: Iterable[str], reason: str) -> None:
        """Name the keys, then say what is the matter."""
        self.keys = tuple(dict.fromkeys(keys))
        self.reason = reason
        super().__init__(f"{', '.join(self.keys)}: {reason}")
