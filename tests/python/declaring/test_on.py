"""Decorators: what they register, and what they refuse."""
from __future__ import annotations

import functools
import json
from typing import Any

import pytest

import kopf
from kopf._declare.describe_handlers import declare
from kopf._declare.handlers import Handler
from kopf._declare.registries import OperatorRegistry, get_callable_id


def declare_all(registry: OperatorRegistry) -> list[dict[str, Any]]:
    lists = (registry._activities, registry._watching, registry._changing, registry._spawning,
             registry._indexing, registry._webhooks)
    handlers: list[Handler] = [handler for one in lists for handler in one.get_all_handlers()]
    declarations = [declare(handler, index, registry._get_conditions(handler))
                    for index, handler in enumerate(handlers)]
    assert json.loads(json.dumps(declarations)) == declarations
    return declarations


def check(registry: OperatorRegistry, **expected: Any) -> dict[str, Any]:
    """The only declaration has these fields, and the usual values of all others."""
    [declaration] = declare_all(registry)
    usual = {
        'index': 0, 'activity': None, 'reason': None, 'initial': False, 'deleted': False,
        'requires_finalizer': False, 'labels': None, 'annotations': None, 'field': None,
        'field_needs_change': False, 'value': None, 'old': None, 'new': None, 'when': False,
        'errors': None, 'timeout': None, 'retries': None, 'backoff': None, 'concurrency': None,
        'fallback': False, 'background': {}, 'options': {}, 'conditions': [],
    }
    assert {**usual, **declaration} == {
        **usual, 'fn': declaration['fn'], 'selector': declaration['selector'], **expected}
    return declaration


def fn(**_: Any) -> None:
    pass


@pytest.mark.parametrize('decorator, activity', [
    (kopf.on.startup, 'startup'), (kopf.on.cleanup, 'cleanup'),
    (kopf.on.login, 'authentication'), (kopf.on.probe, 'probe'),
])
def test_activities(registry: OperatorRegistry, decorator: Any, activity: str) -> None:
    assert decorator(retries=3, timeout=5, backoff=7, errors=kopf.ErrorsMode.PERMANENT)(fn) is fn
    check(registry, id='fn', kind='activity', activity=activity, selector=None, retries=3,
          timeout=5, backoff={'constant': 7}, errors='permanent')


@pytest.mark.parametrize('decorator, expected', [
    (kopf.on.event, {'kind': 'watching'}),
    (kopf.on.create, {'kind': 'changing', 'reason': 'create'}),
    (kopf.on.update, {'kind': 'changing', 'reason': 'update', 'field_needs_change': True}),
    (kopf.on.delete, {'kind': 'changing', 'reason': 'delete', 'requires_finalizer': True}),
    (functools.partial(kopf.on.delete, optional=True), {'kind': 'changing', 'reason': 'delete'}),
    (kopf.on.resume, {'kind': 'changing', 'initial': True}),
    (functools.partial(kopf.on.resume, deleted=True),
     {'kind': 'changing', 'initial': True, 'deleted': True}),
    (functools.partial(kopf.on.field, field='spec.x'),
     {'kind': 'changing', 'id': 'fn/spec.x', 'field': ['spec', 'x'], 'field_needs_change': True}),
    (functools.partial(kopf.on.create, field='spec.x', value=1),
     {'kind': 'changing', 'reason': 'create', 'id': 'fn/spec.x', 'field': ['spec', 'x'],
      'value': {'equals': 1}}),
    (functools.partial(kopf.index, field='spec.x'), {'kind': 'indexing', 'field': ['spec', 'x']}),
    (functools.partial(kopf.daemon, initial_delay=3, cancellation_timeout=5),
     {'kind': 'daemon', 'requires_finalizer': True,
      'background': {'initial_delay': 3, 'cancellation_backoff': None, 'cancellation_timeout': 5,
                  'cancellation_polling': None}}),
    (functools.partial(kopf.timer, interval=5, initial_delay=lambda **_: 3),
     {'kind': 'timer', 'requires_finalizer': True,
      'background': {'initial_delay': {'callback': True}, 'interval': 5, 'idle': None,
                  'sharp': False}}),
    (functools.partial(kopf.on.validate, operations=['UPDATE', 'CREATE'], subresource='status'),
     {'kind': 'webhook',
      'webhook': {'type': 'validating', 'operations': ['UPDATE', 'CREATE'],
                  'subresource': 'status', 'persistent': False, 'side_effects': False,
                  'ignore_failures': False, 'from': None, 'to': None}}),
    (functools.partial(kopf.on.mutate, operations={'UPDATE', 'CREATE'}, persistent=True),
     {'kind': 'webhook',
      'webhook': {'type': 'mutating', 'operations': ['CREATE', 'UPDATE'],
                  'subresource': None, 'persistent': True, 'side_effects': False,
                  'ignore_failures': False, 'from': None, 'to': None}}),
])
def test_resource_handlers(
        registry: OperatorRegistry, decorator: Any, expected: dict[str, Any]) -> None:
    assert decorator('kopf.dev', 'v1', 'kopfexamples')(fn) is fn
    declaration = check(registry, **{'id': 'fn', **expected})
    assert declaration['selector']['group'] == 'kopf.dev'
    assert declaration['selector']['version'] == 'v1'
    assert declaration['selector']['any_name'] == 'kopfexamples'


