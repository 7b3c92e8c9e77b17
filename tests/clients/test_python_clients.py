"""The Python clients of Kubernetes, each by its own ways: the same life of objects with all.

Create, read, list by labels, watch, patch, a conflict, a subresource, delete; with a built-in kind
and with a custom one.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from tests.support.client import wait_for
from tests.support.plane import Plane

CUSTOM = {'apiVersion': 'kopf.dev/v1', 'kind': 'KopfExample'}


# Some clients read the variable only once, when they are imported; so the test passes the path.
@pytest.fixture(autouse=True)
def kubeconfig(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('KUBECONFIG', str(plane.kubeconfig))


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        'apiVersion': 'v1',
        'kind': 'ConfigMap',
        'metadata': {'name': name, 'labels': {'app': name}},
        'data': data,
    }


def deployment(name: str) -> dict[str, Any]:
    labels = {'app': name}
    return {
        'apiVersion': 'apps/v1',
        'kind': 'Deployment',
        'metadata': {'name': name},
        'spec': {
            'replicas': 2,
            'selector': {'matchLabels': labels},
            'template': {
                'metadata': {'labels': labels},
                'spec': {'containers': [{'name': 'main', 'image': 'nginx'}]},
            },
        },
    }


def test_kubernetes(namespace: str) -> None:
    from kubernetes import client, config, watch
    from kubernetes.client.exceptions import ApiException

    with config.new_client_from_config(os.environ['KUBECONFIG']) as api:
        core, apps, custom = (
            client.CoreV1Api(api),
            client.AppsV1Api(api),
            client.CustomObjectsApi(api),
        )
        created = core.create_namespaced_config_map(namespace, config_map('one', a='1'))
        assert created.data == {'a': '1'} and created.metadata.uid
        core.patch_namespaced_config_map('one', namespace, {'data': {'a': None, 'b': '2'}})
        found = core.list_namespaced_config_map(namespace, label_selector='app=one')
        assert [item.data for item in found.items] == [{'b': '2'}]
        with pytest.raises(ApiException) as caught:
            core.replace_namespaced_config_map('one', namespace, created)
        assert caught.value.status == 409 and 'the object has been modified' in caught.value.body
        core.delete_namespaced_config_map('one', namespace)
        seen = []
        stream = watch.Watch()
        for event in stream.stream(
            core.list_namespaced_config_map,
            namespace,
            resource_version=created.metadata.resource_version,
            field_selector='metadata.name=one',
            timeout_seconds=30,
        ):
            seen.append(event['type'])
            if event['type'] == 'DELETED':
                stream.stop()
        assert seen == ['MODIFIED', 'DELETED']
        with pytest.raises(ApiException) as caught:
            core.read_namespaced_config_map('one', namespace)
        assert caught.value.status == 404

        apps.create_namespaced_deployment(namespace, deployment('two'))
        apps.patch_namespaced_deployment_scale('two', namespace, {'spec': {'replicas': 3}})
        assert apps.read_namespaced_deployment('two', namespace).spec.replicas == 3

        place = ('kopf.dev', 'v1', namespace, 'kopfexamples')
        body = {**CUSTOM, 'metadata': {'name': 'three'}, 'spec': {'a': 1}}
        custom.create_namespaced_custom_object(*place, body)
        custom.patch_namespaced_custom_object(*place, 'three', {'spec': {'b': 2}})
        assert custom.get_namespaced_custom_object(*place, 'three')['spec'] == {'a': 1, 'b': 2}
        custom.delete_namespaced_custom_object(*place, 'three')
        assert custom.list_namespaced_custom_object(*place)['items'] == []


def test_kubernetes_dynamic(namespace: str) -> None:
    """It works by discovery."""
    from kubernetes import config, dynamic

    with config.new_client_from_config(os.environ['KUBECONFIG']) as api:
        client = dynamic.DynamicClient(api)
        resource = client.resources.get(api_version='apps/v1', kind='Deployment')
        resource.server_side_apply(deployment('one'), namespace=namespace, field_manager='tests')
        assert resource.get(name='one', namespace=namespace).spec.replicas == 2
        custom = client.resources.get(api_version='kopf.dev/v1', kind='KopfExample')
        custom.create({**CUSTOM, 'metadata': {'name': 'two'}}, namespace=namespace)
        assert [item.metadata.name for item in custom.get(namespace=namespace).items] == ['two']


def test_kubernetes_asyncio(namespace: str) -> None:
    from kubernetes_asyncio import client, config, watch

    async def life() -> None:
        await config.load_kube_config(os.environ['KUBECONFIG'])
        async with client.ApiClient() as api:
            core = client.CoreV1Api(api)
            created = await core.create_namespaced_config_map(namespace, config_map('one', a='1'))
            await core.patch_namespaced_config_map(
                'one', namespace, [{'op': 'replace', 'path': '/data/a', 'value': '2'}]
            )
            async with watch.Watch().stream(
                core.list_namespaced_config_map,
                namespace,
                resource_version=created.metadata.resource_version,
                timeout_seconds=30,
            ) as stream:
                async for event in stream:
                    if event['object'].metadata.name == 'one':
                        assert (event['type'], event['object'].data) == ('MODIFIED', {'a': '2'})
                        break
            await core.delete_collection_namespaced_config_map(namespace, label_selector='app=one')
            left = await core.list_namespaced_config_map(namespace, label_selector='app=one')
            assert left.items == []

    asyncio.run(life())


def test_pykube(plane: Plane, namespace: str) -> None:
    import pykube
    from pykube.exceptions import ObjectDoesNotExist

    api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(plane.kubeconfig)))
    try:
        pykube.ConfigMap(
            api,
            {
                **config_map('one', a='1'),
                'metadata': {'name': 'one', 'namespace': namespace, 'labels': {'app': 'one'}},
            },
        ).create()
        found = pykube.ConfigMap.objects(api, namespace).filter(selector={'app': 'one'})
        (one,) = found
        one.obj['data']['b'] = '2'
        one.update()
        one.reload()
        assert one.obj['data'] == {'a': '1', 'b': '2'}
        one.annotations['note'] = 'x'
        one.update()
        body = deployment('two')
        body['metadata']['namespace'] = namespace
        pykube.Deployment(api, body).create()
        # It writes the version it has seen, so the controllers must be done with the object.
        path = f'/apis/apps/v1/namespaces/{namespace}/deployments/two'
        wait_for('ready pods', lambda: plane.client.get(path)['status'].get('readyReplicas') == 2)
        pykube.Deployment.objects(api, namespace).get_by_name('two').scale(3)
        assert pykube.Deployment.objects(api, namespace).get_by_name('two').replicas == 3
        one.delete()
        with pytest.raises(ObjectDoesNotExist):
            pykube.ConfigMap.objects(api, namespace).get_by_name('one')
    finally:
        api.session.close()


def test_lightkube(namespace: str) -> None:
    from lightkube import ApiError, Client
    from lightkube.generic_resource import create_namespaced_resource
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.core_v1 import ConfigMap
    from lightkube.types import PatchType

    client = Client(namespace=namespace, field_manager='tests')
    try:
        about = ObjectMeta(name='one', labels={'l': 'x'})
        client.create(ConfigMap(metadata=about, data={'a': '1'}))
        client.patch(ConfigMap, 'one', {'data': {'b': '2'}}, patch_type=PatchType.MERGE)
        (found,) = client.list(ConfigMap, labels={'l': 'x'})
        assert found.data == {'a': '1', 'b': '2'}
        applied = client.apply(Deployment.from_dict(deployment('two')))
        assert applied.spec is not None and applied.spec.replicas == 2
        client.patch(Deployment, 'two', {'spec': {'paused': True}})  # a strategic merge patch
        kind = create_namespaced_resource('kopf.dev', 'v1', 'KopfExample', 'kopfexamples')
        client.create(kind.from_dict({**CUSTOM, 'metadata': {'name': 'three'}, 'spec': {'a': 1}}))
        for change, item in client.watch(kind, resource_version='0'):
            assert (change, item['spec']) == ('ADDED', {'a': 1})
            break
        client.delete(ConfigMap, 'one')
        with pytest.raises(ApiError) as caught:
            client.get(ConfigMap, 'one')
        assert caught.value.status.code == 404 and caught.value.status.reason == 'NotFound'
    finally:
        client._client._client.close()


def test_kr8s(plane: Plane, namespace: str) -> None:
    import kr8s
    from kr8s.objects import ConfigMap, Deployment, new_class

    api = kr8s.api(kubeconfig=str(plane.kubeconfig), namespace=namespace)
    one = ConfigMap({**config_map('one', a='1')}, namespace=namespace, api=api)
    one.create()
    one.patch({'data': {'b': '2'}})
    (found,) = list(api.get('configmaps', namespace=namespace, label_selector='app=one'))
    assert found.raw['data'] == {'a': '1', 'b': '2'}
    two = Deployment(deployment('two'), namespace=namespace, api=api)
    two.create()
    two.scale(3)
    assert two.replicas == 3
    kind = new_class(kind='KopfExample', version='kopf.dev/v1', namespaced=True)
    three = kind({**CUSTOM, 'metadata': {'name': 'three'}}, namespace=namespace, api=api)
    three.create()
    assert three.exists()
    one.delete()
    assert not one.exists()
