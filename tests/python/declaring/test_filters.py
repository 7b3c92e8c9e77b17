"""Filters and conditions that are decided on this side."""
from __future__ import annotations

import enum
from typing import Any

import pytest

import kopf
from kopf._declare import conditions
from kopf._declare.filters import describe, evaluate
from kopf._declare.handlers import Condition
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


KWARGS: dict[str, Any] = {
    'resource': kopf.Resource('kopf.dev', 'v1', 'kopfexamples'),
    'labels': {'a': 'b'}, 'annotations': {},
    'old': {'spec': {'x': 1, 'gone': 1}}, 'new': {'spec': {'x': 2, 'added': 1}},
}


@pytest.mark.parametrize('condition, expected', [
    (Condition(), True),
    (Condition(when=yes), True), (Condition(when=no), False),
    (Condition(labels={'a': 'b'}), True), (Condition(labels={'a': 'x'}), False),
    (Condition(labels={'z': kopf.ABSENT}), True), (Condition(annotations={'a': 'b'}), False),
    (Condition(field=('spec', 'x')), True), (Condition(field=('spec', 'none')), False),
    (Condition(field=('spec', 'x'), value=1), True),
    (Condition(field=('spec', 'x'), value=2), True),
    (Condition(field=('spec', 'x'), value=3), False),
    (Condition(field=('spec', 'x'), old=1, new=2), True),
    (Condition(field=('spec', 'x'), old=2), False),
    (Condition(field=('spec', 'added'), old=kopf.ABSENT, new=kopf.PRESENT), True),
    (Condition(field=('spec', 'gone'), new=lambda value, **_: value is None), True),
    (Condition(when=no, selector=Selector('pods')), True),
    (Condition(when=no, selector=Selector('kopfexamples')), False),
])
def test_conditions(condition: Condition, expected: bool) -> None:
    assert conditions.check(condition, KWARGS) is expected
