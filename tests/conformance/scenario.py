"""A scenario: a list of requests to one server, in its own namespace.

Scenarios are data. They come from the YAML files of ``corpus/`` and from the generators beside
them. A step is either a text (``GET v1:configmaps/a``) or a mapping with these keys:

* ``do``: the method and the target. ``v1:configmaps/a`` is in the namespace of the scenario,
  ``v1:/nodes/a`` is without a namespace, and a path that begins with a slash is sent unchanged;
* ``body`` (as JSON), or ``raw`` (a text), and ``type``, its content type or a patch's short name;
* ``with``: changes to the body by dotted paths, for bodies that were saved before;
* ``accept``: the accepted content type, or a short name of it; ``headers``: others;
* ``save``: names for parts of the answer, by dotted paths, to be used later as ``$(name)``;
* ``until``: the request is repeated until the answer has this ``code``, or ``is`` at this ``path``;
* ``unseen: true``: the answer is waited for, but not compared.

``$(ns)`` is the namespace, ``$(id)`` is a word for names that must be unique in the cluster, and
``$(ip)`` an address which is so. ``$(hook)`` is the address of a webhook (see hooks.py), ``$(ca)``
its certificate.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

CONTENT_TYPES = {
    'json': 'application/json-patch+json',
    'merge': 'application/merge-patch+json',
    'strategic': 'application/strategic-merge-patch+json',
    'apply': 'application/apply-patch+yaml',
    'yaml': 'application/yaml',
    'protobuf': 'application/vnd.kubernetes.protobuf',
}
ACCEPTED = {
    'table': 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json',
    'partial': 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json',
    'partial-list': (
        'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json'
    ),
    'yaml': 'application/yaml',
    'protobuf': 'application/vnd.kubernetes.protobuf',
    'aggregated': (
        'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json'
    ),
}
STEP_KEYS = {
    'do',
    'body',
    'raw',
    'type',
    'with',
    'accept',
    'headers',
    'save',
    'until',
    'unseen',
}


class ScenarioError(Exception):
    """The corpus is wrong; the message says where."""


@dataclasses.dataclass(frozen=True)
class Request:
    """One request, ready to be sent."""

    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Step:
    """One request of a scenario, with what it takes from earlier answers and leaves for later
    ones.
    """

    method: str
    target: str
    body: Any = None
    raw: str | None = None
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    save: Mapping[str, str] = dataclasses.field(default_factory=dict)
    until: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    unseen: bool = False

    def request(self, values: Mapping[str, Any]) -> Request:
        """The request with the names replaced by their values."""
        data: bytes | None = None
        if self.raw is not None:
            data = str(fill(self.raw, values)).encode('utf-8', 'surrogateescape')
        elif self.body is not None:
            body = json.loads(json.dumps(fill(self.body, values)))
            for path, value in self.changes.items():
                body = changed(body, path.split('.'), fill(value, values))
            # As most clients write it: without spaces.
            data = json.dumps(body, separators=(',', ':')).encode()
        path = full_path(str(fill(self.target, values)), str(values.get('ns', '')))
        headers = {key: str(fill(value, values)) for key, value in self.headers.items()}
        return Request(self.method, path, data, headers)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """Steps in their order, on one server, in a namespace of their own."""

    area: str
    name: str
    steps: tuple[Step, ...]
    #: With the controllers of workloads, the scheduler and nodes, or without them.
    workloads: bool = False

    @property
    def key(self) -> str:
        return f'{self.area}: {self.name}'

    @property
    def defines_kinds(self) -> bool:
        return any('/customresourcedefinitions' in step.target for step in self.steps)

    @property
    def calls_hooks(self) -> bool:
        return '$(hook)' in repr(self.steps)

    @property
    def word(self) -> str:
        """A word for names, the same in every run."""
        return 'c' + hashlib.sha256(self.key.encode()).hexdigest()[:9]

    @property
    def address(self) -> str:
        """An address for names that are addresses, from a range that nobody uses."""
        first, second, *_ = hashlib.sha256(self.key.encode()).digest()
        return f'198.18.{first}.{second}'

    @property
    def digest(self) -> str:
        """Tells whether a recording is of the same steps."""
        return hashlib.sha256(repr(self.steps).encode()).hexdigest()[:16]


def make_scenario(area: str, name: str, steps: list[Any], *, workloads: bool = False) -> Scenario:
    made = []
    for number, step in enumerate(steps):
        try:
            made.append(make_step(step))
        except (ScenarioError, ValueError, TypeError, KeyError) as e:
            raise ScenarioError(f'{area}: {name}: step {number}: {e!r}') from e
    return Scenario(area, name, tuple(made), workloads)


def make_step(step: Any) -> Step:
    if isinstance(step, str):
        step = {'do': step}
    if unknown := step.keys() - STEP_KEYS:
        raise ScenarioError(f'unknown keys {unknown}')
    method, _, target = step['do'].partition(' ')
    headers = {'User-Agent': 'conformance/1', 'Accept': 'application/json'}
    content_type = step.get('type')
    if content_type is None and (step.get('body') is not None or step.get('raw') is not None):
        content_type = 'application/json'
    if content_type:
        headers['Content-Type'] = CONTENT_TYPES.get(content_type, content_type)
    if accept := step.get('accept'):
        headers['Accept'] = ACCEPTED.get(accept, accept)
    headers |= step.get('headers', {})
    return Step(
        method=method,
        target=target,
        body=step.get('body'),
        raw=step.get('raw'),
        changes=step.get('with', {}),
        headers=headers,
        save=step.get('save', {}),
        until=step.get('until', {}),
        unseen=step.get('unseen', False),
    )


def full_path(target: str, namespace: str) -> str:
    if not target.startswith('/'):
        version, _, rest = target.partition(':')
        root = f'/apis/{version}' if '/' in version else f'/api/{version}'
        target = root + (rest if rest.startswith('/') else f'/namespaces/{namespace}/{rest}')
    return urllib.parse.quote(target, safe="%/?&=:,;!()*+@$'~[]")


def fill(value: Any, values: Mapping[str, Any]) -> Any:
    """The value with ``$(name)`` replaced in all its texts; a text of nothing else becomes the
    value itself.
    """
    if isinstance(value, str):
        if (whole := re.fullmatch(r'\$\((\w+)\)', value)) and whole[1] in values:
            return values[whole[1]]
        return re.sub(r'\$\((\w+)\)', lambda m: str(values.get(m[1], m[0])), value)
    if isinstance(value, Mapping):
        return {fill(key, values): fill(item, values) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [fill(item, values) for item in value]
    return value


def part(value: Any, path: str) -> Any:
    """What is at the dotted path, or None; a dot alone is everything."""
    for key in filter(None, path.split('.')):
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def changed(value: Any, path: list[str], new: Any) -> Any:
    """The value with the new one at the path; nothing means removal."""
    key, *rest = path
    if isinstance(value, list):
        index = int(key)
        return [
            changed(x, rest, new) if rest and i == index else new if i == index else x
            for i, x in enumerate(value)
        ]
    value = dict(value) if isinstance(value, Mapping) else {}
    if rest:
        value[key] = changed(value.get(key), rest, new)
    elif new is None:
        value.pop(key, None)
    else:
        value[key] = new
    return value
