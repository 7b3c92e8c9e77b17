"""Apply and delete manifests through the API alone, so that no test needs kubectl."""

from __future__ import annotations

import pathlib
from typing import Any

import yaml

from tests.support.client import Client, wait_for

#: The CRDs that every cluster of the tests has.
CRDS = pathlib.Path(__file__).with_name('crds')


def apply(client: Client, manifest: pathlib.Path | str, namespace: str = 'default') -> list[Any]:
    """Apply all objects of a file or a text, and wait until the kinds of CRDs are served."""
    applied = []
    for body in documents(manifest):
        path = f'{object_path(client, body, namespace)}?fieldManager=tests&force=true'
        applied.append(
            client.request('PATCH', path, body, content_type='application/apply-patch+yaml')
        )
        if body['kind'] == 'CustomResourceDefinition':
            wait_served(client, body)
    return applied


def delete(client: Client, manifest: pathlib.Path | str, namespace: str = 'default') -> list[str]:
    """Start to delete all objects of a file or a text; return their paths."""
    paths = [object_path(client, body, namespace) for body in documents(manifest)]
    for path in paths:
        client.delete(path)
    return paths


def delete_and_wait(
    client: Client, manifest: pathlib.Path | str, namespace: str = 'default'
) -> None:
    for path in delete(client, manifest, namespace):
        wait_for(
            lambda path=path: f'{path} is gone; it is {client.find(path)}',
            lambda path=path: client.find(path) is None,
        )


def documents(manifest: pathlib.Path | str) -> list[Any]:
    text = manifest.read_text() if isinstance(manifest, pathlib.Path) else manifest
    return [body for body in yaml.safe_load_all(text) if body is not None]


def object_path(client: Client, body: Any, namespace: str) -> str:
    version = body['apiVersion']
    base = f'/apis/{version}' if '/' in version else f'/api/{version}'
    resources = client.get(base)['resources']
    found = [item for item in resources if item['kind'] == body['kind'] and '/' not in item['name']]
    assert found, f'The kind {body["kind"]} of {version} is not served.'
    namespace = body['metadata'].get('namespace', namespace)
    scope = f'/namespaces/{namespace}' if found[0]['namespaced'] else ''
    return f'{base}{scope}/{found[0]["name"]}/{body["metadata"]["name"]}'


def wait_served(client: Client, crd: Any) -> None:
    spec = crd['spec']
    path = f'/apis/{spec["group"]}/{spec["versions"][0]["name"]}/{spec["names"]["plural"]}'
    wait_for(f'{path} is served', lambda: client.find(path) is not None)
