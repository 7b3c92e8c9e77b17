"""Fields, views, patches, diffs, memos: what handlers get and give."""
from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import kopf
from kopf._objects.diffs import DiffScope, diff, reduce
from kopf._objects.fields import ensure, parse_field, remove, resolve, walk
from kopf._objects.patches import merge

BODY = {
    'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample',
    'metadata': {'name': 'n', 'namespace': 'ns', 'uid': 'u', 'labels': {'a': 'b'},
                 'creationTimestamp': 'T'},
    'spec': {'items': [1, {'x': 2}]},
}


@pytest.mark.parametrize('field, path', [
    (None, ()), ('spec', ('spec',)), ('spec.x', ('spec', 'x')), (['a', 'b.c'], ('a', 'b.c')),
    (('a',), ('a',)),
])
def test_parse_field(field: Any, path: Any) -> None:
    assert parse_field(field) == path


def test_parse_wrong_field() -> None:
    with pytest.raises(ValueError, match='123'):
        parse_field(123)  # type: ignore[arg-type]


def test_resolve() -> None:
    assert resolve(BODY, 'spec.items') == [1, {'x': 2}]
    assert resolve(BODY, 'spec.absent', 5) == 5
    assert resolve(BODY, 'spec.items.x', 5) == 5
    with pytest.raises(KeyError):
        resolve(BODY, 'spec.absent')
    with pytest.raises(TypeError):
        resolve(BODY, 'spec.items.x')


@pytest.mark.parametrize('before, field, after', [
    ({}, 'a.b', {}),
    ({'a': {'b': 1}}, 'a.b', {}),
    ({'a': {'b': 1, 'c': 2}}, 'a.b', {'a': {'c': 2}}),
    ({'a': {}}, 'a.b', {}),
    ({'a': {}}, 'a.b.c', {}),
    ({'a': {'b': {'c': 1}}, 'd': 1}, 'a.b.c', {'d': 1}),
])
def test_remove(before: Any, field: str, after: Any) -> None:
    remove(before, field)
    assert before == after


def test_ensure() -> None:
    structure: dict[str, Any] = {'a': {'x': 1}}
    ensure(structure, 'a.b.c', 5)
    assert structure == {'a': {'x': 1, 'b': {'c': 5}}}
    with pytest.raises(ValueError, match='root'):
        ensure(structure, (), 1)


def test_walk() -> None:
    one, two = {'a': {'n': 1}}, {'b': 2}
    assert list(walk(one)) == [one]
    assert list(walk([one, [two], None])) == [one, two]
    assert list(walk([one, two], nested=['a'])) == [one, {'n': 1}, two]


@pytest.fixture(params=['dict', 'json'])
def body(request: pytest.FixtureRequest) -> kopf.Body:
    if request.param == 'dict':
        return kopf.Body(copy.deepcopy(BODY))
    return kopf.Body._from_json(json.dumps(BODY).encode())


def test_body_is_a_mapping(body: kopf.Body) -> None:
    assert body == BODY
    assert dict(body) == BODY
    assert repr(body) == repr(BODY)
    assert body['kind'] == 'KopfExample'
    assert list(body) == list(BODY)
    assert len(body) == len(BODY)
    assert 'spec' in body and 'status' not in body
    assert body.get('status', 5) == 5
    assert sorted(body.keys()) == sorted(BODY)
    with pytest.raises(KeyError):
        body['status']


def test_body_has_attributes(body: kopf.Body) -> None:
    assert body.metadata.name == body.meta.name == 'n'
    assert body.meta.namespace == 'ns'
    assert body.meta.uid == 'u'
    assert body.meta.labels == {'a': 'b'}
    assert body.meta.labels['a'] == 'b'
    assert body.meta.creation_timestamp == 'T'
    assert body.meta.deletion_timestamp is None
    assert body.spec == BODY['spec']
    assert body.spec.get('absent') is None


def test_absent_stanzas_are_empty(body: kopf.Body) -> None:
    assert body.status == {}
    assert repr(body.status) == '{}'
    assert body.meta.annotations == {}
    assert len(body.meta.annotations) == 0
    assert not body.status
    empty = kopf.Body({})
    assert empty.meta.name is None and empty.meta.labels == {}
    assert kopf.Body({'metadata': {'labels': None}, 'spec': None}).meta.labels == {}
    assert kopf.Body({'spec': None}).spec == {}


