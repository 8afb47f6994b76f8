"""A number of a model, with the config key it came from and the rule that read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """`name` is what the number is here, `key` where the file (or its class) says it."""

    name: str
    value: int
    key: str
    rule: str

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.name} = {self.value:,} ({self.key}: {self.rule})"
