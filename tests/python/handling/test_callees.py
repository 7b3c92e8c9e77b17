"""What functions can see of their kwargs: nothing else is made for them, and nothing is missing."""
from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import threading
import types
from inspect import currentframe as renamed
from unittest import mock

import pytest

import kopf
from kopf._declare.visible_kwargs import Callee, find_demand, is_async_fn
from tests.python.fake_native import (
    CallHandler,
    Cycle,
)

#: What every function is called with, for whatever reason.
ALWAYS = {
    'param', 'retry', 'started', 'runtime', 'logger', 'memo', 'resource', 'patch', 'body', 'spec',
    'meta', 'status', 'uid', 'name', 'namespace', 'labels', 'annotations'}


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


def looks_by_another_name(**_):
    return renamed()


def looks_by_a_closure():
    look = inspect.currentframe

    def fn(**_):
        return look()
    return fn


def looks_at_the_traceback(**_):
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__.tb_frame.f_locals


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


class Liar:
    """A proxy that says that it is a function, and shows the code of another one."""

    def __init__(self, fn):
        self.fn = fn

    @property
    def __class__(self):
        return types.FunctionType

    def __getattr__(self, name):
        return getattr(self.fn, name)

    def __call__(self, *args, **kwargs):
        return self.fn(*args, **kwargs)


class Compiled:
    """As compiled functions are: they have a code, which does not say what they do."""

    __code__ = named.__code__
    __defaults__ = __kwdefaults__ = __closure__ = None
    __globals__ = {}
    __name__ = __qualname__ = 'compiled'

    def __call__(self, **kwargs):
        return kwargs

    def __get__(self, instance, owner):
        return types.MethodType(self, instance) if instance is not None else self


class WithCompiled:
    method = Compiled()


@pytest.mark.parametrize('fn', [
    no_rest, reads, passes_on, captures, comprehends, reassigns, looks_around, stops,
    looks_at_frames, looks_by_another_name, looks_by_a_closure(), looks_at_the_traceback,
    positional, decorate(named), functools.partial(named, name='x'), functools.lru_cache(named),
    functools.singledispatch(named), functools.partialmethod(named).__get__(object()), Callable(),
    Callable().__call__.__call__, Liar(named), Liar(Operator().method),
    types.MethodType(Liar(named), 1), Compiled(), WithCompiled().method,
    mock.Mock(), mock.MagicMock(), mock.AsyncMock(),
    mock.create_autospec(named), mock.Mock(wraps=named), print, dict,
], ids=str)
def test_others_get_everything(fn):
    assert find_demand(fn) is None


# The wrappers of libraries: each decorates a handler; what the wrapper sees is put aside.


def with_wrapt(fn, seen):
    import wrapt

    @wrapt.decorator
    def wrapper(wrapped, instance, args, kwargs):
        seen.update(kwargs)
        return wrapped(*args, **kwargs)
    return wrapper(fn)


def with_an_object_proxy(fn, seen):
    import wrapt

    class Proxy(wrapt.ObjectProxy):
        def __call__(self, *args, **kwargs):
            seen.update(kwargs)
            return self.__wrapped__(*args, **kwargs)
    return Proxy(fn)


def with_opentelemetry(fn, seen):
    from opentelemetry import trace
    from wrapt import wrap_function_wrapper
    holder = types.SimpleNamespace(fn=fn)

    def instrument(wrapped, instance, args, kwargs):
        seen.update(kwargs)
        with trace.get_tracer('test').start_as_current_span('handler'):
            return wrapped(*args, **kwargs)
    wrap_function_wrapper(holder, 'fn', instrument)
    return holder.fn


def with_a_span(fn, seen):
    from opentelemetry import trace
    return trace.get_tracer('test').start_as_current_span('handler')(fn)


def with_functools(fn, seen):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        seen.update(kwargs)
        return fn(*args, **kwargs)
    return wrapper


