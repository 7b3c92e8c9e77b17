"""Conversion webhooks: custom resources of several versions, turned into each other by handlers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.client import ApiError, wait_for
from tests.support.manifests import apply, delete_and_wait
from tests.support.operator_process import OperatorProcess
from tests.support.plane import Plane

StartOperator = Callable[..., OperatorProcess]

DEFINITION = 'kopfversions.kopf.dev'
DEFINITION_PATH = f'/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION}'

VERSION = {
    'served': True,
    'storage': False,
    'schema': {'openAPIV3Schema': {
        'type': 'object',
        'properties': {
            'spec': {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True}}}},
}
MANIFEST = json.dumps({
    'apiVersion': 'apiextensions.k8s.io/v1',
    'kind': 'CustomResourceDefinition',
    'metadata': {'name': DEFINITION},
    'spec': {
        'group': 'kopf.dev',
        'scope': 'Namespaced',
        'names': {'plural': 'kopfversions', 'singular': 'kopfversion', 'kind': 'KopfVersion'},
        'versions': [
            {**VERSION, 'name': 'v1', 'storage': True},
            {**VERSION, 'name': 'v2'},
            {**VERSION, 'name': 'v3'},
        ],
    },
})

#: The middle one is the hub; there is no direct way between the outer ones.
SCRIPT = """
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer()
    settings.admission.managed = 'conversions.kopf.dev'

@kopf.on.convert('kopf.dev', 'kopfversions', from_='v1', to='v2', persistent=PERSISTENT)
def up_to_v2(spec, patch, from_version, to_version, **_):
    assert (from_version, to_version) == ('v1', 'v2')
    host, _, port = spec['address'].partition(':')
    patch.spec['address'] = None
    patch.spec['host'] = host
    patch.spec['port'] = int(port)

@kopf.on.convert('kopf.dev', 'kopfversions', from_='v2', to='v1')
async def down_to_v1(body, spec, **_):
    if 'broken' in spec:
        raise kopf.PermanentError('It is broken.')
    address = f"{spec['host']}:{spec['port']}"
    return {**body, 'spec': {'address': address}}

@kopf.on.convert('kopf.dev', 'kopfversions', from_='v2', to='v3')
def up_to_v3(body, spec, **_):
    return {**body, 'spec': {'endpoint': {'host': spec['host'], 'port': spec['port']}}}

@kopf.on.convert('kopf.dev', 'kopfversions', from_='v3', to='v2')
def down_to_v2(patch, **_):
    @patch.fns.append
    def flatten(body):
        body['spec'] = body['spec'].pop('endpoint')

@kopf.on.create('kopf.dev', 'v2', 'kopfversions')
def create(spec, logger, **_):
    logger.info(f"Created with {spec['port']}.")
"""


@pytest.fixture()
def definition(plane: Plane) -> Iterator[None]:
    apply(plane.client, MANIFEST)
    yield
    conversion = {'strategy': 'None', 'webhook': None}
    plane.client.patch(DEFINITION_PATH, {'spec': {'conversion': conversion}})
    delete_and_wait(plane.client, MANIFEST)


def strategy(plane: Plane) -> str:
    return plane.client.get(DEFINITION_PATH)['spec']['conversion']['strategy']


class Versions:
    """Objects through the eyes of different versions."""

    def __init__(self, plane: Plane, namespace: str) -> None:
        self.client = plane.client
        self.namespace = namespace

    def path(self, version: str, name: str = '') -> str:
        base = f'/apis/kopf.dev/{version}/namespaces/{self.namespace}/kopfversions'
        return f'{base}/{name}' if name else base

    def create(self, version: str, name: str, spec: Any) -> Any:
        return self.client.create(self.path(version), {
            'apiVersion': f'kopf.dev/{version}', 'kind': 'KopfVersion',
            'metadata': {'name': name, 'labels': {'a': 'b'}}, 'spec': spec,
        })

    def spec(self, version: str, name: str) -> Any:
        body = self.client.get(self.path(version, name))
        assert body['apiVersion'] == f'kopf.dev/{version}'
        assert body['metadata']['labels'] == {'a': 'b'}
        return body['spec']


def test_conversions(
    plane: Plane, namespace: str, operator: StartOperator, definition: None
) -> None:
    process = operator(SCRIPT.replace('PERSISTENT', 'False'))
    wait_for('the webhook', lambda: strategy(plane) == 'Webhook')
    versions = Versions(plane, namespace)

    def created() -> Any:
        # The API server takes a moment to see the changed definition.
        versions.client.delete(versions.path('v2', 'probe'))
        versions.create('v2', 'probe', {'host': 'localhost', 'port': 1})
        return versions.spec('v1', 'probe') == {'address': 'localhost:1'}

    wait_for('conversions', created)
    versions.create('v1', 'first', {'address': 'example.com:80'})
    assert versions.spec('v1', 'first') == {'address': 'example.com:80'}
    assert versions.spec('v2', 'first') == {'host': 'example.com', 'port': 80}
    assert versions.spec('v3', 'first') == {'endpoint': {'host': 'example.com', 'port': 80}}
    versions.create('v3', 'third', {'endpoint': {'host': 'x', 'port': 2}})
    assert versions.spec('v1', 'third') == {'address': 'x:2'}
    items = versions.client.get(versions.path('v2'))['items']
    assert {item['metadata']['name'] for item in items} == {'probe', 'first', 'third'}
    assert {item['spec']['port'] for item in items} == {1, 80, 2}
    process.wait_log('Created with 80.')
    process.wait_log('Created with 2.')
    with pytest.raises(ApiError) as caught:
        versions.create('v2', 'broken', {'broken': True})
    assert 'It is broken.' in caught.value.text
    for name in 'probe', 'first', 'third':
        versions.client.delete(versions.path('v1', name))
    assert process.stop() == 0
    assert strategy(plane) == 'None'


def test_persistent_conversions(
    plane: Plane, namespace: str, operator: StartOperator, definition: None
) -> None:
    process = operator(SCRIPT.replace('PERSISTENT', 'True'))
    wait_for('the webhook', lambda: strategy(plane) == 'Webhook')
    assert process.stop() == 0
    assert strategy(plane) == 'Webhook'
    before = plane.client.get(DEFINITION_PATH)['spec']['conversion']
    process.start()
    wait_for(
        'the new address',
        lambda: plane.client.get(DEFINITION_PATH)['spec']['conversion'] != before,
    )
    assert process.stop() == 0


def test_two_handlers_for_the_same_conversion(operator: StartOperator) -> None:
    process = operator("""
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer()

@kopf.on.convert('kopfversions', from_='v1', to='v2')
def one_fn(**_):
    pass

@kopf.on.convert('kopfversions', from_='v1', to='v2')
def other_fn(**_):
    pass
""")
    assert process.wait() == 1
    text = "'one_fn' and .*'other_fn' are for the same conversion, from v1 to v2"
    assert re.search(text, process.text()), process.tail()
