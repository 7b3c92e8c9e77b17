"""Enumerations that are equal to their strings on all supported versions of Python."""
from __future__ import annotations

import enum


class StringEnum(str, enum.Enum):
    """A string with a fixed set of values: prints, formats, compares and hashes as it."""

    def __str__(self) -> str:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __hash__(self) -> int:
        return hash(self.value)
