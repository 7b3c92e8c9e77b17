"""The story of `make demo`: an object is created, handled, scaled and deleted; then it ends.

It runs beside the operator of examples/python/02-memcached, with KUBECONFIG set by `kopf dev`.
"""
from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

EXAMPLE = pathlib.Path(__file__).parents[1] / 'examples/python/02-memcached'
KIND = ('cache.example.com', 'v1alpha1', 'default', 'memcacheds')
NAME = 'example-memcached'
PATIENCE_SECONDS = 30.0


def main() -> None:
    config.load_kube_config()
    objects, apps, core = client.CustomObjectsApi(), client.AppsV1Api(), client.CoreV1Api()

    def deployment() -> Any | None:
        try:
            return apps.read_namespaced_deployment(NAME, 'default')
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def wait_size(size: int) -> None:
        wait_for(f'{size} ready pods', lambda: (
            (found := deployment()) is not None and found.status.ready_replicas == size))
        pods = core.list_namespaced_pod('default', label_selector='app=memcached').items
        say(f'deployment/{NAME}  READY {size}/{size}')
        for pod in pods:
            tell(f'    pod/{pod.metadata.name}  {pod.status.phase}  {pod.status.pod_ip}')

    say('Create an object of the kind Memcached with 3 nodes')
    objects.create_namespaced_custom_object(
        *KIND, yaml.safe_load((EXAMPLE / 'memcached_instance.yaml').read_text()))
    wait_size(3)

    say('Scale it to 5 nodes')
    objects.patch_namespaced_custom_object(*KIND, NAME, {'spec': {'size': 5}})
    wait_size(5)

    say('Delete it')
    objects.delete_namespaced_custom_object(*KIND, NAME)
    wait_for('the end of the object', lambda: is_gone(objects))
    wait_for('the end of its deployment', lambda: deployment() is None)
    wait_for('the end of its pods', lambda: not core.list_namespaced_pod('default').items)
    say('All is gone: the object, its deployment, its pods')


def is_gone(objects: Any) -> bool:
    try:
        objects.get_namespaced_custom_object(*KIND, NAME)
    except ApiException as error:
        if error.status == 404:
            return True
        raise
    return False


def wait_for(what: str, check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not check():
        if time.monotonic() > deadline:
            sys.exit(f'Not seen in {PATIENCE_SECONDS:.0f} s: {what}')
        time.sleep(0.05)


def say(text: str) -> None:
    tell(f'\n\x1b[1;32m=== {text}\x1b[0m' if sys.stderr.isatty() else f'\n=== {text}')


def tell(text: str) -> None:
    # Where the log of the operator goes, so that both are read in their order.
    print(text, file=sys.stderr, flush=True)


if __name__ == '__main__':
    main()
