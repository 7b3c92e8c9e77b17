"""`patch`: the changes that a handler wants in its object.

It is a plain dict of fields to merge (`None` removes a field), with attributes for the usual
stanzas, and with `fns`: functions that change the latest body in place, for what a merge cannot
express (lists, conditions). All handlers of a cycle share one patch; the engine applies it once.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kopf._objects.fields import ensure, remove
from kopf._objects.views import MutableMappingView

if TYPE_CHECKING:
    from kopf._objects.typedefs import PatchFn, RawBody
    from kopf._objects.views import Body

JSONPatchItem = dict[str, Any]
JSONPatch = list[JSONPatchItem]


class MetaPatch(MutableMappingView):
    """The changes of `metadata`."""

    __slots__ = ()

    def __init__(self, src: Patch, /) -> None:
        super().__init__(src, ('metadata',))

    @property
    def labels(self) -> MutableMappingView:
        return MutableMappingView(self._src, ('metadata', 'labels'))

    @property
    def annotations(self) -> MutableMappingView:
        return MutableMappingView(self._src, ('metadata', 'annotations'))


class SpecPatch(MutableMappingView):
    """The changes of `spec`."""

    __slots__ = ()

    def __init__(self, src: Patch, /) -> None:
        super().__init__(src, ('spec',))


class StatusPatch(MutableMappingView):
    """The changes of `status`."""

    __slots__ = ()

    def __init__(self, src: Patch, /) -> None:
        super().__init__(src, ('status',))


class Patch(dict[str, Any]):
    """The changes of one object."""

    def __init__(
            self,
            src: Mapping[str, Any] | None = None,
            /,
            body: Body | None = None,
            fns: Iterable[PatchFn] = (),
    ) -> None:
        super().__init__(src if src is not None else {})
        self._original = body
        self._fns: list[PatchFn] = [*(src.fns if isinstance(src, Patch) else ()), *fns]

    def __repr__(self) -> str:
        parts: list[str] = []
        if len(self):
            parts.append(super().__repr__())
        if self._fns:
            parts.append(f'fns={self._fns!r}')
        return f'{type(self).__name__}({", ".join(parts)})'

    def __bool__(self) -> bool:
        return len(self) > 0 or bool(self._fns)

    def clear(self) -> None:
        super().clear()
        self._fns.clear()

    @property
    def fns(self) -> list[PatchFn]:
        return self._fns

    @property
    def metadata(self) -> MetaPatch:
        return MetaPatch(self)

    @property
    def meta(self) -> MetaPatch:
        return MetaPatch(self)

    @property
    def spec(self) -> SpecPatch:
        return SpecPatch(self)

    @property
    def status(self) -> StatusPatch:
        return StatusPatch(self)

    @property
    def labels(self) -> MutableMappingView:
        return self.meta.labels

    @property
    def annotations(self) -> MutableMappingView:
        return self.meta.annotations

    def as_json_patch(self, body: Body | RawBody | None = None) -> JSONPatch:
        """The operations that apply all these changes to the body (or to the original one)."""
        import copy

        base = body if body is not None else self._original
        if not self:
            return []
        if base is None:
            raise ValueError("A JSON patch needs a body to be compared with.")
        before = dict(base)
        after = copy.deepcopy(before)
        merge(after, self)
        for fn in self._fns:
            fn(after)  # type: ignore[arg-type]
        return list(_operations(before, after, ''))


def merge(body: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """Apply a merge-patch to a body in place."""
    _merge(body, (), patch)


def _merge(body: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is None:
        remove(body, path)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _merge(body, (*path, key), item)
    else:
        ensure(body, path, value)


def _operations(before: Any, after: Any, path: str) -> Iterable[JSONPatchItem]:
    if before == after and type(before) is type(after):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before:
            if key not in after:
                yield {'op': 'remove', 'path': f'{path}/{_escape(key)}'}
        for key, value in after.items():
            inner = f'{path}/{_escape(key)}'
            if key not in before:
                yield {'op': 'add', 'path': inner, 'value': value}
            else:
                yield from _operations(before[key], value, inner)
    elif isinstance(before, list) and isinstance(after, list):
        common = min(len(before), len(after))
        for index in range(common):
            yield from _operations(before[index], after[index], f'{path}/{index}')
        for index in range(len(before) - 1, common - 1, -1):
            yield {'op': 'remove', 'path': f'{path}/{index}'}
        for index in range(common, len(after)):
            yield {'op': 'add', 'path': f'{path}/{index}', 'value': after[index]}
    else:
        yield {'op': 'replace', 'path': path, 'value': after}


def _escape(key: str) -> str:
    return str(key).replace('~', '~0').replace('/', '~1')
