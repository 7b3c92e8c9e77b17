"""The operator needs no more permissions than the documentation lists, and lives with fewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.controlplane.accounts import temporary_account
from tests.controlplane.plane import ControlPlane
from tests.support.client import wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess

SCRIPT = """
import kopf

@kopf.on.create('kopf.dev', 'v1', 'kopfexamples')
def create_fn(body, **_):
    kopf.info(body, reason='Created', message='It is created.')
    return {'created': True}

@kopf.on.update('kopf.dev', 'v1', 'kopfexamples')
def update_fn(body, **_):
    kopf.info(body, reason='Updated', message='It is updated.')
    return 'updated'

@kopf.on.delete('kopf.dev', 'v1', 'kopfexamples')
def delete_fn(**_):
    pass
"""

RULES = [
    {'apiGroups': ['kopf.dev'], 'resources': ['kopfexamples'], 'verbs': ['list', 'watch', 'patch']},
    {'apiGroups': [''], 'resources': ['events'], 'verbs': ['create']},
]
CLUSTER_RULES = [
    {
        'apiGroups': ['apiextensions.k8s.io'],
        'resources': ['customresourcedefinitions'],
        'verbs': ['list', 'watch'],
    },
    {'apiGroups': [''], 'resources': ['namespaces'], 'verbs': ['list', 'watch']},
]

#: How the warnings call what they cannot access.
WORDS = {
    'customresourcedefinitions': ('resources', 'customresourcedefinitions'),
    'namespaces': ('namespaces',),
    'events': ('event',),
}


def without(rules: list[dict[str, Any]], resource: str | None) -> list[dict[str, Any]]:
    return [rule for rule in rules if resource not in rule['resources']]


def live_through(examples: ExampleObjects) -> None:
    """Let the operator handle a creation, a change, and a deletion."""
    examples.create('obj', spec={'field': 'value'})
    examples.wait('obj', lambda body: body['status']['create_fn'] == {'created': True})
    examples.patch('obj', {'spec': {'field': 'changed'}})
    examples.wait('obj', lambda body: body['status']['update_fn'] == 'updated')
    examples.delete('obj')
    examples.wait_gone('obj')


def test_documented_permissions_suffice(
    plane: ControlPlane,
    namespace: str,
    examples: ExampleObjects,
    operator: Callable[..., OperatorProcess],
) -> None:
    with temporary_account(
        plane, namespace, 'operator', rules=RULES, cluster_rules=CLUSTER_RULES
    ) as client:
        process = operator(SCRIPT, '--log-format=json', client=client)
        live_through(examples)
        events = f'/api/v1/namespaces/{namespace}/events'
        wait_for('Both events are posted', lambda: len(plane.client.get(events)['items']) == 2)
        assert process.stop() == 0

    requests = plane.requests(f'system:serviceaccount:{namespace}:operator')
    assert [request for request in requests if request.code in (401, 403)] == []
    assert [request for request in requests if request.verb == 'get' and request.resource] == []
    assert warnings_of(process) == []


@pytest.mark.parametrize('resource', ['customresourcedefinitions', 'namespaces', 'events'])
def test_fewer_permissions_mean_a_warning(
    resource: str,
    plane: ControlPlane,
    namespace: str,
    examples: ExampleObjects,
    operator: Callable[..., OperatorProcess],
) -> None:
    rules, cluster_rules = without(RULES, resource), without(CLUSTER_RULES, resource)
    with temporary_account(
        plane, namespace, 'operator', rules=rules, cluster_rules=cluster_rules
    ) as client:
        process = operator(SCRIPT, '--log-format=json', client=client)
        live_through(examples)
        wait_for(lambda: f'A warning in {process.tail()}', lambda: warnings_of(process))
        assert process.stop() == 0
    found = warnings_of(process)
    assert len(found) == 1, found
    assert any(word in found[0] for word in WORDS[resource]), found


def warnings_of(process: OperatorProcess) -> list[str]:
    return [
        entry['message']
        for entry in process.entries()
        if entry['severity'] not in ('info', 'debug')
    ]
