"""Records every handler call of a scenario in a file. The scenario scripts import it.

It runs inside of the operators, both of upstream and of ours, so it uses only the public names of
kopf.
"""

from __future__ import annotations

import collections.abc
import datetime
import json
import os
from typing import Any

import kopf

#: The kwargs that are recorded for every call that has them.
COMMON = ('reason', 'type', 'retry', 'old', 'new', 'diff')


def record(id: str, kwargs: collections.abc.Mapping[str, Any], *names: str, **values: Any) -> None:
    """Record one call: the common kwargs, the kwargs named here, and the other values.

    A name may be a path into a kwarg: ``meta.labels`` or ``spec.field``. An absent field is
    recorded as null.
    """
    entry: dict[str, Any] = {'id': id, 'name': kwargs.get('name')}
    entry |= {name: plain(kwargs[name]) for name in COMMON if name in kwargs}
    if 'diff' in entry:
        entry['diff'].sort(key=json.dumps)  # upstream has no order in it
    entry |= {name: plain(pick(kwargs, name)) for name in names}
    entry |= {name: plain(value) for name, value in values.items()}
    write(entry)


def sentinel() -> None:
    """Handle the sentinels: objects by which the story knows how far the operator has come."""

    @kopf.on.create('kopf.dev', 'v1', 'kopfexamples', id='sentinel', labels={'sentinel': 'yes'})
    def sentinel_fn(name: str, **_: Any) -> None:
        write({'id': 'sentinel', 'name': name})


def pick(kwargs: collections.abc.Mapping[str, Any], path: str) -> Any:
    value: Any = kwargs
    for part in path.split('.'):
        if not isinstance(value, collections.abc.Mapping):
            return None
        value = value.get(part)
    return value


def plain(value: Any) -> Any:
    """Any value as JSON: views by their content, other objects by their types."""
    if isinstance(value, collections.abc.Mapping):
        return {str(key): plain(val) for key, val in value.items()}
    if isinstance(value, datetime.datetime):
        return f'datetime, {"aware" if value.tzinfo else "naive"}'
    if isinstance(value, datetime.timedelta):
        return 'timedelta'
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, collections.abc.Iterable):
        return [plain(item) for item in value]
    return f'<{type(value).__name__}>'


def write(entry: dict[str, Any]) -> None:
    with open(os.environ['PARITY_RECORDS'], 'a', encoding='utf-8') as file:
        file.write(
            json.dumps(entry) + '\n'
        )  # one write, as the threads of the sync handlers do it, too
