"""The example operators in Rust do on a real cluster what they promise.

``make test-real`` builds their binaries; they have the same command line as ``kopf run``.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.operators.examples.test_example_operators import install, objects_of, wait_replicas
from tests.support.client import ApiError, wait_for
from tests.support.examples import ExampleObjects
from tests.support.manifests import apply
from tests.support.operator_process import REPOSITORY, OperatorProcess
from tests.support.plane import Plane

EXAMPLES = REPOSITORY / 'examples' / 'rust'

StartExample = Callable[[str], OperatorProcess]


@pytest.fixture
def example(plane: Plane, namespace: str, tmp_path: pathlib.Path) -> Iterator[StartExample]:
    """Starts an example by its name, in the namespace of the test."""
    started: list[OperatorProcess] = []

    def start(name: str) -> OperatorProcess:
        binary = REPOSITORY / 'target' / 'debug' / f'kopf-example-{name}'
        assert binary.exists(), f'{binary} is not built; see "make test-real".'
        install(plane, EXAMPLES / name / 'crd.yaml')
        env = {'KUBECONFIG': str(plane.kubeconfig)}
        process = OperatorProcess(binary, '-n', namespace, log=tmp_path / 'log', env=env)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        if process.is_running():
            process.kill()


def test_minimal(
    plane: Plane, namespace: str, example: StartExample, examples: ExampleObjects
) -> None:
    process = example('minimal')
    apply(plane.client, EXAMPLES / 'minimal' / 'object.yaml', namespace)
    body = examples.wait('my-example', lambda body: body['status']['create'])
    assert body['status']['create'] == {'message': 'Hello, my-example!'}
    assert body['metadata']['finalizers'] == ['kopf.zalando.org/KopfFinalizerMarker']
    examples.patch('my-example', {'spec': {'field': 'other'}})
    examples.wait('my-example', lambda body: body['status']['field'] == 'other')
    examples.delete('my-example')
    examples.wait_gone('my-example')
    process.wait_log('Goodbye, my-example!')
    assert process.stop() == 0


def test_memcached(plane: Plane, namespace: str, example: StartExample) -> None:
    process = example('memcached')
    objects = objects_of(plane, 'cache.example.com/v1alpha1', namespace, 'memcacheds')
    apply(plane.client, EXAMPLES / 'memcached' / 'object.yaml', namespace)
    wait_replicas(plane, namespace, 'deployments', 'example-memcached', 3)
    objects.wait('example-memcached', lambda body: len(body['status']['nodes']) == 3)
    objects.patch('example-memcached', {'spec': {'size': 2}})
    wait_replicas(plane, namespace, 'deployments', 'example-memcached', 2)
    objects.wait('example-memcached', lambda body: len(body['status']['nodes']) == 2)
    objects.delete('example-memcached')
    objects.wait_gone('example-memcached')
    path = f'/apis/apps/v1/namespaces/{namespace}/deployments/example-memcached'
    wait_for('The deployment is gone', lambda: plane.client.find(path) is None)
    assert process.stop() == 0


def test_admission(
    plane: Plane, namespace: str, example: StartExample, examples: ExampleObjects
) -> None:
    configurations = '/apis/admissionregistration.k8s.io/v1'
    paths = [
        f'{configurations}/{kind}webhookconfigurations/admission.example.com'
        for kind in ('validating', 'mutating')
    ]
    process = example('admission')
    try:
        wait_for(
            'the webhooks',
            lambda: all((plane.client.find(path) or {}).get('webhooks') for path in paths),
        )

        def asked() -> bool:
            examples.delete('probe')
            return examples.create('probe')['spec'] == {'size': 1}

        wait_for('the cluster asks', asked)
        for size in 0, 6:
            with pytest.raises(ApiError) as caught:
                examples.create('bad', spec={'size': size})
            assert caught.value.status == 400
        examples.create('held', spec={'size': 5}, metadata={'labels': {'protected': 'yes'}})
        with pytest.raises(ApiError) as caught:
            examples.delete('held')
        assert caught.value.status == 403
        assert process.stop() == 0
        examples.delete('held')
    finally:
        process.kill()
        for path in paths:
            plane.client.delete(path)
