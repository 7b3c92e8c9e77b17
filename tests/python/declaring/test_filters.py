"""Filters that are decided on this side, and how the engine gets the others."""
from __future__ import annotations

import enum
from typing import Any

import pytest

import kopf
from kopf._declare import describe_handlers
from kopf._declare.filters import describe, evaluate
from kopf._declare.handlers import ChangingHandler, Condition
from kopf._objects.resources import Selector


def yes(*_: Any, **__: Any) -> bool:
    return True


def no(*_: Any, **__: Any) -> bool:
    return False


def test_combinators() -> None:
    assert kopf.not_(no)() and not kopf.not_(yes)()
    assert kopf.all_([yes, yes])() and not kopf.all_([yes, no])()
    assert kopf.any_([no, yes])() and not kopf.any_([no])()
    assert kopf.none_([no])() and not kopf.none_([no, yes])()
    received: list[Any] = []
    kopf.all_([lambda *args, **kwargs: bool(received.append((args, kwargs))) or True])(1, x=2)
    assert received == [((1,), {'x': 2})]


class Colour(str, enum.Enum):
    RED = 'red'


@pytest.mark.parametrize('criterion, expected', [
    (None, None), (kopf.PRESENT, {'present': True}), (kopf.ABSENT, {'absent': True}),
    ('x', {'equals': 'x'}), (1, {'equals': 1}), (True, {'equals': True}),
    ([1, 'x', None], {'equals': [1, 'x', None]}), ({'a': {'b': 1}}, {'equals': {'a': {'b': 1}}}),
    (Colour.RED, {'equals': 'red'}), (yes, {'callback': True}), (1.5, {'callback': True}),
    ((1, 2), {'callback': True}), ({1: 2}, {'callback': True}), (object(), {'callback': True}),
])
def test_describe(criterion: Any, expected: Any) -> None:
    assert describe(criterion) == expected


@pytest.mark.parametrize('criterion, value, expected', [
    (kopf.PRESENT, 1, True), (kopf.PRESENT, None, False), (kopf.ABSENT, None, True),
    (kopf.ABSENT, 1, False), (1.0, 1, True), ((1,), [1], False), ('x', None, False),
    (None, None, True), (lambda value, **_: value == 1, 1, True),
    (lambda value, **_: value is None, None, True), (lambda value, **_: 'truthy', 1, True),
])
def test_evaluate(criterion: Any, value: Any, expected: bool) -> None:
    assert evaluate(criterion, value, value is not None, {'x': 1}) is expected


@pytest.mark.parametrize('condition, expected', [
    (Condition(), {}),
    (Condition(when=yes), {'when': True}),
    (Condition(labels={'a': 'b', 'z': kopf.ABSENT}),
     {'labels': {'a': {'equals': 'b'}, 'z': {'absent': True}}}),
    (Condition(annotations={'a': yes}), {'annotations': {'a': {'callback': True}}}),
    (Condition(field=('spec', 'x'), value=1), {'field': ['spec', 'x'], 'value': {'equals': 1}}),
    (Condition(field=('spec', 'x'), old=1.5, new=kopf.PRESENT),
     {'field': ['spec', 'x'], 'old': {'callback': True}, 'new': {'present': True}}),
])
def test_conditions_are_declared(condition: Condition, expected: dict[str, Any]) -> None:
    handler = ChangingHandler(id='fn', fn=yes)
    [declared] = describe_handlers.declare(handler, 0, [condition])['conditions']
    stated = {name: value for name, value in declared.items()
              if value is not None and value is not False}
    assert stated == {'index': 0, **expected}


def test_condition_selectors_are_declared() -> None:
    condition = Condition(when=no, selector=Selector('pods'))
    [_, declared] = describe_handlers.declare(
        ChangingHandler(id='fn', fn=yes), 0, [Condition(), condition])['conditions']
    assert (declared['index'], declared['selector']['any_name']) == (1, 'pods')
