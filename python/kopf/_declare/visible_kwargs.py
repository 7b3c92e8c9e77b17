"""Finds out which kwargs a function can see, so that `_call.invoke` makes only these.

Kopf offers more than twenty kwargs to each handler. Most handlers name a few of them, and let the
others disappear in ``**_``. To make the others would cost more than the call itself, above all the
decoding of the object from JSON.

Why it is safe to leave kwargs out:

* Only plain functions are analysed (``type(fn) is FunctionType``, or a method of one), because only
  their bytecode says all that they do. Any other callable gets all kwargs: wrappers, partials,
  objects, mocks, compiled functions, even if they show the code of a function that they wrap.
* A function gets all kwargs unless it has a ``**rest`` that its bytecode never mentions: not read,
  not passed on, not captured by a closure.
* A function gets all kwargs if it uses anything that can look at local variables (``locals``,
  ``eval``, frames, ``inspect``, …), under any name.
* The result is checked against the current code at every call: tools replace code at run time.
* While a debugger or tracer is active, all functions get all kwargs.

One case remains: code that looks into the frame of its caller for a ``**_`` that the caller itself
never mentions finds it empty. To opt a function out, mention its ``**kwargs`` anywhere in its body.
"""
from __future__ import annotations

import builtins
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, NamedTuple

#: A function that uses one of these may look at all its variables.
_INSPECTING = frozenset({
    'breakpoint', 'currentframe', 'dir', 'eval', 'exec', 'exc_info', 'f_back', 'f_locals',
    'getargvalues', 'getouterframes', 'locals', 'pdb', 'set_trace', 'stack', 'tb_frame', 'trace',
    'vars', '_current_frames', '_getframe',
})


class Callee(NamedTuple):
    """One function at the time of its analysis."""

    fn: Callable[..., Any]
    is_async: bool
    #: The names of the kwargs that the function can see; None if it may see all.
    demand: frozenset[str] | None
    #: The code that was analysed.
    code: types.CodeType | None

    @classmethod
    def of(cls, fn: Callable[..., Any]) -> Callee:
        plain = _get_plain_function(fn)
        demand = find_demand(fn)
        return cls(fn, is_async_fn(fn), demand, plain.__code__ if plain is not None else None)

    def is_still(self, fn: Callable[..., Any]) -> bool:
        """Whether it is the same function with the same code: tools replace both."""
        return self.fn is fn and (self.code is None or self.code is fn.__code__)


def is_watched() -> bool:
    """Whether a debugger may look at the variables of functions: it must see all kwargs."""
    return sys.gettrace() is not None or threading.gettrace() is not None or _has_debugger()


if sys.version_info >= (3, 12):
    def _has_debugger() -> bool:
        return sys.monitoring.get_tool(sys.monitoring.DEBUGGER_ID) is not None
else:
    def _has_debugger() -> bool:
        return False


def is_async_fn(fn: Any) -> bool:
    """Whether a callable returns a coroutine, under all its wrappers."""
    seen: list[Any] = []  # some wrap themselves, or pretend to have any attribute
    while len(seen) < sys.getrecursionlimit() and not any(fn is other for other in seen):
        seen.append(fn)
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif hasattr(fn, '__wrapped__'):
            fn = fn.__wrapped__
        else:
            return inspect.iscoroutinefunction(fn)
    return False


def find_demand(fn: Callable[..., Any]) -> frozenset[str] | None:
    """The names of the kwargs that the function can see; None if it may see all.

    A function without a ``**_`` gets all kwargs, and fails if it does not accept some of them.
    """
    plain = _get_plain_function(fn)
    if plain is None:
        return None
    code = plain.__code__
    if not code.co_flags & inspect.CO_VARKEYWORDS or code.co_posonlyargcount:
        return None
    count = code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)]
    if rest in code.co_cellvars or _inspects_variables(plain) or _mentions(code, rest):
        return None
    return frozenset(code.co_varnames[:count])


def _get_plain_function(fn: Any) -> types.FunctionType | None:
    """The function itself, or that of a method. Not by `isinstance()`: proxies override it."""
    if type(fn) is types.MethodType:
        fn = fn.__func__
    return fn if type(fn) is types.FunctionType else None


def _inspects_variables(fn: types.FunctionType) -> bool:
    """Whether it uses anything that can look at its variables, under any name."""
    names = fn.__code__.co_names
    if not _INSPECTING.isdisjoint(names):
        return True
    used = [fn.__globals__.get(name) for name in names]
    for cell in fn.__closure__ or ():
        try:
            used.append(cell.cell_contents)
        except ValueError:
            pass  # it is not set yet
    inspecting = _get_inspecting_functions()
    return any(value is function for value in used for function in inspecting)


@functools.cache
def _get_inspecting_functions() -> tuple[Any, ...]:
    return tuple(
        getattr(module, name)
        for module in (builtins, inspect, sys) for name in _INSPECTING if hasattr(module, name))


def _mentions(code: types.CodeType, name: str) -> bool:
    import dis
    for instruction in dis.get_instructions(code):
        operand = instruction.argval
        if operand == name or (isinstance(operand, tuple) and name in operand):
            return True
    return False
