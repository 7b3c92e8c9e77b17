"""The outcome of a run in a comparable form, and the differences between two outcomes.

Times, uids and the names of namespaces always differ, so placeholders replace them. Everything else
must be equal, unless ``deliberate.toml`` says why not.
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef]

TIME = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d')
FRACTION = re.compile(r'(?<=TIME)\.\d{6}(?!\d)')
UID = re.compile(r'\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b')
RESOURCE_VERSION = re.compile(r"""(['"]resourceVersion['"]: ?['"])\d+""")
SERVER = re.compile(r'https?://127\.0\.0\.1:\d+')
ADDRESS = re.compile(r'\b0x[0-9a-f]{6,}\b')

#: The fields of metadata which are the business of the API server only.
VOLATILE = (
    'uid',
    'resourceVersion',
    'creationTimestamp',
    'managedFields',
    'generation',
    'generateName',
)


@dataclasses.dataclass
class Outcome:
    """What the tests compare of one run. The lists are in the order of time; the mappings are by
    object.
    """

    records: dict[str, list[Any]]
    log: dict[str, list[Any]]
    objects: dict[str, Any]
    events: list[Any]
    notes: list[Any]
    #: How many requests of the operator were to change something; not compared per scenario.
    writes: int = 0
    #: Why the story has failed, if it has.
    failure: str | None = None


@dataclasses.dataclass(frozen=True)
class Deliberate:
    """One difference in ``deliberate.toml``."""

    #: The name of the scenario that shows it, or a list of several; each of them must show it.
    scenario: str | list[str]
    #: One of the fields of an outcome.
    part: str
    #: Why it is so.
    reason: str
    #: A regular expression of lines (records, log, events) that only ours has, or only upstream
    #: has; with a path, of the piece of a text that only ours has.
    only_ours: str | None = None
    only_upstream: str | None = None
    #: A glob of paths in the objects or the notes: ``kopfexamples/obj/status/*``.
    path: str | None = None
    #: The scenarios where it depends on the time whether it is seen.
    also: tuple[str, ...] = ()

    @property
    def scenarios(self) -> list[str]:
        """Those which must show it."""
        return [self.scenario] if isinstance(self.scenario, str) else self.scenario


@dataclasses.dataclass(frozen=True)
class Undemonstrated:
    """A difference which no scenario shows, since it is about time, faults, or the machine."""

    #: What differs.
    what: str
    #: Why it is so.
    reason: str
    #: Our own test of it: ``path::name``.
    test: str


def deliberate_differences(path: pathlib.Path) -> list[Deliberate]:
    return [Deliberate(**entry) for entry in tomllib.loads(path.read_text())['difference']]


def undemonstrated_differences(path: pathlib.Path) -> list[Undemonstrated]:
    return [Undemonstrated(**entry) for entry in tomllib.loads(path.read_text())['undemonstrated']]


def normalised(value: Any, namespace: str) -> Any:
    """The same JSON with placeholders for what differs in every run, also inside of strings."""
    if isinstance(value, Mapping):
        return {
            normalised(key, namespace): (
                'VERSION' if key == 'resourceVersion' else normalised(item, namespace)
            )
            for key, item in value.items()
            if key != 'managedFields'  # they change with every second
        }
    if isinstance(value, list):
        return [normalised(item, namespace) for item in value if not is_bookkeeping(item)]
    if isinstance(value, str):
        text = value.replace(namespace, 'NAMESPACE')
        text = FRACTION.sub('.ffffff', TIME.sub('TIME', text))
        text = UID.sub('UID', text)
        text = RESOURCE_VERSION.sub(r'\1VERSION', text)
        text = SERVER.sub('SERVER', text)
        return ADDRESS.sub('0xADDRESS', text)
    return value


def is_bookkeeping(item: Any) -> bool:
    """Whether it is an item of a diff about what the API server does for itself."""
    return isinstance(item, list) and len(item) == 4 and item[1] == ['metadata', 'managedFields']


def comparable_object(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in body['metadata'].items() if key not in VOLATILE}
    return {**body, 'metadata': metadata}


def comparable_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """A Kubernetes Event without its own name and times. The order of events is not known to the
    API.
    """
    prefix = re.sub(r'[a-z0-9]+$', '*', event['metadata']['name'])
    kept = {
        key: value for key, value in event.items() if key not in ('metadata', 'reportingInstance')
    }
    involved = {
        key: value
        for key, value in event['involvedObject'].items()
        if key not in ('resourceVersion',)
    }
    return {**kept, 'name': prefix, 'involvedObject': involved}


def comparable_log(entries: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The log lines about objects, by object. Of a traceback, only the last line is compared: the
    error itself.
    """
    lines: dict[str, list[Any]] = {}
    for entry in entries:
        reference = entry.get('object')
        if not isinstance(reference, Mapping) or entry['severity'] == 'debug':
            continue
        line = f'{entry["severity"]}: {entry["message"]}'
        if entry.get('exc_info'):
            line += f' <- {str(entry["exc_info"]).strip().splitlines()[-1]}'
        unknown = sorted(
            set(entry) - {'message', 'severity', 'timestamp', 'object', 'exc_info', 'taskName'}
        )
        if unknown:
            line += f' +{unknown}'
        lines.setdefault(f'{reference["kind"]}/{reference["name"]}', []).append(line)
    return lines