def test_nested_values_are_plain(body: kopf.Body) -> None:
    assert type(body['spec']) is dict
    assert type(body.spec['items']) is list
    body.spec['items'].append(3)
    assert body.spec['items'] == [1, {'x': 2}, 3]


def test_views_can_be_copied(body: kopf.Body) -> None:
    assert copy.deepcopy(body) == BODY
    assert copy.copy(body.spec) == BODY['spec']
    assert {**body.spec} == BODY['spec']


def test_body_can_be_refreshed(body: kopf.Body) -> None:
    spec = body.spec
    body._replace_with({'spec': {'new': 1}})
    assert spec == {'new': 1}


def test_references() -> None:
    body = kopf.Body(BODY)
    assert kopf.build_object_reference(body) == {
        'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample', 'name': 'n', 'uid': 'u',
        'namespace': 'ns'}
    assert kopf.build_owner_reference(body) == {
        'controller': True, 'blockOwnerDeletion': True, 'apiVersion': 'kopf.dev/v1',
        'kind': 'KopfExample', 'name': 'n', 'uid': 'u'}
    assert kopf.build_owner_reference(body, controller=None, block_owner_deletion=False) == {
        'blockOwnerDeletion': False, 'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample',
        'name': 'n', 'uid': 'u'}


def test_patch() -> None:
    patch = kopf.Patch()
    assert not patch and patch == {} and repr(patch) == 'Patch()'
    patch.status['x'] = 1
    patch.meta.labels['a'] = None
    patch.metadata.annotations['b'] = 'c'
    patch.spec.setdefault('deep', {})['deeper'] = 2
    assert patch and patch == {
        'status': {'x': 1}, 'metadata': {'labels': {'a': None}, 'annotations': {'b': 'c'}},
        'spec': {'deep': {'deeper': 2}}}
    assert patch.labels == {'a': None} and patch.annotations == {'b': 'c'}
    assert dict(patch.status) == {'x': 1} and 'x' in patch.status
    del patch.status['x']
    assert patch.status == {}
    assert json.loads(json.dumps(patch))['spec'] == {'deep': {'deeper': 2}}


def test_patch_functions() -> None:
    def fn(body: Any) -> None:
        body['spec']['items'].append(3)
    patch = kopf.Patch({'status': {'x': 1}}, fns=[fn])
    assert patch.fns == [fn]
    assert repr(patch) == f"Patch({{'status': {{'x': 1}}}}, fns=[{fn!r}])"
    assert patch.as_json_patch(kopf.Body(BODY)) == [
        {'op': 'add', 'path': '/spec/items/2', 'value': 3},
        {'op': 'add', 'path': '/status', 'value': {'x': 1}},
    ]
    assert BODY['spec'] == {'items': [1, {'x': 2}]}
    assert kopf.Patch(patch).fns == [fn]
    patch.clear()
    assert not patch and not patch.fns


def test_patch_needs_a_body_to_become_operations() -> None:
    assert kopf.Patch().as_json_patch() == []
    with pytest.raises(ValueError, match='body'):
        kopf.Patch({'a': 1}).as_json_patch()
    patch = kopf.Patch({'metadata': {'labels': {'a/b': None}}, 'x': [1]},
                       body=kopf.Body({'metadata': {'labels': {'a/b': 'c'}, 'name': 'n'}, 'x': 1}))
    assert patch.as_json_patch() == [
        {'op': 'remove', 'path': '/metadata/labels'},
        {'op': 'replace', 'path': '/x', 'value': [1]},
    ]


def test_merge() -> None:
    body = {'a': {'b': 1, 'c': 2}, 'd': [1]}
    merge(body, {'a': {'b': None, 'e': {'f': 3}}, 'd': [2]})
    assert body == {'a': {'c': 2, 'e': {'f': 3}}, 'd': [2]}