def with_partial(fn, seen):
    def wrapper(wrapped, **kwargs):
        seen.update(kwargs)
        return wrapped(**kwargs)
    partial = functools.partial(wrapper, fn)
    return functools.update_wrapper(partial, fn)


def with_decorator(fn, seen):
    import decorator

    def wrapper(fn, *args, **kwargs):
        seen.update(kwargs)
        return fn(*args, **kwargs)
    return decorator.decorate(fn, wrapper, kwsyntax=True)


def with_tenacity(fn, seen):
    import tenacity
    return tenacity.retry(stop=tenacity.stop_after_attempt(2))(fn)


def with_pydantic(fn, seen):
    import pydantic
    return pydantic.validate_call(config={'arbitrary_types_allowed': True})(fn)


def with_beartype(fn, seen):
    import beartype
    return beartype.beartype(fn)


def with_sentry(fn, seen):
    import sentry_sdk
    return sentry_sdk.trace(fn)


def with_sentry_monitor(fn, seen):
    import sentry_sdk
    return sentry_sdk.monitor(monitor_slug='handler')(fn)


def with_an_object(fn, seen):
    class Wrapper:
        def __init__(self):
            functools.update_wrapper(self, fn)

        def __call__(self, **kwargs):
            seen.update(kwargs)
            return fn(**kwargs)
    return Wrapper()


def with_a_liar(fn, seen):
    class Noting(Liar):
        def __call__(self, **kwargs):
            seen.update(kwargs)
            return self.fn(**kwargs)
    return Noting(fn)


def with_a_mock(fn, seen):
    def note(**kwargs):
        seen.update(kwargs)
        return mock.DEFAULT
    wrapper = mock.Mock(wraps=fn, side_effect=note)
    wrapper.__name__ = 'fn'
    return wrapper


WRAPPERS = [
    with_wrapt, with_an_object_proxy, with_opentelemetry, with_a_span, with_functools, with_partial,
    with_decorator, with_tenacity, with_pydantic, with_beartype, with_sentry, with_sentry_monitor,
    with_an_object, with_a_liar, with_a_mock,
]
#: These do nothing with the kwargs but pass them on.
SILENT = {with_a_span, with_tenacity, with_pydantic, with_beartype, with_sentry,
          with_sentry_monitor}


def call_handlers(run_operator):
    """Call each of the declared handlers once."""
    body = {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample',
            'metadata': {'name': 'n', 'namespace': 'ns', 'uid': 'u'}}

    async def scenario(operator):
        config = await operator.configure()
        return [await operator.ask(CallHandler, cycle=Cycle(body, type='ADDED'),
                                   handler=item['index'])
                for item in config['handlers']]
    return run_operator(scenario)


@pytest.mark.parametrize('is_async', [True, False], ids=['async', 'sync'])
@pytest.mark.parametrize('wrap', WRAPPERS)
def test_wrappers_of_libraries_get_everything(run_operator, wrap, is_async):
    """And so do the functions behind them."""
    seen, received = {}, {}
    if is_async:
        async def modest(name: str, **_: object):
            await asyncio.sleep(0)
            return name

        async def greedy(name: str, **kwargs: object):
            await asyncio.sleep(0)
            received.update(kwargs, name=name)
            return name
    else:
        def modest(name: str, **_: object):
            return name

        def greedy(name: str, **kwargs: object):
            received.update(kwargs, name=name)
            return name
    kopf.on.event('kopfexamples', id='modest')(wrap(modest, seen))
    kopf.on.event('kopfexamples', id='greedy')(wrap(greedy, {}))
    answers = call_handlers(run_operator)
    assert [(kind, answer.get('result')) for kind, answer in answers] == [('done', '"n"')] * 2
    assert received.keys() == ALWAYS | {'type', 'event'}
    assert wrap in SILENT or seen.keys() == ALWAYS | {'type', 'event'}


REPLACED = []


