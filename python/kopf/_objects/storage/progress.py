"""Storages of progress: the state of handlers that have not finished yet."""
from __future__ import annotations

import abc
import copy
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kopf._objects.fields import FieldPath, FieldSpec, ensure, parse_field, remove, resolve
from kopf._objects.storage.cleaning import StorageStanzaCleaner
from kopf._objects.storage.keys import StorageKeyFormingConvention, StorageKeyMarkingConvention

if TYPE_CHECKING:
    from kopf._objects.patches import Patch
    from kopf._objects.typedefs import BodyEssence, HandlerId, ProgressRecord
    from kopf._objects.views import Body

_ABSENT = object()

#: In the status, the essence of a finished handler is beside its record: inside the record,
#: kopf 1.45 would write the difference again and again, since merging never removes it.
_ESSENCE_SUFFIX = '#essence'


class ProgressStorage(StorageStanzaCleaner, metaclass=abc.ABCMeta):
    """The interface of all progress storages, one record per handler of an object."""

    @abc.abstractmethod
    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        """Get the record of a handler from the object, if there is any."""
        raise NotImplementedError

    @abc.abstractmethod
    def store(self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch) -> None:
        """Put the record of a handler into the patch (or anywhere else)."""
        raise NotImplementedError

    @abc.abstractmethod
    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        """Remove the record of a handler that Kopf does not need any more."""
        raise NotImplementedError

    @abc.abstractmethod
    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        """Change the object in a meaningless way, to cause an event."""
        raise NotImplementedError

    @abc.abstractmethod
    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        """Return the essence without what this storage has put there."""
        return copy.deepcopy(essence)

    def flush(self) -> None:
        """Write the changes, if the storage collects them. Kopf calls it after a series of them."""


