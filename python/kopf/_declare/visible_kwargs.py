"""What is known of a function before it is called: how to call it, and what it sees of its kwargs.

Handlers are called with everything that there is to know about an object, and most of them take
no more than a few kwargs of it by name; the others disappear in ``**_``. What a function cannot
see need not be made for it: an object is not decoded for those who do not look into it.

Only plain functions are looked into, since only their code says all that they do. Whatever else
can be called gets everything: wrappers of any library, partials, objects, mocks, compiled
functions, also if they show the code of a function that they wrap. So does everybody while
a debugger watches. What remains is code that looks into the frame of its caller for a ``**_``
which the caller itself never mentions: there, it is empty.
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

#: Functions that use one of these may look at all their variables, whatever the code says.
_CURIOUS = frozenset({
    'breakpoint', 'currentframe', 'dir', 'eval', 'exec', 'exc_info', 'f_back', 'f_locals',
    'getargvalues', 'getouterframes', 'locals', 'pdb', 'set_trace', 'stack', 'tb_frame', 'trace',
    'vars', '_current_frames', '_getframe',
})


class Callee(NamedTuple):
    """One function, as it was when it was looked into."""

    fn: Callable[..., Any]
    is_async: bool
    #: The names of the kwargs that the function can see; None if it may see all of them.
    demand: frozenset[str] | None
    #: The code that says so.
    code: types.CodeType | None

    @classmethod
    def of(cls, fn: Callable[..., Any]) -> Callee:
        plain = _get_plain_function(fn)
        demand = find_demand(fn)
        return cls(fn, is_async_fn(fn), demand, plain.__code__ if plain is not None else None)

    def is_still(self, fn: Callable[..., Any]) -> bool:
        """Whether it is the same function with the same code: tools replace either of them."""
        return self.fn is fn and (self.code is None or self.code is fn.__code__)


def is_watched() -> bool:
    """Whether a debugger looks at the variables of functions: it is to see all of them."""
    return sys.gettrace() is not None or threading.gettrace() is not None or _has_debugger()


if sys.version_info >= (3, 12):
    def _has_debugger() -> bool:
        return sys.monitoring.get_tool(sys.monitoring.DEBUGGER_ID) is not None
else:
    def _has_debugger() -> bool:
        return False


def is_async_fn(fn: Any) -> bool:
    """Whether a callable gives a coroutine, under all its wrappings."""
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
    """The names of the kwargs that the function can see; None if it may see all of them.

    Only of functions that swallow the other kwargs and never mention where to. Those without
    such a ``**_`` get all kwargs, and fail if these are too many, as they always did.
    """
    plain = _get_plain_function(fn)
    if plain is None:
        return None
    code = plain.__code__
    if not code.co_flags & inspect.CO_VARKEYWORDS or code.co_posonlyargcount:
        return None
    count = code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)]
    if rest in code.co_cellvars or _is_curious(plain) or _mentions(code, rest):
        return None
    return frozenset(code.co_varnames[:count])


def _get_plain_function(fn: Any) -> types.FunctionType | None:
    """The function itself, or that of a method. Not by `isinstance()`: proxies lie about it."""
    if type(fn) is types.MethodType:
        fn = fn.__func__
    return fn if type(fn) is types.FunctionType else None


def _is_curious(fn: types.FunctionType) -> bool:
    """Whether it uses what can look at its variables, also by other names."""
    names = fn.__code__.co_names
    if not _CURIOUS.isdisjoint(names):
        return True
    used = [fn.__globals__.get(name) for name in names]
    for cell in fn.__closure__ or ():
        try:
            used.append(cell.cell_contents)
        except ValueError:
            pass  # it is not set yet
    curious = _get_curious_functions()
    return any(value is function for value in used for function in curious)


@functools.cache
def _get_curious_functions() -> tuple[Any, ...]:
    return tuple(
        getattr(module, name)
        for module in (builtins, inspect, sys) for name in _CURIOUS if hasattr(module, name))


def _mentions(code: types.CodeType, name: str) -> bool:
    import dis
    for instruction in dis.get_instructions(code):
        operand = instruction.argval
        if operand == name or (isinstance(operand, tuple) and name in operand):
            return True
    return False
