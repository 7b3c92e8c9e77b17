"""Differences. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._objects.diffs import (
    EMPTY,
    Diff,
    DiffItem,
    DiffOperation,
    DiffScope,
    diff,
    diff_iter,
    reduce,
    reduce_iter,
)

__all__ = [
    'EMPTY',
    'Diff',
    'DiffItem',
    'DiffOperation',
    'DiffScope',
    'diff',
    'diff_iter',
    'reduce',
    'reduce_iter',
]