class AnnotationsProgressStorage(
        StorageKeyFormingConvention, StorageKeyMarkingConvention, ProgressStorage):
    """Keeps each record as JSON in an annotation."""

    def __init__(
            self,
            *,
            prefix: str = 'kopf.zalando.org',
            verbose: bool = False,
            touch_key: str = 'touch-dummy',
            v1: bool = True,
    ) -> None:
        super().__init__(prefix=prefix, v1=v1)
        self.verbose = verbose
        self.touch_key = touch_key

    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        for name in self.make_keys(key, body=body):
            content = body.metadata.annotations.get(name)
            record = json.loads(content) if content is not None else None
            if record is not None:
                return record
        return None

    def store(self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch) -> None:
        content = json.dumps(
            {name: value for name, value in record.items() if self.verbose or value is not None},
            separators=(',', ':'))
        for name in self.make_keys(key, body=body):
            patch.meta.annotations[name] = content
        self._store_marker(prefix=self.prefix, patch=patch, body=body)

    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        for name in self.make_keys(key, body=body):
            _purge(('metadata', 'annotations', name), body, patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        for name in self.make_keys(self.touch_key, body=body):
            if body.metadata.annotations.get(name) != value:
                patch.meta.annotations[name] = value
                self._store_marker(prefix=self.prefix, patch=patch, body=body)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        essence = super().clear(essence=essence)
        annotations = (essence.get('metadata') or {}).get('annotations') or {}
        own = {key for key in annotations if key.startswith(f'{self.prefix}/')}
        self.remove_annotations(essence, own)
        self.remove_empty_stanzas(essence)
        return essence


class StatusProgressStorage(ProgressStorage):
    """Keeps all records as a structure in the status."""

    def __init__(
            self,
            *,
            name: str = 'kopf',
            field: FieldSpec = 'status.{name}.progress',
            touch_field: FieldSpec = 'status.{name}.dummy',
    ) -> None:
        super().__init__()
        self._name = name
        self._field = self._parse(field)
        self._touch_field = self._parse(touch_field)

    def _parse(self, field: FieldSpec) -> FieldPath:
        return parse_field(field.format(name=self._name) if isinstance(field, str) else field)

    @property
    def field(self) -> FieldPath:
        return self._field

    @field.setter
    def field(self, field: FieldSpec) -> None:
        self._field = self._parse(field)

    @property
    def touch_field(self) -> FieldPath:
        return self._touch_field

    @touch_field.setter
    def touch_field(self, field: FieldSpec) -> None:
        self._touch_field = self._parse(field)

    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        records: dict[str, Any] = resolve(body, self.field, None) or {}
        record: Any = records.get(key)
        beside = records.get(key + _ESSENCE_SUFFIX)
        # Kopf 1.45 does not remove it with the record; then it belongs to an earlier one.
        if record and beside and record.get('stopped') == beside.get('stopped'):
            record = {**record, 'essence': beside.get('essence')}
        return record

    def store(self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch) -> None:
        essence = record.get('essence')
        essence_path = (*self.field, key + _ESSENCE_SUFFIX)
        if essence is not None:
            ensure(patch, essence_path, {'stopped': record.get('stopped'), 'essence': essence})
        else:
            _purge(essence_path, body, patch)
        ensure(patch, (*self.field, key), {k: v for k, v in record.items() if k != 'essence'})

    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        _purge((*self.field, key), body, patch)
        _purge((*self.field, key + _ESSENCE_SUFFIX), body, patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        if resolve(body, self.touch_field, None) != value:
            ensure(patch, self.touch_field, value)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        essence = super().clear(essence=essence)
        remove(essence, self.field)  # type: ignore[arg-type]
        self.remove_empty_stanzas(essence)
        return essence


class NoWriteStatusProgressStorage(StatusProgressStorage):
    """Reads and removes what older versions have left in the status, but writes nothing there."""

    def store(self, **_: Any) -> None:
        pass

    def touch(self, **_: Any) -> None:
        pass


class MultiProgressStorage(ProgressStorage):
    """Keeps the records in several storages, and reads them from the first that has them."""

    def __init__(self, storages: Collection[ProgressStorage]) -> None:
        super().__init__()
        self.storages = storages

    def fetch(self, *, key: HandlerId, body: Body) -> ProgressRecord | None:
        for storage in self.storages:
            record = storage.fetch(key=key, body=body)
            if record is not None:
                return record
        return None

    def store(self, *, key: HandlerId, record: ProgressRecord, body: Body, patch: Patch) -> None:
        for storage in self.storages:
            storage.store(key=key, record=record, body=body, patch=patch)

    def purge(self, *, key: HandlerId, body: Body, patch: Patch) -> None:
        for storage in self.storages:
            storage.purge(key=key, body=body, patch=patch)

    def touch(self, *, body: Body, patch: Patch, value: str | None) -> None:
        for storage in self.storages:
            storage.touch(body=body, patch=patch, value=value)

    def clear(self, *, essence: BodyEssence) -> BodyEssence:
        for storage in self.storages:
            essence = storage.clear(essence=essence)
        return essence

    def flush(self) -> None:
        for storage in self.storages:
            storage.flush()


class SmartProgressStorage(MultiProgressStorage):
    """The default: annotations, and the status of older versions for reading."""

    def __init__(
            self,
            *,
            name: str = 'kopf',
            field: FieldSpec = 'status.{name}.progress',
            touch_key: str = 'touch-dummy',
            touch_field: FieldSpec = 'status.{name}.dummy',
            prefix: str = 'kopf.zalando.org',
            v1: bool = True,
            verbose: bool = False,
    ) -> None:
        super().__init__([
            AnnotationsProgressStorage(prefix=prefix, verbose=verbose, touch_key=touch_key, v1=v1),
            NoWriteStatusProgressStorage(name=name, field=field, touch_field=touch_field),
        ])


def _purge(path: FieldPath, body: Body, patch: Patch) -> None:
    if resolve(body, path, _ABSENT) is not _ABSENT:
        ensure(patch, path, None)
    elif resolve(patch, path, _ABSENT) is not _ABSENT:
        remove(patch, path)