def test_code_that_is_replaced_later(run_operator):
    """Tools do so after the function was declared, and even after it was called."""
    @kopf.on.event('kopfexamples')
    def fn(name, **kwargs):
        pass

    def replacement(name, **kwargs):
        REPLACED.append(kwargs)

    call_handlers(run_operator)
    fn.__code__ = replacement.__code__
    call_handlers(run_operator)
    received = REPLACED.pop()
    assert received.keys() == ALWAYS - {'name'} | {'type', 'event'}


@pytest.mark.parametrize('set_trace', [sys.settrace, threading.settrace])
def test_everything_while_a_debugger_watches(run_operator, set_trace):
    received = []

    @kopf.on.event('kopfexamples')
    def fn(name, **_):
        pass

    def trace(frame, event, argument):
        if frame.f_code is fn.__code__:
            received.append(frame.f_locals['_'])

    before, before_in_threads = sys.gettrace(), threading.gettrace()
    threading.settrace(trace)
    set_trace(trace)
    try:
        call_handlers(run_operator)
    finally:
        sys.settrace(before)
        threading.settrace(before_in_threads)
    assert received[0].keys() == ALWAYS - {'name'} | {'type', 'event'}


def test_coroutine_functions_are_known_under_their_wrappings():
    assert Callee.of(coroutine).is_async
    assert Callee.of(decorate(coroutine)).is_async
    assert Callee.of(functools.partial(coroutine, spec={})).is_async
    assert not Callee.of(named).is_async


class AsyncCallable:
    async def __call__(self, name, **kwargs):
        await asyncio.sleep(0)
        return name


class Awaitable:
    def __init__(self, result):
        self.result = result

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return self.result


async def async_named(name, **_):
    await asyncio.sleep(0)
    return name


def with_wrapt_async(fn):
    import wrapt

    @wrapt.decorator
    async def wrapper(wrapped, instance, args, kwargs):
        await asyncio.sleep(0)
        return wrapped(*args, **kwargs)
    return wrapper(fn)


def sync_name(name, **_):
    return name


@pytest.mark.parametrize('fn', [
    AsyncCallable(), functools.partial(AsyncCallable()), AsyncCallable().__call__,
    lambda **kwargs: async_named(**kwargs), lambda name, **_: Awaitable(name),
    with_wrapt_async(sync_name), mock.AsyncMock(side_effect=async_named),
    mock.Mock(side_effect=async_named), decorate(async_named), with_wrapt(async_named, {}),
], ids=[
    'object', 'partial of an object', 'method', 'lambda', 'awaitable', 'async wrapper of sync',
    'async mock', 'mock', 'functools', 'wrapt'])
def test_whatever_is_awaitable_is_awaited(run_operator, fn):
    """Kopf 1.45 does so if the function looks like a coroutine function, and fails otherwise."""
    kopf.on.event('kopfexamples', id='fn')(fn)
    [(kind, answer)] = call_handlers(run_operator)
    assert (kind, answer['result']) == ('done', '"n"')


def test_function_that_only_looks_asynchronous(run_operator):
    """As in kopf 1.45: it is called in the event loop, and what it gives cannot be awaited."""
    @kopf.on.event('kopfexamples')
    @functools.wraps(async_named)
    def fn(name, **_):
        return name

    [(kind, answer)] = call_handlers(run_operator)
    assert kind == 'arbitrary' and 'await' in answer['display']


def test_wrapper_of_a_coroutine_function_runs_in_its_task(run_operator):
    tasks = []

    @kopf.on.event('kopfexamples', id='fn')
    @functools.wraps(async_named)
    def fn(**kwargs):
        tasks.append((asyncio.current_task().get_name(), kopf._call.context.handler_var.get().id))
        return async_named(**kwargs)

    call_handlers(run_operator)
    assert tasks == [("Handler 'fn'", 'fn')]


def test_wrappings_without_end():
    class Endless:
        def __getattr__(self, name):
            return Endless()

    circular = types.SimpleNamespace()
    circular.__wrapped__ = circular
    assert not is_async_fn(Endless())
    assert not is_async_fn(circular)