def comparable_records(
    records: Iterable[Mapping[str, Any]], *, unordered: bool
) -> dict[str, list[Any]]:
    """The calls, by object.

    Several events in a short time may come to the event handlers as one; so the same calls in a row
    count as one.
    """
    calls: dict[str, list[Any]] = {}
    for record in records:
        calls.setdefault(str(record.get('name')), []).append(record)
    calls = {name: [call for call, _ in collapsed(items)] for name, items in calls.items()}
    if unordered:
        calls = {
            name: sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
            for name, items in calls.items()
        }
    return calls


def collapsed(calls: list[Any]) -> Iterable[tuple[Any, Any]]:
    for key, group in itertools.groupby(calls, key=lambda call: json.dumps(call, sort_keys=True)):
        items = list(group)
        is_event = items[0].get('reason') is None and 'type' in items[0]
        yield from ((item, key) for item in (items[:1] if is_event else items))


def without_sentinels(lines: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in lines.items() if '/sentinel-' not in f'/{name}'}


def differences(
    scenario: str, upstream: Outcome, ours: Outcome, deliberate: list[Deliberate]
) -> list[str]:
    """All differences that are not deliberate, in a readable form."""
    applicable = [entry for entry in deliberate if scenario in (*entry.scenarios, *entry.also)]
    found: list[str] = []
    if upstream.failure:
        found.append(f'The story has failed on the first side:\n{upstream.failure}')
    if ours.failure:
        found.append(f'The story has failed on the second side:\n{ours.failure}')
    for part in 'records', 'log', 'events':
        entries = [entry for entry in applicable if entry.part == part]
        left, right = as_lines(getattr(upstream, part)), as_lines(getattr(ours, part))
        left = [
            line for line in left if not matches(line, (entry.only_upstream for entry in entries))
        ]
        right = [
            line for line in right if not matches(line, (entry.only_ours for entry in entries))
        ]
        found += line_differences(part, left, right)
    for part in 'objects', 'notes':
        entries = [entry for entry in applicable if entry.part == part and entry.path]
        found += [
            f'{part}: {path}:\n    upstream: {show(left)}\n    ours:     {show(right)}'
            for path, left, right in tree_differences(getattr(upstream, part), getattr(ours, part))
            if not any(explains(entry, path, left, right) for entry in entries)
        ]
    return found


def explains(entry: Deliberate, path: str, upstream: Any, ours: Any) -> bool:
    """Whether a difference of objects or notes is the declared one: at its path, and if it is about
    a piece of a text, nowhere else in it.
    """
    if not fnmatch.fnmatch(path, entry.path or ''):
        return False
    if entry.only_ours is None:
        return True
    return isinstance(ours, str) and re.sub(entry.only_ours, '', ours, count=1) == upstream


def as_lines(value: Any) -> list[str]:
    """Each record, log line, or event as one line, with the object that it belongs to."""
    if isinstance(value, Mapping):
        return [f'{key}: {as_text(item)}' for key in sorted(value) for item in value[key]]
    return [as_text(item) for item in value]


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def matches(line: str, patterns: Iterable[str | None]) -> bool:
    return any(pattern is not None and re.search(pattern, line) for pattern in patterns)


def line_differences(part: str, upstream: list[str], ours: list[str]) -> list[str]:
    lines = list(difflib.unified_diff(upstream, ours, 'upstream', 'ours', n=2, lineterm=''))
    return [f'{part}:\n' + '\n'.join(lines)] if lines else []


def tree_differences(upstream: Any, ours: Any, path: str = '') -> list[tuple[str, Any, Any]]:
    """The paths at which they differ, with both values."""
    if isinstance(upstream, Mapping) and isinstance(ours, Mapping):
        keys = sorted({*upstream, *ours})
        return [
            found
            for key in keys
            for found in tree_differences(
                upstream.get(key, ABSENT), ours.get(key, ABSENT), f'{path}/{key}'.lstrip('/')
            )
        ]
    if isinstance(upstream, list) and isinstance(ours, list) and len(upstream) == len(ours):
        return [
            found
            for index, (left, right) in enumerate(zip(upstream, ours, strict=True))
            for found in tree_differences(left, right, f'{path}/{index}'.lstrip('/'))
        ]
    if upstream == ours:
        return []
    return [(path, upstream, ours)]


class _Absent:
    """The absence of a key, as opposed to null."""

    def __repr__(self) -> str:
        return '(absent)'


ABSENT = _Absent()


def show(value: Any) -> str:
    return repr(value) if isinstance(value, _Absent) else json.dumps(value, default=repr)