def test_filters(registry: OperatorRegistry) -> None:
    kopf.on.update(
        'x', labels={'a': 'b', 'c': kopf.PRESENT, 'd': kopf.ABSENT, 'e': lambda value, **_: True},
        annotations={'a': kopf.PRESENT}, when=lambda **_: True, field='spec.x',
        old=[1, {'x': None}], new=(1, 2), concurrency=3,
        backoff=kopf.exponential(1, max=60))(fn)
    check(registry, id='fn/spec.x', kind='changing', reason='update', field_needs_change=True,
          labels={'a': {'equals': 'b'}, 'c': {'present': True}, 'd': {'absent': True},
                  'e': {'callback': True}},
          annotations={'a': {'present': True}}, when=True, field=['spec', 'x'],
          old={'equals': [1, {'x': None}]}, new={'callback': True}, concurrency=3,
          backoff={'initial': 1, 'factor': 2, 'max': 60, 'jitter': 0})


@pytest.mark.parametrize('kwargs, error', [
    ({'value': 1}, TypeError), ({'old': 1}, TypeError), ({'new': 1}, TypeError),
    ({'field': 'spec', 'value': 1, 'old': 2}, TypeError),
    ({'labels': {'a': None}}, ValueError), ({'annotations': {'a': None}}, ValueError),
    ({'field': 123}, ValueError), ({'concurrency': 0}, ValueError),
    ({'concurrency': 'many'}, TypeError), ({'kind': 'Y'}, TypeError),
    ({'unknown': 1}, TypeError),
])
def test_wrong_arguments(kwargs: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        kopf.on.update('x', **kwargs)(fn)


def test_resource_is_required() -> None:
    with pytest.raises(TypeError, match='no name'):
        kopf.on.create()(fn)
    with pytest.raises(TypeError):
        kopf.on.field('x')(fn)  # type: ignore[call-arg]


def test_operations_of_webhooks() -> None:
    with pytest.raises(ValueError, match='non-empty'):
        kopf.on.validate('x', operations=[])(fn)
    with pytest.warns(DeprecationWarning):
        kopf.on.validate('x', operation='CREATE')(fn)


def test_own_registry(registry: OperatorRegistry) -> None:
    own = kopf.OperatorRegistry()
    kopf.on.create('x', registry=own, id='my/id')(fn)
    check(own, id='my/id', kind='changing', reason='create')
    assert declare_all(registry) == []


class Methods:
    def method(self, **_: Any) -> None:
        pass


def wrapped(**_: Any) -> None:
    pass


@functools.wraps(wrapped)
def wrapper(**kwargs: Any) -> None:
    wrapped(**kwargs)


def test_ids() -> None:
    def inner(**_: Any) -> None:
        pass
    assert get_callable_id(fn) == 'fn'
    assert get_callable_id(functools.partial(fn, x=1)) == 'fn'
    assert get_callable_id(Methods().method) == 'Methods.method'
    assert get_callable_id(wrapper) == 'wrapped'
    assert get_callable_id(inner) == 'test_ids.<locals>.inner'
    assert get_callable_id(lambda **_: None).startswith('lambda:/')
    for wrong in (None, Methods()):
        with pytest.raises(ValueError):
            get_callable_id(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize('above', [True, False])
def test_condition_is_added_in_any_order(registry: OperatorRegistry, above: bool) -> None:
    condition = kopf.on.condition('x', field='status.y', value=1)
    create = kopf.on.create('x')
    for decorator in ([create, condition] if above else [condition, create]):
        assert decorator(fn) is fn
    kopf.on.event('x')(fn)
    watching, changing = declare_all(registry)
    [declared] = changing['conditions']
    assert (declared['field'], declared['value']) == (['status', 'y'], {'equals': 1})
    assert declared['selector']['any_name'] == 'x'
    assert changing['field'] is None and changing['id'] == 'fn'
    assert changing['when'] is watching['when'] is False and watching['conditions'] == []


def test_condition_refuses_wrong_filters() -> None:
    with pytest.raises(TypeError, match='field'):
        kopf.on.condition('x', value=1)
    with pytest.raises(ValueError, match='PRESENT'):
        kopf.on.condition(labels={'a': None})


def test_logins_of_the_default_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from kopf._declare.registries import SmartOperatorRegistry
    for name in ('kubernetes', 'kubernetes_asyncio', 'pykube'):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr('kopf._connect.logins.has_kubeconfig', lambda: True)
    monkeypatch.setattr('kopf._connect.logins.has_service_account', lambda: True)
    registry = SmartOperatorRegistry()
    assert [login.id for login in registry._get_logins()] == [
        'login_with_kubeconfig', 'login_with_service_account']
    monkeypatch.setitem(sys.modules, 'kubernetes', object())
    assert [login.id for login in registry._get_logins()] == ['login_via_client']
    monkeypatch.setitem(sys.modules, 'pykube', object())
    [first, _] = registry._get_logins()
    assert (first.id, first._fallback, first.errors) == (
        'login_via_pykube', True, kopf.ErrorsMode.IGNORED)
    kopf.on.login(registry=registry)(fn)
    assert [login.id for login in registry._get_logins()] == ['fn']


def test_default_registry_can_be_replaced() -> None:
    own = kopf.OperatorRegistry()
    kopf.set_default_registry(own)
    kopf.on.create('x')(fn)
    assert kopf.get_default_registry() is own
    assert len(own._changing.get_all_handlers()) == 1


def test_subhandlers_need_a_running_handler() -> None:
    with pytest.raises(LookupError):
        kopf.subhandler()(fn)
    with pytest.raises(LookupError):
        kopf.register(fn)


def test_conversions(registry: OperatorRegistry) -> None:
    decorator = kopf.on.convert('kopf.dev', 'kopfexamples', from_='v1', to='v2', persistent=True)
    assert decorator(fn) is fn
    [declaration] = declare_all(registry)
    assert declaration['webhook'] == {
        'type': 'converting', 'operations': None, 'subresource': None, 'persistent': True,
        'side_effects': False, 'ignore_failures': False, 'from': 'v1', 'to': 'v2'}
    assert declaration['selector']['version'] is None


@pytest.mark.parametrize('from_, to', [('v1', 'v1'), ('', 'v1'), ('v1', '')])
def test_conversions_to_nowhere(from_: str, to: str) -> None:
    with pytest.raises(ValueError, match='from one version to another'):
        kopf.on.convert('kopfexamples', from_=from_, to=to)