def test_diff() -> None:
    result = diff({'a': 1, 'b': [1], 'same': 0}, {'a': 2, 'c': {'d': 1}, 'same': 0})
    assert set(map(repr, result)) == {
        "('add', ('c',), None, {'d': 1})", "('change', ('a',), 1, 2)",
        "('remove', ('b',), [1], None)"}
    assert diff({'a': 1}, {'a': 1}) == ()
    assert diff(None, {'a': 1}) == [('add', (), None, {'a': 1})]
    assert diff({'x': 1}, {'x': 1, 'y': 2}, scope=DiffScope.LEFT) == ()


def test_diff_items_equal_to_tuples_and_strings() -> None:
    item = kopf.DiffItem(kopf.DiffOperation.ADD, ('a',), None, 1)
    assert item == ('add', ('a',), None, 1)
    assert item.op == 'add' and item.operation == 'add' and f'{item.op}' == 'add'
    assert repr(item.op) == "'add'" and {'add': 1}[item.op] == 1
    result = kopf.Diff([('change', ('a', 'b'), 1, 2)])
    assert result == (('change', ('a', 'b'), 1, 2),)
    assert result != () and len(result) == 1 and result[0].field == ('a', 'b')
    assert result[0].op is kopf.DiffOperation.CHANGE
    op, field, old, new = result[0]
    assert (op, field, old, new) == ('change', ('a', 'b'), 1, 2)
    assert hash(result) == hash(kopf.Diff([('change', ('a', 'b'), 1, 2)]))


def test_reduce_diff() -> None:
    whole = diff({'a': {'b': 1}}, {'a': {'b': 2, 'c': 3}})
    assert set(reduce(whole, ('a',))) == {('add', ('c',), None, 3), ('change', ('b',), 1, 2)}
    assert reduce(diff(None, {'a': {'b': 2}}), ('a', 'b')) == (('add', (), None, 2),)
    assert reduce(whole, ('x',)) == ()


def test_memo() -> None:
    memo = kopf.Memo(x=1)
    memo.y = 2
    assert memo == {'x': 1, 'y': 2} and memo.x == 1 and memo['y'] == 2
    del memo.x
    assert 'x' not in memo
    with pytest.raises(AttributeError):
        memo.x  # noqa: B018
    with pytest.raises(AttributeError):
        del memo.x
    clone = copy.copy(memo)
    clone.z = 3
    assert isinstance(clone, kopf.Memo) and 'z' not in memo


def test_reasons_are_strings() -> None:
    assert kopf.Reason.CREATE == 'create' and f'{kopf.Reason.CREATE}' == 'create'
    assert str(kopf.Reason.DELETE) == 'delete' and {'update': 5}[kopf.Reason.UPDATE] == 5
    assert json.dumps(kopf.Reason.RESUME) == '"resume"'


def test_exponential_backoff() -> None:
    from kopf._declare.backoff import describe
    assert describe(kopf.exponential(1)) == {'initial': 1, 'factor': 2, 'max': None, 'jitter': 0}
    assert describe(kopf.exponential(1, 3, max=60, jitter=0.5)) == {
        'initial': 1, 'factor': 3, 'max': 60, 'jitter': 0.5}
    assert describe(5) == {'constant': 5} and describe(None) is None
    for wrong in [{'initial': -1}, {'initial': 1, 'factor': 0.5}, {'initial': 1, 'jitter': 2},
                  {'initial': 1, 'max': -1}]:
        with pytest.raises(ValueError):
            kopf.exponential(**wrong)
    for wrong in [{'initial': '1'}, {'initial': 1, 'max': '5'}, {'initial': True}]:
        with pytest.raises(TypeError):
            kopf.exponential(**wrong)  # type: ignore[arg-type]


def test_errors() -> None:
    assert kopf.TemporaryError('x').delay == 60
    assert kopf.TemporaryError('x', 5).delay == 5
    assert kopf.TemporaryError(delay=None).delay is None
    assert str(kopf.TemporaryError()) == 'None'
    assert issubclass(kopf.HandlerTimeoutError, kopf.PermanentError)
    assert issubclass(kopf.HandlerRetriesError, kopf.PermanentError)
    assert issubclass(kopf.AdmissionError, kopf.PermanentError)
    assert kopf.AdmissionError('x', code=400).code == 400
    assert not issubclass(kopf.TemporaryError, kopf.PermanentError)
