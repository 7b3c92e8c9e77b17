"""Children of objects, as the libraries make them; the cluster removes them with their owner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.client import wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.plane import Plane

MAKERS = {
    'dict': """

@kopf.on.create('kopfexamples')
def create_fn(body, **_):
    import kubernetes.client, kubernetes.config
    kubernetes.config.load_kube_config()
    child = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'data': {'by': 'dict'}}
    kopf.adopt([child])
    kubernetes.client.CoreV1Api().create_namespaced_config_map(
        child['metadata']['namespace'], child)
""",
    'kubernetes': """
import kubernetes.client

@kopf.on.create('kopfexamples')
def create_fn(body, **_):
    kubernetes.config.load_kube_config()
    child = kubernetes.client.V1ConfigMap(data={'by': 'kubernetes'})
    kopf.adopt(child)
    kubernetes.client.CoreV1Api().create_namespaced_config_map(child.metadata.namespace, child)
""",
    'kubernetes_asyncio': """
import kubernetes_asyncio.client, kubernetes_asyncio.config

@kopf.on.create('kopfexamples')
async def create_fn(body, **_):
    await kubernetes_asyncio.config.load_kube_config()
    metadata = kubernetes_asyncio.client.V1ObjectMeta(labels={'own': 'label'})
    child = kubernetes_asyncio.client.V1ConfigMap(data={'by': 'asyncio'}, metadata=metadata)
    kopf.adopt(child)
    async with kubernetes_asyncio.client.ApiClient() as client:
        api = kubernetes_asyncio.client.CoreV1Api(client)
        await api.create_namespaced_config_map(child.metadata.namespace, child)
""",
    'pykube': """
import pykube

@kopf.on.create('kopfexamples')
def create_fn(body, **_):
    api = pykube.HTTPClient(pykube.KubeConfig.from_env())
    child = pykube.ConfigMap(api, {'data': {'by': 'pykube'}})
    kopf.adopt(child)
    child.create()
""",
}


@pytest.mark.parametrize('library', list(MAKERS))
def test_adopted_children_go_with_their_owner(
    operator: Callable[..., OperatorProcess],
    examples: ExampleObjects,
    plane: Plane,
    namespace: str,
    library: str,
) -> None:
    process = operator('import kopf\n' + MAKERS[library])
    owner = examples.create('owner', metadata={'labels': {'some': 'label'}})
    path = f'/api/v1/namespaces/{namespace}/configmaps?labelSelector=some%3Dlabel'
    [child] = wait_for(
        lambda: f'the child; the log is {process.tail()}', lambda: plane.client.get(path)['items']
    )
    metadata = child['metadata']
    assert metadata['name'].startswith('owner-') and metadata['namespace'] == namespace
    assert metadata['ownerReferences'] == [
        {
            'apiVersion': 'kopf.dev/v1',
            'kind': 'KopfExample',
            'name': 'owner',
            'uid': owner['metadata']['uid'],
            'controller': True,
            'blockOwnerDeletion': True,
        }
    ]
    process.wait_log("Handler 'create_fn' succeeded.")
    examples.delete('owner')
    wait_for('the child goes, too', lambda: not plane.client.get(path)['items'])
    assert process.stop() == 0
