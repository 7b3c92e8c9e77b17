"""What functions can see of their kwargs: nothing else is made for them, and nothing is missing."""
from __future__ import annotations

import functools
import sys

import pytest

from kopf._callees import Callee, find_demand


def named(spec, name, **_):
    return spec, name


def nothing(**_):
    pass


def keyword_only(*, spec, **kwargs):
    return spec


def with_positions(spec, *args, **kwargs):
    return spec, args


def defaults(spec=None, extra=1, **_):
    return spec, extra


async def coroutine(spec, **_):
    return spec


class Operator:
    def method(self, spec, **_):
        return spec

    @classmethod
    def class_method(cls, spec, **_):
        return spec

    @staticmethod
    def static_method(spec, **_):
        return spec


@pytest.mark.parametrize('fn, names', [
    (named, {'spec', 'name'}),
    (nothing, set()),
    (keyword_only, {'spec'}),
    (with_positions, {'spec'}),
    (defaults, {'spec', 'extra'}),
    (coroutine, {'spec'}),
    (Operator().method, {'self', 'spec'}),
    (Operator.class_method, {'cls', 'spec'}),
    (Operator.static_method, {'spec'}),
    (lambda spec, **_: spec, {'spec'}),
])
def test_what_is_named_is_enough(fn, names):
    assert find_demand(fn) == names


def no_rest(spec, name):
    return spec, name


def reads(spec, **kwargs):
    return kwargs['name']


def passes_on(**kwargs):
    return named(**kwargs)


def captures(**kwargs):
    return lambda: kwargs


def comprehends(**kwargs):
    return [key for key in ('name',) if key in kwargs]


def reassigns(**kwargs):
    kwargs = {'x': 1}
    kwargs |= {'y': 2}
    return kwargs


def looks_around(**_):
    return locals()


def stops(spec, **_):
    breakpoint()


def looks_at_frames(**_):
    return sys._getframe()


def positional(spec, /, **_):
    return spec


def decorate(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)
    return wrapper


class Callable:
    def __call__(self, spec, **_):
        return spec


@pytest.mark.parametrize('fn', [
    no_rest, reads, passes_on, captures, comprehends, reassigns, looks_around, stops,
    looks_at_frames, positional, decorate(named), functools.partial(named, name='x'), Callable(),
    print, dict,
], ids=str)
def test_others_get_everything(fn):
    assert find_demand(fn) is None


def test_coroutine_functions_are_known_under_their_wrappings():
    assert Callee.of(coroutine).is_async
    assert Callee.of(decorate(coroutine)).is_async
    assert Callee.of(functools.partial(coroutine, spec={})).is_async
    assert not Callee.of(named).is_async
