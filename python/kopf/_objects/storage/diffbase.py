"""Storages of the diff base: the essence of an object when it was last handled."""
from __future__ import annotations

import abc
import copy
import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from kopf._objects.fields import (
    FieldPath,
    FieldSpec,
    cherrypick,
    ensure,
    parse_field,
    remove,
    resolve,
)
from kopf._objects.storage.cleaning import StorageStanzaCleaner
from kopf._objects.storage.keys import StorageKeyFormingConvention, StorageKeyMarkingConvention
from kopf._objects.views import Body

if TYPE_CHECKING:
    from kopf._objects.patches import Patch
    from kopf._objects.typedefs import BodyEssence

_LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'

# Up to this number of characters in all annotations, they fit in any case.
_ALWAYS_FITS = 64 * 1024


class DiffBaseStorage(
        StorageKeyMarkingConvention, StorageStanzaCleaner, metaclass=abc.ABCMeta):
    """The interface of all diff-base storages, and what an essence is by default."""

    def __init__(self, ignored_fields: Iterable[FieldSpec] | None = None) -> None:
        super().__init__()
        self.ignored_fields = list(ignored_fields or ())

    def build(
            self,
            *,
            body: Body,
            extra_fields: Iterable[FieldSpec] | None = None,
    ) -> BodyEssence:
        """Get the essence of an object: all but what Kubernetes or an operator puts there."""
        system = {'apiVersion', 'kind', 'metadata', 'status'}
        essence: Any = {
            key: copy.deepcopy(value) for key, value in body.items() if key not in system
        }
        cherrypick(src=body, dst=essence, fields=['metadata.labels', 'metadata.annotations'],
                   picker=copy.deepcopy)
        annotations = (essence.get('metadata') or {}).get('annotations') or {}
        prefixes = self._detect_marked_prefixes(annotations)
        for key in list(annotations):
            if key == _LAST_APPLIED or any(key.startswith(f'{prefix}/') for prefix in prefixes):
                del annotations[key]
        cherrypick(src=body, dst=essence, fields=extra_fields, picker=copy.deepcopy)
        self.remove_empty_stanzas(essence)
        for field in self.ignored_fields:
            try:
                remove(essence, field)
            except TypeError:
                continue  # the path leads through something else than a mapping: nothing to ignore
        return essence

    @abc.abstractmethod
    def fetch(self, *, body: Body) -> BodyEssence | None:
        """Get the last handled essence, if there is one."""
        raise NotImplementedError

    @abc.abstractmethod
    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        """Remember the essence as handled."""
        raise NotImplementedError


class AnnotationsDiffBaseStorage(StorageKeyFormingConvention, DiffBaseStorage):
    """Keeps the essence as JSON in an annotation."""

    def __init__(
            self,
            *,
            prefix: str = 'kopf.zalando.org',
            key: str = 'last-handled-configuration',
            ignored_fields: Iterable[FieldSpec] | None = None,
            v1: bool = True,
    ) -> None:
        super().__init__(prefix=prefix, v1=v1, ignored_fields=ignored_fields)
        self.key = key

    def build(
            self,
            *,
            body: Body,
            extra_fields: Iterable[FieldSpec] | None = None,
    ) -> BodyEssence:
        essence = super().build(body=body, extra_fields=extra_fields)
        self.remove_annotations(essence, set(self.make_keys(self.key, body=body)))
        self.remove_empty_stanzas(essence)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        for name in self.make_keys(self.key, body=body):
            content = body.metadata.annotations.get(name)
            essence = json.loads(content) if content is not None else None
            if essence is not None:
                return essence
        return None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        names = list(self.make_keys(self.key, body=body))
        content = _encode(essence, names, body=body, patch=patch)
        for name in names:
            patch.meta.annotations[name] = content
        self._store_marker(prefix=self.prefix, patch=patch, body=body)


def _encode(essence: BodyEssence, names: list[str], *, body: Body, patch: Patch) -> str:
    """The text for the annotations: a shorter one if the full text would not fit beside the others.

    The engine restores the essence from the shorter text.
    """
    content = json.dumps(essence, separators=(',', ':')) + '\n'
    others = {**body.metadata.annotations}
    patched = {**patch.meta.annotations}
    if len(content) * len(names) + len(json.dumps([others, patched])) < _ALWAYS_FITS:
        return content
    from kopf import _native
    return _native.shrink_essence(content, names, json.dumps(others), json.dumps(patched))


class StatusDiffBaseStorage(DiffBaseStorage):
    """Keeps the essence as JSON in a field of the status."""

    def __init__(
            self,
            *,
            name: str = 'kopf',
            field: FieldSpec = 'status.{name}.last-handled-configuration',
            ignored_fields: Iterable[FieldSpec] | None = None,
    ) -> None:
        super().__init__(ignored_fields=ignored_fields)
        self._name = name
        self._field = self._parse(field)

    def _parse(self, field: FieldSpec) -> FieldPath:
        return parse_field(field.format(name=self._name) if isinstance(field, str) else field)

    @property
    def field(self) -> FieldPath:
        return self._field

    @field.setter
    def field(self, field: FieldSpec) -> None:
        self._field = self._parse(field)

    def build(
            self,
            *,
            body: Body,
            extra_fields: Iterable[FieldSpec] | None = None,
    ) -> BodyEssence:
        essence = super().build(body=body, extra_fields=extra_fields)
        remove(essence, self.field)  # type: ignore[arg-type]
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        content = resolve(body, self.field, None)
        return json.loads(content) if content is not None else None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        ensure(patch, self.field, json.dumps(essence, separators=(',', ':')))


class MultiDiffBaseStorage(DiffBaseStorage):
    """Keeps the essence in several storages, and reads it from the first that has it."""

    def __init__(self, storages: Collection[DiffBaseStorage]) -> None:
        super().__init__()
        self.storages = storages

    def build(
            self,
            *,
            body: Body,
            extra_fields: Iterable[FieldSpec] | None = None,
    ) -> BodyEssence:
        extra_fields = list(extra_fields or ())
        essence = super().build(body=body, extra_fields=extra_fields)
        for storage in self.storages:
            essence = storage.build(body=Body(essence), extra_fields=extra_fields)
        return essence

    def fetch(self, *, body: Body) -> BodyEssence | None:
        for storage in self.storages:
            essence = storage.fetch(body=body)
            if essence is not None:
                return essence
        return None

    def store(self, *, body: Body, patch: Patch, essence: BodyEssence) -> None:
        for storage in self.storages:
            storage.store(body=body, patch=patch, essence=essence)
