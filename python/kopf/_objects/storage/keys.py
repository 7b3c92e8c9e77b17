"""The names of annotations: valid, short enough, and the same as in older versions of Kopf."""
from __future__ import annotations

import base64
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf._objects.patches import Patch
    from kopf._objects.views import Body

_MAX_NAME_LENGTH = 63
_MAX_PREFIX_LENGTH = 253 - _MAX_NAME_LENGTH - 1
_REPLACEMENTS = str.maketrans({'/': '.', '<': '_', '>': '_'})
_MARKER = 'kopf-managed'
_KNOWN_PREFIX = 'kopf.zalando.org'


class CollisionEvadingConvention:
    """Keeps ReplicaSets from taking the annotations of their Deployments for their own.

    Kubernetes copies the annotations of a Deployment to its ReplicaSets, ours included.
    """

    def mark_key(self, key: str, *, body: Body) -> str:
        if body.get('kind') == 'ReplicaSet':
            owners = (body.get('metadata') or {}).get('ownerReferences') or ()
            if any(owner.get('kind') == 'Deployment' for owner in owners):
                return f'{key}-ofDRS'
        return key


class StorageKeyFormingConvention(CollisionEvadingConvention):
    """Turns the ids of handlers into the names of annotations with a prefix."""

    def __init__(self, *args: Any, prefix: str, v1: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not prefix:
            raise ValueError("Annotations of a storage must have a prefix.")
        if len(prefix) > _MAX_PREFIX_LENGTH:
            import warnings
            warnings.warn(f"The prefix of annotations is too long ({len(prefix)} characters); "
                          f"patching may fail.", stacklevel=2)
        self.prefix = prefix
        self.v1 = v1

    def make_keys(self, key: str, *, body: Body | None = None) -> Iterable[str]:
        """All the names under which a key is stored, the preferred one first."""
        key = key if body is None else self.mark_key(key, body=body)
        keys = [self.make_v2_key(key)]
        if self.v1 and self.make_v1_key(key) not in keys:
            keys.append(self.make_v1_key(key))
        return keys

    @staticmethod
    def make_safe_key(key: str) -> str:
        return key.translate(_REPLACEMENTS)

    def make_v1_key(self, key: str, max_length: int = _MAX_NAME_LENGTH) -> str:
        """The older scheme: the prefix counts for the length; the hash is of the safe name."""
        safe = self.make_safe_key(key)
        limit = max_length - len(self.prefix) - 1
        suffix = '' if len(safe) <= limit else self.make_suffix(safe)
        return f'{self.prefix}/{safe[:limit - len(suffix)]}{suffix}'

    def make_v2_key(self, key: str, max_length: int = _MAX_NAME_LENGTH) -> str:
        """The current scheme: only the name counts; the hash is of the original id."""
        suffix = '' if len(key) <= max_length else self.make_suffix(key)
        limit = max(0, max_length - len(suffix))
        return f'{self.prefix}/{self.make_safe_key(key)[:limit]}{suffix}'

    def make_suffix(self, key: str) -> str:
        import hashlib  # it loads OpenSSL
        digest = hashlib.blake2b(key.encode('utf-8'), digest_size=4).digest()
        text = base64.b64encode(digest, altchars=b'-.').decode('ascii')
        return f'-{text}'.rstrip('=-.')


class StorageKeyMarkingConvention:
    """Marks the prefixes of kopf-based operators, so that others ignore their annotations."""

    def _detect_marked_prefixes(self, keys: Collection[str]) -> Collection[str]:
        prefixes: set[str] = set()
        for key in keys:
            prefix, slash, name = key.partition('/')
            known = prefix == _KNOWN_PREFIX or prefix.endswith(f'.{_KNOWN_PREFIX}')
            if slash and (known or name == _MARKER):
                prefixes.add(prefix)
        return frozenset(prefixes)

    def _store_marker(self, prefix: str, patch: Patch, body: Body) -> None:
        if prefix and not prefix.startswith('kopf.'):
            marker = f'{prefix}/{_MARKER}'
            if marker not in body.metadata.annotations and marker not in patch.meta.annotations:
                patch.meta.annotations[marker] = 'yes'
