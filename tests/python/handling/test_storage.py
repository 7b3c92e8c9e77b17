"""Storages: the names of annotations, what is written, read, purged and cleaned."""
from __future__ import annotations

import copy
from typing import Any

import pytest

import kopf
from kopf._objects.storage.describe import describe_diffbase, describe_progress

LONG_PREFIX = 'x' * 60 + '.org'


@pytest.mark.parametrize('prefix, key, names', [
    ('kopf.zalando.org', 'create_fn', ['create_fn']),
    ('kopf.zalando.org', 'create_fn/spec.field', ['create_fn.spec.field']),
    ('kopf.zalando.org', 'outer.<locals>.inner', ['outer._locals_.inner']),
    ('kopf.zalando.org', 'a' * 46, ['a' * 46]),
    ('kopf.zalando.org', 'a' * 47, ['a' * 47, 'a' * 39 + '-L2I79Q']),
    ('kopf.zalando.org', 'a' * 63, ['a' * 63, 'a' * 39 + '-LcrRHA']),
    ('kopf.zalando.org', 'a' * 64, ['a' * 56 + '-5Keq3A', 'a' * 39 + '-5Keq3A']),
    ('kopf.zalando.org', 'create_fn/' + 'sub/' * 20, [
        'create_fn.sub.sub.sub.sub.sub.sub.sub.sub.sub.sub.sub.su-ffdubg',
        'create_fn.sub.sub.sub.sub.sub.sub.sub.s-GcRO8Q']),
    ('my.example.com', 'a' * 47, ['a' * 47]),
    (LONG_PREFIX, 'create_fn', ['create_fn', '-AZjFuA']),
    (LONG_PREFIX, 'a' * 46, ['a' * 46, 'a' * 37 + '-RrGn4Q']),
])
def test_names_of_annotations(prefix: str, key: str, names: list[str]) -> None:
    storage = kopf.AnnotationsProgressStorage(prefix=prefix)
    assert list(storage.make_keys(key)) == [f'{prefix}/{name}' for name in names]
    newer = kopf.AnnotationsProgressStorage(prefix=prefix, v1=False)
    assert list(newer.make_keys(key)) == [f'{prefix}/{names[0]}']


def test_replicasets_of_deployments_have_own_names() -> None:
    storage = kopf.AnnotationsProgressStorage()
    owned = kopf.Body({'kind': 'ReplicaSet', 'metadata': {
        'ownerReferences': [{'kind': 'Deployment'}]}})
    free = kopf.Body({'kind': 'ReplicaSet'})
    assert list(storage.make_keys('fn', body=owned)) == ['kopf.zalando.org/fn-ofDRS']
    assert list(storage.make_keys('fn', body=free)) == ['kopf.zalando.org/fn']


def test_prefix_is_required_and_short() -> None:
    with pytest.raises(ValueError, match='prefix'):
        kopf.AnnotationsProgressStorage(prefix='')
    with pytest.warns(UserWarning, match='too long'):
        kopf.AnnotationsProgressStorage(prefix='x' * 200)


RECORD: Any = {'started': 'T', 'retries': 1, 'success': None}


@pytest.mark.parametrize('storage, expected', [
    (kopf.SmartProgressStorage(), {'metadata': {'annotations': {
        'kopf.zalando.org/fn': '{"started":"T","retries":1}'}}}),
    (kopf.AnnotationsProgressStorage(verbose=True), {'metadata': {'annotations': {
        'kopf.zalando.org/fn': '{"started":"T","retries":1,"success":null}'}}}),
    (kopf.AnnotationsProgressStorage(prefix='my.example.com'), {'metadata': {'annotations': {
        'my.example.com/fn': '{"started":"T","retries":1}',
        'my.example.com/kopf-managed': 'yes'}}}),
    (kopf.StatusProgressStorage(name='n'), {'status': {'n': {'progress': {'fn': RECORD}}}}),
])
def test_progress_is_stored_and_read_and_purged(storage: Any, expected: Any) -> None:
    patch = kopf.Patch()
    storage.store(key='fn', record=RECORD, body=kopf.Body({}), patch=patch)
    assert patch == expected
    body = kopf.Body(copy.deepcopy(dict(patch)))
    record = storage.fetch(key='fn', body=body)
    assert {k: v for k, v in record.items() if v is not None} == {'started': 'T', 'retries': 1}
    assert storage.fetch(key='other', body=body) is None
    storage.purge(key='fn', body=kopf.Body({}), patch=patch)
    assert storage.fetch(key='fn', body=kopf.Body(patch)) is None
    patch = kopf.Patch()
    storage.purge(key='fn', body=body, patch=patch)
    assert 'None' in repr(patch)
    essence = storage.clear(essence=dict(body))
    assert 'fn' not in repr(essence)


