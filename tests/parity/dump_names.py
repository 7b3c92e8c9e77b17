"""Prints the public names of the installed kopf, with the signatures of all that can be called, as
JSON.

It is run by ``test_names.py`` under upstream and under ours; so it knows nothing about either.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import types
from typing import Any

MODULES = ('kopf', 'kopf.on', 'kopf.testing', 'kopf.cli', 'kopf.lifecycles')


def main() -> None:
    json.dump({name: describe_module(name) for name in MODULES}, sys.stdout)


def describe_module(name: str) -> dict[str, Any]:
    if name == 'kopf.lifecycles':  # an attribute, not a module
        module = importlib.import_module('kopf').lifecycles
    else:
        module = importlib.import_module(name)
    declared = getattr(module, '__all__', ())
    names = [attribute for attribute in dir(module) if not attribute.startswith('_')]
    return {
        **{
            attribute: {'kind': 'name'} for attribute in declared
        },  # the aliases of types are only names
        **{
            attribute: describe(getattr(module, attribute))
            for attribute in names
            if belongs(getattr(module, attribute))
        },
    }


def belongs(value: Any) -> bool:
    """Whether it is a part of the API: neither a module imported for own needs, nor a name of some
    library.
    """
    if isinstance(value, types.ModuleType):
        return value.__name__ in ('kopf.on', 'kopf._core.actions.lifecycles', 'kopf.lifecycles')
    if is_command(value):
        return True
    return str(getattr(value, '__module__', 'kopf')).split('.')[0] == 'kopf'


def is_command(value: Any) -> bool:
    return type(value).__module__.startswith('click.') and hasattr(value, 'params')


def describe(value: Any) -> dict[str, Any]:
    description: dict[str, Any] = {'kind': kind_of(value)}
    if description['kind'] == 'command':
        description['members'] = {
            option: None for parameter in value.params for option in parameter.opts
        }
    if description['kind'] in ('class', 'function'):
        description['parameters'] = parameters_of(value)
    if description['kind'] == 'class':
        description['protocol'] = bool(getattr(value, '_is_protocol', False))
        description['members'] = {
            name: parameters_of(member) if callable(member) else None
            for name, member in ((name, getattr(value, name, None)) for name in dir(value))
            if not name.startswith('_') and not hasattr(object, name)
        }
    return description


def kind_of(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return 'module'
    if isinstance(value, type):
        return 'class'
    if is_command(value):
        return 'command'
    return 'function' if callable(value) else 'value'


def parameters_of(value: Any) -> list[dict[str, Any]] | None:
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return None
    return [
        {'name': parameter.name, 'kind': parameter.kind.name, 'default': default_of(parameter)}
        for parameter in signature.parameters.values()
    ]


def default_of(parameter: inspect.Parameter) -> str | None:
    """None if it is required; a text otherwise. Objects are named by their types, as their
    addresses differ.
    """
    if parameter.default is inspect.Parameter.empty:
        return None
    value = parameter.default
    if value is None or isinstance(value, (bool, int, float, str, bytes, tuple)):
        return repr(value)
    name = type(value).__name__
    return '<private>' if name.startswith('_') else f'<{name}>'


if __name__ == '__main__':
    main()
