"""kubectl, on the embedded cluster as on a real one: discovery, validation, tables, patches, waits.

It comes with the control plane, so it is a part of ``make test-real`` only, for both clusters.
Another one, such as that of the distribution, is tested too if it is in the path.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.controlplane.plane import programs_folder
from tests.support.plane import Plane

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: 'nginx:1.20'}]
"""

PROGRAMS = [programs_folder() / 'kubectl']
if (found := shutil.which('kubectl')) is not None:
    PROGRAMS.append(pathlib.Path(found))

Kubectl = Callable[..., str]


@pytest.fixture(params=PROGRAMS, ids=str)
def kubectl(
    request: pytest.FixtureRequest, plane: Plane, namespace: str, tmp_path: pathlib.Path
) -> Kubectl:
    def run(*args: str, input: str | None = None, code: int = 0) -> str:
        answer = subprocess.run(
            [str(request.param), '-n', namespace, f'--cache-dir={tmp_path}', *args],
            env={**os.environ, 'KUBECONFIG': str(plane.kubeconfig)},
            input=input,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert answer.returncode == code, f'kubectl {" ".join(args)}: {answer.stderr}'
        return answer.stdout + answer.stderr

    return run


def test_the_life_of_a_deployment(kubectl: Kubectl) -> None:
    assert 'deployment.apps/web created' in kubectl('apply', '-f', '-', input=MANIFEST)
    assert 'successfully rolled out' in kubectl('rollout', 'status', 'deployment/web')
    listed = kubectl('get', 'deployments').splitlines()
    assert listed[0].split() == ['NAME', 'READY', 'UP-TO-DATE', 'AVAILABLE', 'AGE']
    assert listed[1].split()[:4] == ['web', '3/3', '3', '3']
    assert kubectl('get', 'pods', '-l', 'app=web', '-o', 'name').count('pod/web-') == 3

    assert 'scaled' in kubectl('scale', 'deployment/web', '--replicas=5')
    kubectl('wait', '--for=jsonpath={.status.readyReplicas}=5', 'deployment/web', '--timeout=60s')
    assert 'image updated' in kubectl('set', 'image', 'deployment/web', 'web=nginx:1.21')
    kubectl('rollout', 'status', 'deployment/web')
    assert 'rolled back' in kubectl('rollout', 'undo', 'deployment/web')
    kubectl('rollout', 'status', 'deployment/web')
    image = '-o=jsonpath={.spec.template.spec.containers[0].image}'
    assert kubectl('get', 'deployment/web', image) == 'nginx:1.20'

    described = kubectl('describe', 'deployment', 'web')
    assert 'NewReplicaSet:' in described and '5 desired | 5 updated | 5 total' in described
    assert 'deleted' in kubectl('delete', '-f', '-', input=MANIFEST)
    assert 'NotFound' in kubectl('get', 'deployment/web', code=1)


def test_other_commands(kubectl: Kubectl) -> None:
    assert 'Server Version: v1.36.3' in kubectl('version')
    assert 'deployments' in kubectl('api-resources', '--api-group=apps')
    assert 'kopf.dev/v1' in kubectl('api-versions')
    explained = kubectl('explain', 'deployment.spec.replicas')
    assert 'replicas' in explained and 'integer' in explained
    assert 'created' in kubectl('create', 'configmap', 'one', '--from-literal=a=b')
    assert 'labeled' in kubectl('label', 'configmap', 'one', 'x=y')
    assert 'annotated' in kubectl('annotate', 'configmap', 'one', 'x=y')
    patch = '-p={"data":{"a":"c"}}'
    assert 'patched' in kubectl('patch', 'configmap', 'one', '--type=merge', patch)
    assert kubectl('get', 'configmap', 'one', '-o=jsonpath={.data.a}') == 'c'
    assert 'yes' in kubectl('auth', 'can-i', 'delete', 'pods')
    applied = kubectl('apply', '--server-side', '-f', '-', input=MANIFEST)
    assert 'serverside-applied' in applied
    other = MANIFEST.replace('replicas: 3', 'replicas: 4')
    changed = kubectl('diff', '-f', '-', input=other, code=1)
    assert '+  replicas: 4' in changed
    bad = MANIFEST.replace('replicas: 3', 'replicas: three')
    refused = kubectl('apply', '-f', '-', '--validate=false', input=bad, code=1)
    assert 'unrecognized type: int32' in refused, refused
