"""The same questions to every built-in kind, made from one sample object of each.

The areas are those of the written scenarios; the name of a scenario tells the kind.
"""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from ..scenario import Scenario, make_scenario

SAMPLES = pathlib.Path(__file__).with_name('samples') / 'kinds.yaml'


class Sample:
    """One kind and a valid object of it."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.version: str = entry['version']
        self.plural: str = entry['plural']
        self.kind: str = entry['kind']
        self.cluster: bool = entry.get('cluster', False)
        self.name: str = entry.get('name', '$(id)')
        self.body: dict[str, Any] = entry['body']
        self.change: dict[str, Any] = entry['change']
        self.status: dict[str, Any] | None = entry.get('status')
        self.scale: bool = entry.get('scale', False)
        self.orphans: bool = entry.get('orphans', False)

    @property
    def all(self) -> str:
        """The target of the collection."""
        return f'{self.version}:{"/" if self.cluster else ""}{self.plural}'

    @property
    def one(self) -> str:
        """The target of the object."""
        return f'{self.all}/{self.name}'

    @property
    def by_name(self) -> str:
        """The target of the collection with this object alone."""
        return f'{self.all}?fieldSelector=metadata.name={self.name}'

    def object(self, *, name: str | None = None, **metadata: Any) -> dict[str, Any]:
        made = copy.deepcopy(self.body)
        labels = {'conformance': 'yes', **made.get('metadata', {}).get('labels', {})}
        made['metadata'] = {'name': name or self.name, 'labels': labels, **metadata}
        return {'apiVersion': self.version, 'kind': self.kind, **made}

    @property
    def absence(self) -> list[Any]:
        """What waits until the object is gone, which takes its time for some kinds."""
        return [{'do': f'GET {self.one}', 'until': {'code': 404}}] if self.orphans else []

    def remains(self, finalizers: list[str]) -> Any:
        """What reads an object that is being deleted, but has finalizers of ours."""
        read = f'GET {self.one}'
        # Others come and go while its dependents are let go.
        until = {'path': 'metadata.finalizers', 'is': finalizers}
        return {'do': read, 'until': until} if self.orphans else read

    @property
    def creation(self) -> dict[str, Any]:
        return {'do': f'POST {self.all}', 'body': self.object(), 'save': {'object': '.'}}


def samples() -> list[Sample]:
    return [Sample(entry) for entry in yaml.safe_load(SAMPLES.read_text())]


def generate() -> Iterator[Scenario]:
    for sample in samples():
        for area, steps in QUESTIONS.items():
            if made := steps(sample):
                yield make_scenario(area, f'{sample.plural} of {sample.version}', made)


def creating(sample: Sample) -> list[Any]:
    post = f'POST {sample.all}'
    nameless = sample.object()
    del nameless['metadata']['name']
    untyped = {k: v for k, v in sample.object().items() if k not in ('apiVersion', 'kind')}
    return [
        {'do': post, 'body': nameless},
        {'do': post, 'body': sample.object(name='Not_valid')},
        {'do': post, 'body': sample.object(name='x' * 260)},
        {'do': post, 'body': sample.object(resourceVersion='1')},
        {'do': post, 'body': sample.object(labels={'a b': 'c'})},
        {'do': post, 'body': sample.object(annotations={'-': 'c'}, finalizers=['nope'])},
        {'do': post, 'body': {**sample.object(), 'kind': 'Other'}},
        {'do': post, 'body': {**sample.object(), 'apiVersion': 'other/v1'}},
        {'do': post, 'body': sample.object(namespace='other')},
        sample.creation,
        sample.creation,
        {'do': post, 'body': {**untyped, 'metadata': {'generateName': 'gen-'}}},
        f'DELETE {sample.one}',
        *sample.absence,
        {'do': post, 'body': sample.object(uid='given', generation=7, selfLink='/x')},
        f'DELETE {sample.one}',
    ]


def reading(sample: Sample) -> list[Any]:
    return [
        f'GET {sample.one}',
        sample.creation,
        f'GET {sample.one}',
        f'GET {sample.one}?resourceVersion=0',
        f'GET {sample.one}?pretty=true',
        {'do': f'GET {sample.one}', 'accept': 'yaml'},
        {'do': f'GET {sample.one}', 'accept': 'text/plain'},
        f'HEAD {sample.one}',
        f'GET {sample.one}/nope',
        f'POST {sample.one}',
        f'DELETE {sample.one}',
    ]


def listing(sample: Sample) -> list[Any]:
    return [
        f'GET {sample.by_name}',
        sample.creation,
        f'GET {sample.by_name}',
        f'GET {sample.by_name}&resourceVersion=0',
        f'GET {sample.by_name}&limit=1',
        f'GET {sample.all}?labelSelector=conformance=no',
        f'GET {sample.all}?labelSelector=conformance=no&limit=5',
        f'GET {sample.all}?fieldSelector=spec.nope=1',
        f'PUT {sample.all}',
        f'PATCH {sample.all}',
        f'DELETE {sample.one}',
    ]


def tables(sample: Sample) -> list[Any]:
    return [
        sample.creation,
        {'do': f'GET {sample.one}', 'accept': 'table'},
        {'do': f'GET {sample.by_name}', 'accept': 'table'},
        {'do': f'GET {sample.by_name}&includeObject=None', 'accept': 'table'},
        {'do': f'GET {sample.by_name}&includeObject=Object', 'accept': 'table'},
        {'do': f'GET {sample.all}?labelSelector=none=none', 'accept': 'table'},
        f'DELETE {sample.one}',
    ]


def partial_metadata(sample: Sample) -> list[Any]:
    return [
        sample.creation,
        {'do': f'GET {sample.one}', 'accept': 'partial'},
        {'do': f'GET {sample.by_name}', 'accept': 'partial-list'},
        {'do': f'GET {sample.by_name}', 'accept': 'partial'},
        {
            'do': f'PATCH {sample.one}',
            'type': 'merge',
            'body': {'metadata': {'labels': {'x': 'y'}}},
            'accept': 'partial',
        },
        f'DELETE {sample.one}',
    ]


def updating(sample: Sample) -> list[Any]:
    put = f'PUT {sample.one}'
    return [
        {'do': f'PUT {sample.all}/$(id)-2', 'body': sample.object(name='$(id)-2')},
        sample.creation,
        {'do': put, 'body': '$(object)'},
        {
            'do': put,
            'body': '$(object)',
            'with': {'metadata.labels.new': 'label', 'metadata.annotations': {'a': 'b'}},
            'save': {'newer': '.'},
        },
        {'do': put, 'body': '$(object)', 'with': {'metadata.labels.other': 'label'}},
        {'do': put, 'body': '$(newer)', 'with': {'metadata.name': 'other'}},
        {'do': put, 'body': '$(newer)', 'with': {'metadata.uid': 'other'}},
        {'do': put, 'body': '$(newer)', 'with': {'metadata.labels': {'a': '-'}}},
        {'do': put, 'body': '$(newer)', 'with': {'metadata.managedFields': []}},
        {
            'do': put,
            'body': '$(newer)',
            'with': {
                'metadata.resourceVersion': None,
                'metadata.creationTimestamp': '2001-01-01T00:00:00Z',
            },
        },
        f'GET {sample.one}',
        f'DELETE {sample.one}',
        f'DELETE {sample.all}/$(id)-2',
    ]


def merging(sample: Sample) -> list[Any]:
    return patching(
        sample,
        'merge',
        [
            {'metadata': {'labels': {'a': 'b', 'conformance': None}}},
            {'metadata': {'labels': {'a': 'b'}}},
            {'metadata': {'annotations': {'x': 'y'}, 'labels': None}},
            {'metadata': {'resourceVersion': '1'}},
            {'metadata': {'name': 'other'}},
            {'metadata': {'labels': {'a': {'b': 'c'}}}},
            {'metadata': {'finalizers': ['example.com/x']}},
            {'kind': 'Other'},
            {'unknown': 1},
            {},
        ],
        finalizers=['example.com/x'],
    )


def json_patching(sample: Sample) -> list[Any]:
    return patching(
        sample,
        'json',
        [
            [{'op': 'add', 'path': '/metadata/labels/a', 'value': 'b'}],
            [{'op': 'test', 'path': '/metadata/labels/a', 'value': 'c'}],
            [{'op': 'replace', 'path': '/metadata/labels/nope', 'value': 'c'}],
            [{'op': 'remove', 'path': '/metadata/labels/a'}],
            [{'op': 'add', 'path': '/metadata/finalizers', 'value': ['example.com/x']}],
            [{'op': 'copy', 'from': '/metadata/name', 'path': '/metadata/labels/name'}],
            [],
        ],
        finalizers=['example.com/x'],
    )


def strategic_merging(sample: Sample) -> list[Any]:
    return patching(
        sample,
        'strategic',
        [
            sample.change,
            sample.change,
            {'metadata': {'labels': {'$patch': 'replace', 'only': 'this'}}},
            {'metadata': {'finalizers': ['example.com/x']}},
            {'metadata': {'finalizers': ['example.com/y']}},
            {'metadata': {'$deleteFromPrimitiveList/finalizers': ['example.com/x']}},
            {'$patch': 'delete'},
        ],
        finalizers=['example.com/y'],
    )


def patching(
    sample: Sample, content_type: str, patches: list[Any], *, finalizers: list[str]
) -> list[Any]:
    def patch(body: Any) -> dict[str, Any]:
        return {'do': f'PATCH {sample.one}', 'type': content_type, 'body': body}

    return [
        patch(patches[0]),
        sample.creation,
        *map(patch, patches),
        f'DELETE {sample.one}',
        sample.remains(finalizers),
        {
            'do': f'PATCH {sample.one}',
            'type': 'merge',
            'body': {'metadata': {'finalizers': None}},
        },
    ]


def wrong_patches(sample: Sample) -> list[Any]:
    """Strategic patches of wrong types, which the server refuses in words of their own."""
    fields = [key for key in sample.object() if key not in ('apiVersion', 'kind')]
    bodies: list[Any] = [
        {key: value} for key in fields for value in ('text', 5, 1.5, ['list'], True)
    ]
    bodies += [
        {'metadata': {'labels': 5}},
        {'metadata': {'labels': {'a': 5}}},
        {'metadata': {'labels': {'a': True}}},
        {'metadata': {'annotations': ['list']}},
        {'metadata': {'finalizers': 'text'}},
        {'metadata': {'finalizers': [5]}},
        {'metadata': {'ownerReferences': [{'uid': 'a', 'controller': 'text'}]}},
        {'metadata': {'generation': 'text'}},
        {'metadata': {'creationTimestamp': 5}},
        {'kind': 5},
    ]
    patch = f'PATCH {sample.one}?dryRun=All'
    steps = [{'do': patch, 'type': 'strategic', 'body': body} for body in bodies]
    return [sample.creation, *steps, f'DELETE {sample.one}?gracePeriodSeconds=0']


def applying(sample: Sample) -> list[Any]:
    def apply(query: str, body: Any) -> dict[str, Any]:
        return {'do': f'PATCH {sample.one}{query}', 'type': 'apply', 'body': body}

    whole = sample.object()
    head = {'apiVersion': sample.version, 'kind': sample.kind, 'metadata': {'name': sample.name}}
    changed = {**head, **copy.deepcopy(sample.change)}
    changed['metadata'] = {**sample.change.get('metadata', {}), 'name': sample.name}
    labelled = {**head, 'metadata': {'name': sample.name, 'labels': {'conformance': 'other'}}}
    return [
        apply('', whole),
        apply('?fieldManager=one', whole),
        apply('?fieldManager=one', whole),
        apply('?fieldManager=two', labelled),
        apply('?fieldManager=two&force=true', labelled),
        apply('?fieldManager=three&force=true', changed),
        {'do': f'PATCH {sample.one}', 'type': 'strategic', 'body': sample.change},
        apply('?fieldManager=three&force=true', head),
        apply('?fieldManager=one&force=true', head),
        f'GET {sample.one}',
        f'DELETE {sample.one}',
    ]


def deleting(sample: Sample) -> list[Any]:
    delete = f'DELETE {sample.one}'
    return [
        delete,
        sample.creation,
        {'do': delete, 'body': {'preconditions': {'uid': 'other'}}},
        {'do': delete, 'body': {'preconditions': {'resourceVersion': '1'}}},
        f'{delete}?dryRun=All',
        f'{delete}?propagationPolicy=Nope',
        f'{delete}?gracePeriodSeconds=0',
        *(sample.absence or [f'GET {sample.one}']),
        {'do': f'POST {sample.all}', 'body': sample.object(finalizers=['example.com/x'])},
        f'{delete}?propagationPolicy=Background&gracePeriodSeconds=0',
        delete,
        sample.remains(['example.com/x']),
        {
            'do': f'PATCH {sample.one}',
            'type': 'merge',
            'body': {'metadata': {'finalizers': ['example.com/x', 'example.com/y']}},
        },
        {'do': f'PATCH {sample.one}', 'type': 'merge', 'body': {'metadata': {'finalizers': None}}},
        f'GET {sample.one}',
    ]


def deleting_collections(sample: Sample) -> list[Any]:
    return [
        sample.creation,
        {'do': f'POST {sample.all}', 'body': sample.object(name='$(id)-2')},
        f'DELETE {sample.all}?labelSelector=nope=nope',
        f'DELETE {sample.all}?fieldSelector=metadata.name={sample.name}&gracePeriodSeconds=0',
        f'DELETE {sample.all}?fieldSelector=metadata.name=$(id)-2&dryRun=All',
        f'DELETE {sample.all}?labelSelector====',
        f'DELETE {sample.all}?fieldSelector=metadata.name=$(id)-2&gracePeriodSeconds=0',
        {
            'do': f'GET {sample.all}/$(id)-2',
            **({'until': {'code': 404}} if sample.orphans else {}),
        },
    ]


def dry_running(sample: Sample) -> list[Any]:
    return [
        {**sample.creation, 'do': f'POST {sample.all}?dryRun=All'},
        f'GET {sample.one}',
        {**sample.creation, 'do': f'POST {sample.all}?dryRun=Some'},
        sample.creation,
        {
            'do': f'PATCH {sample.one}?dryRun=All',
            'type': 'strategic',
            'body': sample.change,
        },
        {
            'do': f'PUT {sample.one}?dryRun=All',
            'body': '$(object)',
            'with': {'metadata.labels.new': 'label'},
        },
        f'GET {sample.one}',
        f'DELETE {sample.one}',
    ]


def validating_fields(sample: Sample) -> list[Any]:
    body = {**sample.object(), 'unknownField': 1}
    body['metadata'] = {**body['metadata'], 'unknownMeta': {'a': 1}}
    put = {'do': f'PUT {sample.one}', 'body': '$(object)', 'with': {'unknown': {'a': 'b'}}}
    patch = {'do': f'PATCH {sample.one}', 'type': 'merge', 'body': {'unknown': {'a': 'b'}}}
    return [
        {'do': f'POST {sample.all}?fieldValidation=Strict', 'body': body},
        {'do': f'POST {sample.all}?fieldValidation=Nope', 'body': body},
        {'do': f'POST {sample.all}?fieldValidation=Warn', 'body': body, 'save': {'object': '.'}},
        {**put, 'do': f'{put["do"]}?fieldValidation=Strict'},
        {**put, 'do': f'{put["do"]}?fieldValidation=Ignore'},
        {**patch, 'do': f'{patch["do"]}?fieldValidation=Strict'},
        {**patch, 'do': f'{patch["do"]}?fieldValidation=Ignore'},
        patch,
        f'DELETE {sample.one}',
    ]


def bad_types(sample: Sample) -> list[Any]:
    post = f'POST {sample.all}'
    steps: list[Any] = [
        {'do': post, 'body': {**sample.object(), key: value}}
        for key in sample.object()
        if key not in ('apiVersion', 'kind')
        for value in ('text', 5, ['list'], True, {'odd': {'deep': 1}})
    ]
    return [{**step, 'do': f'{step["do"]}?dryRun=All'} for step in steps]


def status(sample: Sample) -> list[Any] | None:
    target = f'{sample.one}/status'
    if sample.status is None:
        return [sample.creation, f'GET {target}', f'DELETE {sample.one}']
    wrong = {'do': f'PATCH {target}', 'type': 'merge', 'body': {'status': 'text'}}
    changes = {'status': sample.status, 'metadata': {'labels': {'by': 'status'}}}
    return [
        sample.creation,
        f'GET {target}',
        {'do': f'PATCH {target}', 'type': 'merge', 'body': changes},
        {'do': f'PATCH {sample.one}', 'type': 'merge', 'body': {'status': None}},
        {'do': f'PATCH {target}', 'type': 'strategic', 'body': {'status': sample.status}},
        {'do': f'PUT {target}', 'body': '$(object)', 'with': {'metadata.resourceVersion': None}},
        {
            'do': f'PATCH {target}?fieldManager=one&force=true',
            'type': 'apply',
            'body': {'apiVersion': sample.version, 'kind': sample.kind, 'status': sample.status},
        },
        wrong,
        f'DELETE {target}',
        f'POST {target}',
        {'do': f'GET {target}', 'accept': 'table'},
        f'DELETE {sample.one}?gracePeriodSeconds=0',
    ]


def scale(sample: Sample) -> list[Any] | None:
    target = f'{sample.one}/scale'
    if not sample.scale:
        return None
    return [
        f'GET {target}',
        sample.creation,
        {'do': f'GET {target}', 'save': {'scale': '.'}},
        {'do': f'PUT {target}', 'body': '$(scale)', 'with': {'spec.replicas': 4}},
        {'do': f'PUT {target}', 'body': '$(scale)', 'with': {'spec.replicas': 5}},
        {'do': f'PATCH {target}', 'type': 'merge', 'body': {'spec': {'replicas': 6}}},
        {'do': f'PATCH {target}', 'type': 'merge', 'body': {'spec': {'replicas': -1}}},
        {'do': f'PATCH {target}', 'type': 'strategic', 'body': {'spec': {'replicas': 0}}},
        {
            'do': f'PATCH {target}?fieldManager=one&force=true',
            'type': 'apply',
            'body': {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'spec': {'replicas': 2}},
        },
        {'do': f'PATCH {target}', 'type': 'merge', 'body': {'spec': {'replicas': 'many'}}},
        {'do': f'PUT {target}', 'body': {'kind': 'Deployment', 'apiVersion': 'apps/v1'}},
        f'GET {sample.one}',
        f'DELETE {sample.one}',
    ]


def watching(sample: Sample) -> list[Any]:
    watch = f'GET {sample.by_name}&watch=1&timeoutSeconds=1'
    return [
        {'do': f'GET {sample.by_name}', 'save': {'start': 'metadata.resourceVersion'}},
        sample.creation,
        {'do': f'PATCH {sample.one}', 'type': 'strategic', 'body': sample.change},
        {
            'do': f'PATCH {sample.one}',
            'type': 'merge',
            'body': {'metadata': {'labels': {'conformance': 'no'}}},
        },
        f'{watch}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan'
        '&allowWatchBookmarks=true',
        f'DELETE {sample.one}?gracePeriodSeconds=0',
        f'{watch}&resourceVersion=$(start)',
        f'{watch}&resourceVersion=$(start)&labelSelector=conformance=yes',
        {'do': f'{watch}&resourceVersion=$(start)', 'accept': 'table'},
        {'do': f'{watch}&resourceVersion=$(start)', 'accept': 'partial'},
    ]


QUESTIONS: dict[str, Callable[[Sample], list[Any] | None]] = {
    'create': creating,
    'read': reading,
    'list': listing,
    'tables': tables,
    'partial metadata': partial_metadata,
    'update': updating,
    'merge patch': merging,
    'json patch': json_patching,
    'strategic merge': strategic_merging,
    'wrong patches': wrong_patches,
    'apply': applying,
    'delete': deleting,
    'deletecollection': deleting_collections,
    'dry run': dry_running,
    'field validation': validating_fields,
    'bad input': bad_types,
    'status': status,
    'scale': scale,
    'watch': watching,
}
