"""What is known of a function before it is called: how to call it, and what it sees of its kwargs.

Handlers are called with everything that there is to know about an object, and most of them take
no more than a few kwargs of it by name; the others disappear in ``**_``. What a function cannot
see need not be made for it: an object is not decoded for those who do not look into it.
"""
from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, NamedTuple

#: Functions that use one of these may look at all their variables, whatever the code says.
_CURIOUS = frozenset({
    'breakpoint', 'currentframe', 'dir', 'eval', 'exec', 'locals', 'pdb', 'set_trace', 'stack',
    'vars', '_getframe',
})


class Callee(NamedTuple):
    """One function."""

    is_async: bool
    #: The names of the kwargs that the function can see; None if it may see all of them.
    demand: frozenset[str] | None

    @classmethod
    def of(cls, fn: Callable[..., Any]) -> Callee:
        return cls(is_async_fn(fn), find_demand(fn))


def is_async_fn(fn: Any) -> bool:
    """Whether a callable gives a coroutine, under all its wrappings."""
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif hasattr(fn, '__wrapped__'):
            fn = fn.__wrapped__
        else:
            return inspect.iscoroutinefunction(fn)


def find_demand(fn: Callable[..., Any]) -> frozenset[str] | None:
    """The names of the kwargs that the function can see; None if it may see all of them.

    Only of functions that swallow the other kwargs and never mention where to. Those without
    such a ``**_`` get all kwargs, and fail if these are too many, as they always did.
    """
    if isinstance(fn, types.MethodType):
        fn = fn.__func__
    if not isinstance(fn, types.FunctionType):
        return None
    code = fn.__code__
    if not code.co_flags & inspect.CO_VARKEYWORDS or code.co_posonlyargcount:
        return None
    count = code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)]
    if rest in code.co_cellvars or not _CURIOUS.isdisjoint(code.co_names) or _mentions(code, rest):
        return None
    return frozenset(code.co_varnames[:count])


def _mentions(code: types.CodeType, name: str) -> bool:
    import dis
    for instruction in dis.get_instructions(code):
        operand = instruction.argval
        if operand == name or (isinstance(operand, tuple) and name in operand):
            return True
    return False