def test_in_the_status_the_essence_is_beside_the_record() -> None:
    storage = kopf.StatusProgressStorage(name='n')
    finished = {'stopped': 'T', 'success': True, 'essence': '{}'}
    patch = kopf.Patch()
    storage.store(key='fn', record=finished, body=kopf.Body({}), patch=patch)  # type: ignore
    beside = {'stopped': 'T', 'essence': '{}'}
    records = {'fn': {'stopped': 'T', 'success': True}, 'fn#essence': beside}
    assert patch == {'status': {'n': {'progress': records}}}
    body = kopf.Body(copy.deepcopy(dict(patch)))
    assert storage.fetch(key='fn', body=body) == finished

    patch = kopf.Patch()
    storage.purge(key='fn', body=body, patch=patch)
    assert patch == {'status': {'n': {'progress': {'fn': None, 'fn#essence': None}}}}

    # Left behind by kopf 1.45, which has gone on with the handler.
    records = {'fn': {'stopped': 'later', 'success': True}, 'fn#essence': beside}
    body = kopf.Body({'status': {'n': {'progress': records}}})
    assert storage.fetch(key='fn', body=body) == records['fn']
    patch = kopf.Patch()
    storage.store(key='fn', record=RECORD, body=body, patch=patch)
    assert patch == {'status': {'n': {'progress': {'fn#essence': None, 'fn': RECORD}}}}


def test_smart_storage_reads_the_status_of_older_versions() -> None:
    storage = kopf.SmartProgressStorage()
    body = kopf.Body({'status': {'kopf': {'progress': {'fn': {'retries': 5}}}}})
    assert storage.fetch(key='fn', body=body) == {'retries': 5}
    patch = kopf.Patch()
    storage.purge(key='fn', body=body, patch=patch)
    assert patch == {'status': {'kopf': {'progress': {'fn': None}}}}


def test_touch() -> None:
    patch = kopf.Patch()
    kopf.SmartProgressStorage().touch(body=kopf.Body({}), patch=patch, value='V')
    assert patch == {'metadata': {'annotations': {'kopf.zalando.org/touch-dummy': 'V'}}}
    body = kopf.Body(patch)
    same, gone = kopf.Patch(), kopf.Patch()
    kopf.SmartProgressStorage().touch(body=body, patch=same, value='V')
    kopf.SmartProgressStorage().touch(body=body, patch=gone, value=None)
    assert same == {}
    assert gone == {'metadata': {'annotations': {'kopf.zalando.org/touch-dummy': None}}}
    status = kopf.Patch()
    kopf.StatusProgressStorage().touch(body=kopf.Body({}), patch=status, value='V')
    assert status == {'status': {'kopf': {'dummy': 'V'}}}


BODY = kopf.Body({
    'apiVersion': 'v1', 'kind': 'K',
    'metadata': {'name': 'n', 'uid': 'u', 'labels': {'l': '1'}, 'annotations': {
        'a': 'b', 'kopf.zalando.org/x': 'y', 'my.example.com/kopf-managed': 'yes',
        'my.example.com/z': '1', 'kubectl.kubernetes.io/last-applied-configuration': 'x',
        'sub.kopf.zalando.org/q': '1'}},
    'spec': {'f': None, 'g': 1}, 'status': {'x': {'y': 1}, 'z': 2}, 'data': {'d': 1}})
