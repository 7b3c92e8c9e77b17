"""The version. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._version import (
    __commit_id__,
    __version__,
    __version_tuple__,
    commit_id,
    version,
    version_tuple,
)

__all__ = [
    '__commit_id__', '__version__', '__version_tuple__', 'commit_id', 'version', 'version_tuple',
]
