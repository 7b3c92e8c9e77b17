"""The example operators do on a cluster what they promise."""

from __future__ import annotations

import json
import pathlib
import subprocess
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.client import ApiError, wait_for
from tests.support.examples import ExampleObjects
from tests.support.manifests import apply, delete_and_wait
from tests.support.operator_process import REPOSITORY, OperatorProcess, python_under_test
from tests.support.plane import Plane
from tests.support.processes import free_ports

EXAMPLES = REPOSITORY / 'examples' / 'python'

StartOperator = Callable[..., OperatorProcess]


def install(plane: Plane, crd: pathlib.Path) -> None:
    apply(plane.client, crd)


def wait_replicas(plane: Plane, namespace: str, kind: str, name: str, replicas: int) -> Any:
    path = f'/apis/apps/v1/namespaces/{namespace}/{kind}/{name}'

    def ready() -> Any:
        body = plane.client.find(path)
        counts = (body or {}).get('status', {})
        return (
            body
            if counts.get('readyReplicas', 0) == counts.get('replicas', 0) == replicas
            else None
        )

    return wait_for(
        lambda: f'{kind}/{name} {replicas}/{replicas}; it is {plane.client.find(path)}',
        ready,
        timeout_seconds=60,
    )


def objects_of(plane: Plane, api: str, namespace: str, plural: str) -> ExampleObjects:
    objects = ExampleObjects(plane.client, namespace)
    objects.path = f'/apis/{api}/namespaces/{namespace}/{plural}'
    return objects


def test_quickstart(
    plane: Plane, namespace: str, operator: StartOperator, examples: ExampleObjects
) -> None:
    folder = EXAMPLES / '01-quickstart'
    install(plane, folder / 'crd.yaml')
    process = operator(folder / 'operator.py')
    apply(plane.client, folder / 'obj.yaml', namespace)
    body = examples.wait('my-example', lambda body: body['status']['create_fn'])
    assert body['status']['create_fn']['message'].startswith(
        'Hello from Kopf! Created my-example with spec: '
    )
    examples.patch('my-example', {'spec': {'field': 'changed'}})
    examples.wait(
        'my-example',
        lambda body: body['status']['update_fn'] == {'message': 'Updated my-example with changes.'},
    )
    delete_and_wait(plane.client, folder / 'obj.yaml', namespace)
    process.wait_log('Deleted my-example. Goodbye!')
    assert process.stop() == 0


def test_memcached(plane: Plane, namespace: str, operator: StartOperator) -> None:
    folder = EXAMPLES / '02-memcached'
    install(plane, folder / 'memcached_crd.yaml')
    objects = objects_of(plane, 'cache.example.com/v1alpha1', namespace, 'memcacheds')
    process = operator(folder / 'memcached_operator.py')
    apply(plane.client, folder / 'memcached_instance.yaml', namespace)
    wait_replicas(plane, namespace, 'deployments', 'example-memcached', 3)
    # The names of pods are collected at the handling, so they are complete only after the next
    # change.
    objects.patch('example-memcached', {'spec': {'size': 4}})
    wait_replicas(plane, namespace, 'deployments', 'example-memcached', 4)
    body = objects.wait('example-memcached', lambda body: len(body['status']['nodes']) >= 3)
    assert all(name.startswith('example-memcached-') for name in body['status']['nodes'])
    delete_and_wait(plane.client, folder / 'memcached_instance.yaml', namespace)
    process.wait_log('Deployment deleted successfully.')
    path = f'/apis/apps/v1/namespaces/{namespace}/deployments/example-memcached'
    wait_for('The deployment is gone', lambda: plane.client.find(path) is None)
    assert process.stop() == 0