ESSENCE: Any = {'spec': {'f': None, 'g': 1}, 'data': {'d': 1},
                'metadata': {'labels': {'l': '1'}, 'annotations': {'a': 'b'}}}


@pytest.mark.parametrize('storage, extra_fields, expected', [
    (kopf.AnnotationsDiffBaseStorage(), [], ESSENCE),
    (kopf.AnnotationsDiffBaseStorage(), ['status.x', 'status.absent'],
     {**ESSENCE, 'status': {'x': {'y': 1}}}),
    (kopf.AnnotationsDiffBaseStorage(ignored_fields=['spec.g', 'data', 'spec.f.x']), [],
     {'spec': {'f': None}, 'metadata': ESSENCE['metadata']}),
    (kopf.StatusDiffBaseStorage(), [], ESSENCE),
    (kopf.MultiDiffBaseStorage([kopf.AnnotationsDiffBaseStorage(),
                                kopf.StatusDiffBaseStorage()]), [], ESSENCE),
])
def test_essence(storage: Any, extra_fields: list[Any], expected: Any) -> None:
    assert storage.build(body=BODY, extra_fields=extra_fields) == expected


@pytest.mark.parametrize('storage, expected', [
    (kopf.AnnotationsDiffBaseStorage(), {'metadata': {'annotations': {
        'kopf.zalando.org/last-handled-configuration': '{"spec":{"a":1}}\n'}}}),
    (kopf.AnnotationsDiffBaseStorage(prefix='x.io', key='k'), {'metadata': {'annotations': {
        'x.io/k': '{"spec":{"a":1}}\n', 'x.io/kopf-managed': 'yes'}}}),
    (kopf.StatusDiffBaseStorage(),
     {'status': {'kopf': {'last-handled-configuration': '{"spec":{"a":1}}'}}}),
])
def test_diffbase_is_stored_and_read(storage: Any, expected: Any) -> None:
    patch = kopf.Patch()
    storage.store(body=kopf.Body({}), patch=patch, essence={'spec': {'a': 1}})
    assert patch == expected
    assert storage.fetch(body=kopf.Body(patch)) == {'spec': {'a': 1}}
    assert storage.fetch(body=kopf.Body({})) is None
    body = kopf.Body({'spec': {'a': 1}, **patch})
    assert storage.build(body=body, extra_fields=['status']).get('spec') == {'a': 1}


class OwnProgress(kopf.AnnotationsProgressStorage):
    pass


class OwnDiffBase(kopf.StatusDiffBaseStorage):
    pass


def test_descriptions() -> None:
    annotations = {'type': 'annotations', 'prefix': 'kopf.zalando.org', 'verbose': False,
                   'touch_key': 'touch-dummy', 'v1': True}
    status = {'type': 'status', 'name': 'kopf', 'field': ['status', 'kopf', 'progress'],
              'touch_field': ['status', 'kopf', 'dummy'], 'write': True}
    assert describe_progress(kopf.AnnotationsProgressStorage()) == annotations
    assert describe_progress(kopf.StatusProgressStorage()) == status
    assert describe_progress(kopf.SmartProgressStorage()) == {
        'type': 'multi', 'storages': [annotations, {**status, 'write': False}]}
    assert describe_progress(OwnProgress()) == {'type': 'front'}
    assert describe_progress(kopf.MultiProgressStorage([OwnProgress()])) == {'type': 'front'}
    assert describe_diffbase(kopf.AnnotationsDiffBaseStorage(ignored_fields=['a.b'])) == {
        'type': 'annotations', 'prefix': 'kopf.zalando.org', 'key': 'last-handled-configuration',
        'ignored_fields': [['a', 'b']], 'v1': True}
    assert describe_diffbase(kopf.StatusDiffBaseStorage(field='status.{name}.x', name='n')) == {
        'type': 'status', 'field': ['status', 'n', 'x'], 'ignored_fields': []}
    assert describe_diffbase(OwnDiffBase()) == {'type': 'front'}
