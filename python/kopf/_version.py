"""The version of the package. `scripts/version.py` writes it here; Cargo.toml has the original."""
from __future__ import annotations

__version__ = '2.0.0'
__version_tuple__: tuple[int | str, ...] = (2, 0, 0)
__commit_id__: str | None = None

version = __version__
version_tuple = __version_tuple__
commit_id = __commit_id__
