"""How many requests an object costs, as the API server has counted them."""

from __future__ import annotations

import collections
from collections.abc import Callable

import pytest

from tests.controlplane.audit import Request
from tests.controlplane.plane import ControlPlane
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess

SCRIPT = """
import kopf

@kopf.on.create('kopf.dev', 'v1', '{plural}')
def create_fn(**_):
    return {{'created': True}}

@kopf.on.create('kopf.dev', 'v1', '{plural}')
def another_fn(patch, **_):
    patch.status['another'] = 'one'

@kopf.on.update('kopf.dev', 'v1', '{plural}')
async def update_fn(**_):
    return 'updated'

@kopf.on.delete('kopf.dev', 'v1', '{plural}')
async def delete_fn(**_):
    pass
"""

OBJECTS = 5

#: The users of the audit log from the end of the list: the parity tests take them from the
#: beginning.
USERS = {
    'kopfexamples': 'operator-511',
    'kopfstatuses': 'operator-510',
    'matchless': 'operator-509',
    'idle': 'operator-508',
    'refused': 'operator-507',
}


@pytest.mark.parametrize(
    'plural, kind, patches_per_outcome',
    [
        ('kopfexamples', 'KopfExample', 1),
        ('kopfstatuses', 'KopfStatus', 2),  # the object and its status, separately
    ],
)
def test_patches_per_object(
    plural: str,
    kind: str,
    patches_per_outcome: int,
    plane: ControlPlane,
    namespace: str,
    operator: Callable[..., OperatorProcess],
) -> None:
    objects = ExampleObjects(plane.client, namespace, plural, kind)
    user = USERS[plural]
    seen_before = len(plane.requests(user))
    process = operator(SCRIPT.format(plural=plural), client=plane.user(user))
    names = [f'obj-{number}' for number in range(OBJECTS)]

    def patches() -> dict[str | None, int]:
        requests = [
            request for request in plane.requests(user)[seen_before:] if request.verb == 'patch'
        ]
        return collections.Counter(request.name for request in requests)

    def wait_up_to_date(name: str, field: str) -> None:
        objects.wait(name, lambda body: body['status'][field])
        objects.wait(name, lambda body: is_handled(body, body['spec']['field']))

    for name in names:
        objects.create(name, spec={'field': 'value'})
    for name in names:
        wait_up_to_date(name, 'create_fn')
        wait_up_to_date(name, 'another')
    created = patches()
    for name in names:
        objects.patch(name, {'spec': {'field': 'changed'}})
    for name in names:
        wait_up_to_date(name, 'update_fn')
    updated = patches()
    for name in names:
        objects.delete(name)
    for name in names:
        objects.wait_gone(name)
    deleted = patches()
    assert process.stop() == 0

    for name in names:
        assert created[name] <= 1 + 2 * patches_per_outcome, f'creation of {name}: {created}'
        assert updated[name] - created[name] <= patches_per_outcome, f'update of {name}: {updated}'
        assert deleted[name] - updated[name] <= 2, f'deletion of {name}: {deleted}'
    assert_no_waste(plane.requests(user)[seen_before:])


def test_objects_of_others_cost_nothing(
    plane: ControlPlane,
    namespace: str,
    examples: ExampleObjects,
    operator: Callable[..., OperatorProcess],
) -> None:
    user = USERS['matchless']
    seen_before = len(plane.requests(user))
    script = SCRIPT.format(plural='kopfexamples').replace(
        "'kopfexamples')", "'kopfexamples', labels={'mine': 'yes'})"
    )
    process = operator(script, client=plane.user(user))
    for number in range(OBJECTS):
        examples.create(f'other-{number}', spec={'field': 'value'})
    examples.create('mine', spec={'field': 'value'}, metadata={'labels': {'mine': 'yes'}})
    examples.wait('mine', lambda body: is_handled(body, 'value'))
    for number in range(OBJECTS):
        examples.delete(f'other-{number}')
    examples.delete('mine')
    examples.wait_gone('mine')
    assert process.stop() == 0
    requests = plane.requests(user)[seen_before:]
    assert {request.name for request in requests if request.verb == 'patch'} == {'mine'}
    assert_no_waste(requests)


def test_handled_objects_cost_nothing_after_a_restart(
    plane: ControlPlane,
    namespace: str,
    examples: ExampleObjects,
    operator: Callable[..., OperatorProcess],
) -> None:
    user = USERS['idle']
    process = operator(SCRIPT.format(plural='kopfexamples'), client=plane.user(user))
    for number in range(OBJECTS):
        examples.create(f'obj-{number}', spec={'field': 'value'})
    for number in range(OBJECTS):
        examples.wait(f'obj-{number}', lambda body: is_handled(body, 'value'))
    assert process.stop() == 0
    seen_before = len(plane.requests(user))
    process.start()
    examples.create('late', spec={'field': 'value'})
    examples.wait('late', lambda body: is_handled(body, 'value'))
    assert process.stop() == 0
    requests = plane.requests(user)[seen_before:]
    assert {request.name for request in requests if request.verb == 'patch'} == {'late'}
    assert_no_waste(requests)


def is_handled(body: dict, field: str) -> bool:
    annotations = {
        key: value
        for key, value in body['metadata']['annotations'].items()
        if key.startswith('kopf.zalando.org/')
    }
    return (
        field in annotations.pop('kopf.zalando.org/last-handled-configuration') and not annotations
    )


def assert_no_waste(requests: list[Request]) -> None:
    """Nothing is read except by lists and watches, nothing is refused, and nothing is listed again
    and again.
    """
    assert [request for request in requests if request.verb == 'get' and request.resource] == []
    assert [request for request in requests if request.code >= 400] == []
    lists = collections.Counter(request.resource for request in requests if request.verb == 'list')
    assert all(count <= 2 for count in lists.values()), lists


def test_refused_patches_are_not_repeated_for_ever(
    operator: Callable[..., OperatorProcess], examples: ExampleObjects, plane: ControlPlane
) -> None:
    script = """
import kopf

@kopf.on.create('kopfexamples', when=lambda name, **_: name == 'unusual')
def unusual_fn(patch, **_):
    patch.metadata.labels['label'] = 'not a label!'

@kopf.on.create('kopfexamples', when=lambda name, **_: name != 'unusual')
def good_fn(**_):
    return 'good'
"""
    user = USERS['refused']
    seen_before = len(plane.requests(user))
    process = operator(script, client=plane.user(user))
    examples.create('unusual')
    process.wait_log('not a label!')
    examples.create('even')
    examples.wait('even', lambda body: body['status']['good_fn'] == 'good')
    assert process.stop() == 0
    refused = [request for request in plane.requests(user)[seen_before:] if request.code == 422]
    assert 1 <= len(refused) <= 10, refused