def test_memcached_advanced(plane: Plane, namespace: str, operator: StartOperator) -> None:
    folder = EXAMPLES / '02-memcached'
    install(plane, folder / 'memcached_crd.yaml')
    objects = objects_of(plane, 'cache.example.com/v1alpha1', namespace, 'memcacheds')
    process = operator(folder / 'advanced_operator.py')
    apply(plane.client, folder / 'memcached_instance.yaml', namespace)
    process.wait_log('Creation is processed: 2 succeeded; 0 failed.')
    objects.patch('example-memcached', {'metadata': {'labels': {'not': 'the-size'}}})
    objects.wait(
        'example-memcached',
        lambda body: (
            'the-size'
            in body['metadata']['annotations']['kopf.zalando.org/last-handled-configuration']
        ),
    )
    assert process.count("Updating Memcached 'example-memcached'") == 0
    objects.patch('example-memcached', {'spec': {'size': 5}})
    process.wait_log("Updating Memcached 'example-memcached' to size 5.")
    objects.delete('example-memcached')
    objects.wait_gone('example-memcached')
    process.wait_log('Finalization complete.')
    assert process.stop() == 0


def test_memcached_unit_test(plane: Plane) -> None:
    """A decorated handler stays an ordinary function."""
    answer = subprocess.run(
        [
            str(python_under_test()),
            '-m',
            'pytest',
            '-q',
            '-p',
            'no:cacheprovider',
            'test_memcached_operator.py',
        ],
        cwd=EXAMPLES / '02-memcached',
        env={'KUBECONFIG': str(plane.kubeconfig), 'PYTHONDONTWRITEBYTECODE': '1'},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_nginx(plane: Plane, namespace: str, operator: StartOperator) -> None:
    folder = EXAMPLES / '03-nginx'
    install(plane, folder / 'nginx_crd.yaml')
    objects = objects_of(plane, 'web.example.com/v1', namespace, 'nginxservers')
    process = operator(folder / 'nginx_operator.py')
    apply(plane.client, folder / 'nginx_instance.yaml', namespace)
    wait_replicas(plane, namespace, 'deployments', 'example-nginx', 2)
    objects.patch('example-nginx', {'spec': {'replicas': 3, 'image': 'nginx:1.20'}})
    body = wait_replicas(plane, namespace, 'deployments', 'example-nginx', 3)
    assert body['spec']['template']['spec']['containers'][0]['image'] == 'nginx:1.20'
    objects.wait(
        'example-nginx',
        lambda body: (
            len(body['status']['podNames']) >= 2 and body['status']['availableReplicas'] >= 2
        ),
    )
    objects.delete('example-nginx')
    objects.wait_gone('example-nginx')
    process.wait_log('NGINX Deployment deleted.')
    assert process.stop() == 0


def test_database(plane: Plane, operator: StartOperator) -> None:
    """The manifest names its namespace, so the operator serves that one."""
    folder = EXAMPLES / '04-database'
    install(plane, folder / 'crd.yaml')
    plane.client.create('/api/v1/namespaces', {'metadata': {'name': 'production'}}, exist_ok=True)
    objects = objects_of(plane, 'techoral.com/v1', 'production', 'databases')
    process = operator(folder / 'operator.py', '-n', 'production')
    apply(plane.client, folder / 'example-database.yaml')
    try:
        wait_replicas(plane, 'production', 'statefulsets', 'orders-db-db', 2)
        body = objects.wait(
            'orders-db', lambda body: body['status']['conditions'] and body['status']['state']
        )
        assert body['status']['engine'] == 'postgresql'
        objects.patch('orders-db', {'spec': {'replicas': 3, 'storage': '200Gi'}})
        wait_replicas(plane, 'production', 'statefulsets', 'orders-db-db', 3)
        objects.wait(
            'orders-db',
            lambda body: (
                body['status']['replicas'] == 3
                and body['status']['pendingAction'] == 'Resize storage to 200Gi'
            ),
        )
        objects.patch('orders-db', {'spec': {'backupEnabled': False}})
        process.wait_log('Disabled backups for orders-db')
        objects.delete('orders-db')
        objects.wait_gone('orders-db')
        process.wait_log('Database orders-db cleanup complete')
        assert process.stop() == 0
    finally:
        plane.client.delete('/apis/apps/v1/namespaces/production/statefulsets/orders-db-db')
        process.kill()
        if objects.get('orders-db') is not None:
            objects.patch('orders-db', {'metadata': {'finalizers': None}})
            objects.delete('orders-db')


@pytest.mark.parametrize(
    'path',
    sorted(path for path in EXAMPLES.glob('*/*operator.py') if not path.name.startswith('test_')),
    ids=lambda path: f'{path.parent.name}/{path.name}',
)
def test_every_example_imports(path: pathlib.Path, plane: Plane) -> None:
    answer = subprocess.run(
        [str(python_under_test()), '-c', f'import runpy; runpy.run_path({str(path)!r})'],
        env={'KUBECONFIG': str(plane.kubeconfig), 'PYTHONDONTWRITEBYTECODE': '1'},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr


def test_admission(
    plane: Plane, namespace: str, operator: StartOperator, examples: ExampleObjects
) -> None:
    folder = EXAMPLES / '05-admission'
    configuration = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations'
    install(plane, folder / 'crd.yaml')
    process = operator(folder / 'operator.py')
    try:
        wait_for(
            'the webhooks',
            lambda: (plane.client.find(f'{configuration}/admission.example.com') or {}).get(
                'webhooks'
            ),
        )
        apply(plane.client, folder / 'obj.yaml', namespace)
        assert examples.get('protected-example')['spec'] == {'size': 1}
        refusals = {
            400: lambda: examples.patch('protected-example', {'spec': {'size': 6}}),
            403: lambda: examples.delete('protected-example'),
        }
        for code, action in refusals.items():
            with pytest.raises(ApiError) as caught:
                action()
            assert caught.value.status == code
        examples.patch('protected-example', {'metadata': {'labels': {'protected': None}}})
        examples.delete('protected-example')
        assert process.stop() == 0
    finally:
        process.kill()
        for kind in 'validating', 'mutating':
            path = configuration.replace('validating', kind)
            plane.client.delete(f'{path}/admission.example.com')


def test_background(plane: Plane, namespace: str, operator: StartOperator) -> None:
    folder = EXAMPLES / '06-background'
    install(plane, folder / 'crd.yaml')
    countdowns = objects_of(plane, 'example.com/v1', namespace, 'countdowns')
    process = operator(folder / 'operator.py')
    apply(plane.client, folder / 'obj.yaml', namespace)
    process.wait_log('seconds old.')
    countdowns.wait('launch', lambda body: 'age' in body['status']['log_age'])
    countdowns.patch('launch', {'spec': {'seconds': 0}})
    countdowns.wait('launch', lambda body: body['status']['phase'] == 'Done')
    assert process.count('Lift off!') == 1
    countdowns.patch('launch', {'metadata': {'labels': {'x': 'y'}}})
    countdowns.delete('launch')
    countdowns.wait_gone('launch')
    assert process.stop() == 0


def test_indexing_and_probes(plane: Plane, namespace: str, operator: StartOperator) -> None:
    folder = EXAMPLES / '07-indexing-and-probes'
    (port,) = free_ports(1)
    address = f'http://localhost:{port}/healthz'
    process = operator(folder / 'operator.py', f'--liveness={address}')
    apply(plane.client, folder / 'configmaps.yaml', namespace)
    process.wait_log('/red-two]', 'Others of the team: red-one.')

    def is_reported() -> bool:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return json.load(answer) == {'teams': {'red': 2}}

    wait_for('the probe reports the sizes', is_reported)
    assert process.stop() == 0


def test_peering(plane: Plane, namespace: str, operator: StartOperator) -> None:
    folder = EXAMPLES / '08-peering'
    apply(plane.client, folder / 'peering.yaml', namespace)
    low = operator(folder / 'operator.py', '--peering=example', '--priority=1')
    peering = objects_of(plane, 'kopf.dev/v1', namespace, 'kopfpeerings')
    peering.wait('example', lambda body: body['status'])
    high = operator(folder / 'operator.py', '--peering=example', '--priority=2')
    low.wait_log('Pausing operations')
    apply(plane.client, folder / 'configmap.yaml', namespace)
    high.wait_log('Hello, world!')
    assert high.stop() == 0
    low.wait_log('Resuming operations')
    assert low.count('Hello, world!') == 0
    assert low.stop() == 0
