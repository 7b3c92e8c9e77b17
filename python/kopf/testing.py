"""Helpers for the tests of operators."""
from __future__ import annotations

from kopf._runner import KopfRunner

__all__ = ['KopfRunner']
