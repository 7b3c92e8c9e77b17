"""Resources and selectors: how users name the kinds of objects."""
from __future__ import annotations

import re
from typing import Any

import pytest

import kopf
from kopf._objects.resources import (
    Selector,
    describe,
    describe_namespace,
    match_namespace,
    select_specific_namespaces,
)

PODS = kopf.Resource('', 'v1', 'pods', kind='Pod', singular='pod', shortcuts=frozenset({'po'}),
                     categories=frozenset({'all'}), namespaced=True)
KEX = kopf.Resource('kopf.dev', 'v1', 'kopfexamples', kind='KopfExample', singular='kopfexample',
                    shortcuts=frozenset({'kex'}), namespaced=True)
KEX_OLD = kopf.Resource('kopf.dev', 'v1beta1', 'kopfexamples', kind='KopfExample',
                        preferred=False, namespaced=True)
EVENTS = kopf.Resource('', 'v1', 'events', kind='Event')


@pytest.mark.parametrize('args, expected', [
    (['pods'], {'any_name': 'pods'}),
    (['pods.v1'], {'any_name': 'pods', 'version': 'v1'}),
    (['deployments.v1.apps'], {'any_name': 'deployments', 'version': 'v1', 'group': 'apps'}),
    (['kex.kopf.dev'], {'any_name': 'kex', 'group': 'kopf.dev'}),
    (['apps/v1', 'deployments'], {'any_name': 'deployments', 'version': 'v1', 'group': 'apps'}),
    (['v1', 'pods'], {'any_name': 'pods', 'version': 'v1', 'group': ''}),
    (['apps', 'deployments'], {'any_name': 'deployments', 'group': 'apps'}),
    (['apps', 'v1', 'deployments'], {'any_name': 'deployments', 'version': 'v1', 'group': 'apps'}),
    ([kopf.EVERYTHING], {'everything': True}),
    (['kopf.dev', kopf.EVERYTHING], {'everything': True, 'group': 'kopf.dev'}),
    ([lambda resource: True], {'callback': True}),
])
def test_positional_arguments(args: list[Any], expected: dict[str, Any]) -> None:
    assert {key: value for key, value in describe(Selector(*args)).items()  # type: ignore
            if value not in (None, False)} == expected


@pytest.mark.parametrize('name', ['kind', 'plural', 'singular', 'shortcut', 'category'])
def test_keywords(name: str) -> None:
    description = describe(Selector(group='g', version='v', **{name: 'x'}))
    assert description is not None
    assert description[name] == 'x' and description['group'] == 'g'
    assert description['any_name'] is None and not description['everything']


@pytest.mark.parametrize('args, kwargs', [
    (['a', 'b', 'c', 'd'], {}), ([], {}), (['a'], {'kind': 'b'}), ([''], {}),
    ([lambda _: True, 'x'], {}), ([], {'group': 'g'}),
])
def test_wrong_arguments(args: list[Any], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Selector(*args, **kwargs)


@pytest.mark.parametrize('selector, resource, expected', [
    (Selector('pods'), PODS, True), (Selector('pod'), PODS, True), (Selector('po'), PODS, True),
    (Selector('Pod'), PODS, True), (Selector('kex'), PODS, False),
    (Selector(category='all'), PODS, True), (Selector(category='none'), PODS, False),
    (Selector(kind='Pod'), PODS, True), (Selector(plural='pod'), PODS, False),
    (Selector('kopf.dev', 'kex'), KEX, True), (Selector('zalando.org', 'kex'), KEX, False),
    (Selector('kopfexamples'), KEX_OLD, False),
    (Selector('kopf.dev', 'v1beta1', 'kopfexamples'), KEX_OLD, True),
    (Selector(kopf.EVERYTHING), KEX, True), (Selector(kopf.EVERYTHING), EVENTS, False),
    (Selector(lambda resource: resource.plural == 'pods'), PODS, True),
    (Selector(lambda resource: True), EVENTS, False),
    (Selector('events'), EVENTS, True),
])
def test_check(selector: Selector, resource: kopf.Resource, expected: bool) -> None:
    assert selector.check(resource) is expected


def test_core_resources_win() -> None:
    other = kopf.Resource('metrics.k8s.io', 'v1', 'pods', kind='PodMetrics')
    assert Selector('pods').select([PODS, other]) == {PODS}
    assert Selector(kopf.EVERYTHING).select([PODS, other]) == {PODS, other}


def test_selectors_compare() -> None:
    assert Selector('a') == Selector(any_name='a') != Selector('b')
    assert len({Selector('a'), Selector('a'), Selector('b')}) == 2
    assert repr(Selector('g', 'v1', 'x')) == "Selector(group='g', version='v1', any_name='x')"


def test_resource() -> None:
    assert KEX == kopf.Resource('kopf.dev', 'v1', 'kopfexamples') != KEX_OLD
    assert tuple(KEX) == ('kopf.dev', 'v1', 'kopfexamples')
    assert repr(KEX) == 'kopfexamples.v1.kopf.dev' and repr(PODS) == 'pods.v1'
    assert KEX.get_url() == '/apis/kopf.dev/v1/kopfexamples'
    assert PODS.get_url(namespace='ns', name='n', subresource='status', server='https://x/') == \
        'https://x/api/v1/namespaces/ns/pods/n/status'
    assert PODS.get_url(params={'a': 'b'}) == '/api/v1/pods?a=b'
    for wrong in [{'name': 'n'}, {'subresource': 's'}]:
        with pytest.raises(ValueError):
            PODS.get_url(**wrong)


@pytest.mark.parametrize('name, pattern, expected', [
    ('prod', 'prod', True), ('prod-1', 'prod-*', True), ('dev', 'prod-*', False),
    ('prod', '!dev', True), ('dev', '!dev', False), ('prod-1', 'prod-*,!prod-1', False),
    ('prod-2', 'prod-*,!prod-1', True), ('abc', re.compile('a.c'), True),
    ('abcd', re.compile('a.c'), False),
])
def test_namespaces(name: str, pattern: Any, expected: bool) -> None:
    assert match_namespace(name, pattern) is expected


def test_specific_namespaces() -> None:
    assert select_specific_namespaces(['a', 'b*', '!c', re.compile('x')]) == {'a'}
    assert describe_namespace('a*') == 'a*'
    assert describe_namespace(re.compile('x.*')) == {'regex': 'x.*'}
