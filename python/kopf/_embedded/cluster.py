"""`kopf.testing.Cluster`: an embedded Kubernetes cluster, for tests and development.

The cluster listens on a local port, so that operators, clients and child processes use it as any
other. The helpers here call it directly, without any client library.
"""
from __future__ import annotations

import asyncio
import json
import os
import pathlib
import shutil
import tempfile
import time
import types
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kopf import _native, _native_cluster
from kopf._connect import active_cluster
from kopf._embedded.async_cluster import AsyncCluster
from kopf._embedded.manifests import Manifest, texts_of
from kopf._embedded.polling import Poll

T = TypeVar('T')

MERGE_PATCH = 'application/merge-patch+json'
JSON_PATCH = 'application/json-patch+json'


class ClusterError(Exception):
    """The cluster has rejected a request."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class Cluster:
    """A separate Kubernetes cluster while the block runs::

        with Cluster(manifests=['crd.yaml']) as cluster:
            with KopfRunner(['run', '-A', 'handlers.py']):
                cluster.apply('obj.yaml')
                cluster.wait_for('kopfexamples', 'my-example', lambda obj: obj['status'])

    Meanwhile, the variable `KUBECONFIG` points to it, and the service account of the pod is hidden,
    so that operators and clients of this process and of its children use it, unless
    `environ=False`. In any case, an operator of this process that would log in to another cluster
    refuses to run. With `data_dir=`, the cluster keeps its objects in that folder. With
    `workloads=False`, it creates no pods for deployments or jobs, and has no node.

    With `async with`, the block gets an object with the same methods, all of them coroutines.
    """

    def __init__(
            self,
            *,
            manifests: Sequence[Manifest] = (),
            host: str = '127.0.0.1',
            port: int = 0,
            environ: bool = True,
            data_dir: str | os.PathLike[str] | None = None,
            workloads: bool = True,
            seed: int | None = None,
    ) -> None:
        self._manifests = list(manifests)
        self._host, self._port = host, port
        self._environ = environ
        self._config = {
            'seed': seed,
            'workloads': workloads,
            'data_dir': None if data_dir is None else os.fspath(data_dir),
        }
        self._native: _native_cluster.Cluster | None = None
        self._folder: pathlib.Path | None = None
        self._access: dict[str, str] = {}
        self._embedded: active_cluster.Embedded | None = None

    def start(self) -> Cluster:
        """Start the cluster, if you do not use a `with` block."""
        config = {**self._config, 'clock_shift_seconds': _native.clock_shift()}
        native = _native_cluster.Cluster(json.dumps(config))
        native.start(self._host, self._port)
        self._native = native
        self._access = json.loads(native.access())
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix='kopf-cluster-'))
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(self._access['kubeconfig'])
        self._embedded = active_cluster.Embedded(
            server=self.url, kubeconfig=str(self.kubeconfig), leading=self._environ)
        try:
            active_cluster.enter(self._embedded)
            for manifest in self._manifests:
                self.apply(manifest)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the cluster. Its objects are lost, unless `data_dir=` keeps them."""
        native, self._native = self._native, None
        if native is None:
            return
        if self._embedded is not None:
            active_cluster.leave(self._embedded)
            self._embedded = None
        native.close()
        shutil.rmtree(self.kubeconfig.parent, ignore_errors=True)

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
            self,
            exc_type: type[BaseException] | None,
            exc_val: BaseException | None,
            exc_tb: types.TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> AsyncCluster:
        await asyncio.to_thread(self.start)
        return AsyncCluster(self)

    async def __aexit__(
            self,
            exc_type: type[BaseException] | None,
            exc_val: BaseException | None,
            exc_tb: types.TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The file for all clients."""
        if self._folder is None:
            raise RuntimeError("The cluster is not started.")
        return self._folder / 'kubeconfig'

    @property
    def url(self) -> str:
        return self._access['url']

    @property
    def token(self) -> str:
        """The token of the administrator."""
        return self._access['token']

    def child_environment(self) -> dict[str, str]:
        """The variables for a process whose operators may only use this cluster."""
        if self._embedded is None:
            raise RuntimeError("The cluster is not running.")
        return active_cluster.child_environment(self._embedded)

    def apply(self, manifest: Manifest, *, namespace: str = 'default') -> list[dict[str, Any]]:
        """Create or change objects, as `kubectl apply --server-side` does; returns them all.

        A string with a line break or a brace is a text; any other is a path.
        """
        objects: list[dict[str, Any]] = []
        for text in texts_of(manifest):
            try:
                objects += json.loads(self._running.apply(text, namespace))
            except ValueError as error:
                raise ClusterError(422, 'Invalid', str(error)) from None
        return objects

    def get(
            self, resource: str, name: str, *, namespace: str = 'default',
    ) -> dict[str, Any]:
        """One object. Resources are named as in kubectl: `deployments`, `deploy.apps`, `Pod`…"""
        return self.request('GET', self._path(resource, namespace, name))

    def find(
            self, resource: str, name: str, *, namespace: str = 'default',
    ) -> dict[str, Any] | None:
        """One object, or `None` if there is no such."""
        try:
            return self.get(resource, name, namespace=namespace)
        except ClusterError as error:
            if error.code == 404:
                return None
            raise

    def list(
            self,
            resource: str,
            *,
            namespace: str | None = None,
            labels: str | None = None,
            fields: str | None = None,
    ) -> list[dict[str, Any]]:
        """All objects, of all namespaces by default; with selectors as in kubectl."""
        query = {'labelSelector': labels, 'fieldSelector': fields}
        text = urllib.parse.urlencode({key: value for key, value in query.items() if value})
        path = self._path(resource, namespace, None)
        answer = self.request('GET', f'{path}?{text}' if text else path)
        about = {'apiVersion': answer['apiVersion'], 'kind': answer['kind'].removesuffix('List')}
        return [{**about, **item} for item in answer['items']]

    def create(self, body: Mapping[str, Any], *, namespace: str = 'default') -> dict[str, Any]:
        """Create an object. Unlike for `apply`, it must not exist, and may have `generateName`."""
        version = body['apiVersion']
        namespace = body.get('metadata', {}).get('namespace', namespace)
        path = self._path(f"{version}/{body['kind']}", namespace, None)
        return self.request('POST', path, body)

    def patch(
            self,
            resource: str,
            name: str,
            patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
            *,
            namespace: str = 'default',
            subresource: str | None = None,
    ) -> dict[str, Any]:
        """Change an object: by a merge-patch if it is a mapping, by a JSON patch if a list."""
        path = self._path(resource, namespace, name)
        path = f'{path}/{subresource}' if subresource else path
        kind = MERGE_PATCH if isinstance(patch, Mapping) else JSON_PATCH
        return self.request('PATCH', path, patch, content_type=kind)

    def delete(
            self,
            resource: str,
            name: str,
            *,
            namespace: str = 'default',
            propagation: str | None = None,
    ) -> None:
        """Delete an object, if it exists. Finalizers may keep it for a while."""
        options = {'propagationPolicy': propagation} if propagation else None
        try:
            self.request('DELETE', self._path(resource, namespace, name), options)
        except ClusterError as error:
            if error.code != 404:
                raise

    def wait_for(
            self,
            resource: str,
            name: str,
            condition: Callable[[dict[str, Any]], Any] | None = None,
            *,
            namespace: str = 'default',
            timeout: float = 10,
    ) -> dict[str, Any]:
        """Wait until the object exists and meets the condition; return it.

        The condition may fail with `KeyError` and the like as long as fields are absent.
        """
        poll = self._poll(resource, name, condition, namespace, timeout)
        while not poll.step():
            time.sleep(poll.pause())
        return poll.result

    def wait_gone(
            self, resource: str, name: str, *, namespace: str = 'default', timeout: float = 10,
    ) -> None:
        """Wait until the object does not exist."""
        poll = self._poll(resource, name, None, namespace, timeout, gone=True)
        while not poll.step():
            time.sleep(poll.pause())

    @property
    def requests(self) -> dict[tuple[str, str], int]:
        """How many requests there were by verb and resource: `{('patch', 'pods'): 3, …}`."""
        counted = self.request('GET', '/kopf/requests')['requests']
        return {(item['verb'], item['resource']): item['count'] for item in counted}

    def reset_requests(self) -> None:
        """Reset the counters of requests."""
        self.request('DELETE', '/kopf/requests')

    def add_fault(
            self,
            effect: str,
            *,
            verb: str | None = None,
            resource: str | None = None,
            namespace: str | None = None,
            name: str | None = None,
            user_agent: str | None = None,
            times: int | None = None,
            **details: Any,
    ) -> int:
        """Make requests fail, all or the next few; return the id of the fault.

        The effects: `delay` (`seconds=`), `error` (`code=`, and `reason=`, `message=`,
        `retryAfter=`), `disconnect`, `cutAnswer`, `endWatch`, `cutWatch`, `silenceWatch`,
        `expireWatch`, `dropBookmarks`. Running watches are affected at once.
        """
        match = {'verb': verb, 'resource': resource, 'namespace': namespace,
                 'name': name, 'userAgent': user_agent}
        fault: dict[str, Any] = {
            'match': {key: value for key, value in match.items() if value is not None},
            'effect': {'type': effect, **details},
        }
        if times is not None:
            fault['times'] = times
        return self.request('POST', '/kopf/faults', fault)['id']

    def remove_faults(self, number: int | None = None) -> None:
        """Remove all faults, or one of them."""
        path = '/kopf/faults' if number is None else f'/kopf/faults/{number}'
        self.request('DELETE', path)

    def advance(self, seconds: float) -> None:
        """Advance the clock: everything due by then happens now, so that tests need not wait.

        It is the time of the cluster and of all operators of this process: retries, delays,
        jobs, watches. The clocks of the handlers' own code are not affected.
        """
        self._running.advance(seconds)
        _native.advance_clock(seconds)

    def compact(self) -> None:
        """Forget the history: watches from older versions get the error 410."""
        self._running.compact()

    def request(
            self,
            method: str,
            path: str,
            body: Any = None,
            *,
            content_type: str = 'application/json',
    ) -> Any:
        """Send any request to the API; return the response, decoded if it is JSON."""
        data = b'' if body is None else json.dumps(body).encode()
        code, raw = self._running.request(method, path, content_type, data)
        text = raw.decode('utf-8', 'replace')
        try:
            answer = json.loads(text)
        except ValueError:
            answer = text
        if code >= 400:
            about = answer if isinstance(answer, dict) else {}
            raise ClusterError(code, about.get('reason') or '', about.get('message') or text)
        return answer

    @property
    def _running(self) -> _native_cluster.Cluster:
        if self._native is None:
            raise RuntimeError("The cluster is not running.")
        return self._native

    def _path(self, resource: str, namespace: str | None, name: str | None) -> str:
        path = self._running.path(resource, namespace, name)
        if path is None:
            raise ClusterError(404, 'NotFound', f"There is no such resource: {resource!r}.")
        return path

    def _poll(
            self,
            resource: str,
            name: str,
            condition: Callable[[dict[str, Any]], Any] | None,
            namespace: str,
            timeout: float,
            gone: bool = False,
    ) -> Poll:
        def look() -> dict[str, Any] | None:
            return self.find(resource, name, namespace=namespace)

        return Poll(f'{resource}/{name}', look, condition, timeout, gone)
