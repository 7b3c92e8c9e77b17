"""An operator with annotations everywhere, as users of kopf 1.45 write them.

Never run: type checkers must accept it, both with kopf 1.45 and with ours.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import kopf


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    settings.posting.level = logging.WARNING
    settings.posting.enabled = False
    settings.watching.server_timeout = 600
    settings.networking.request_timeout = 30.0
    settings.networking.error_backoffs = [1, 2, 3]
    settings.execution.max_workers = 10
    settings.batching.worker_limit = 5
    settings.peering.priority = 10
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.background.cancellation_polling = 1.5
    settings.persistence.finalizer = 'example.com/finalizer'
    settings.persistence.progress_storage = kopf.MultiProgressStorage(
        [
            kopf.AnnotationsProgressStorage(prefix='example.com'),
            kopf.StatusProgressStorage(field='status.my-operator'),
            kopf.SmartProgressStorage(),
        ]
    )
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix='example.com', key='last-handled-configuration'
    )
    settings.admission.server = kopf.WebhookAutoServer(addr='0.0.0.0', port=8443)
    settings.admission.managed = 'auto.example.com'
    memo.tasks = {}


@kopf.on.cleanup()
def cleanup(logger: kopf.Logger, **_: Any) -> None:
    logger.info('bye')


@kopf.on.login()
def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    return kopf.ConnectionInfo(
        server='https://localhost', token='abc', default_namespace='default', priority=10
    )


@kopf.on.probe(id='now')
def probe(**_: Any) -> str:
    return 'ok'


@kopf.on.create('example.com', 'v1', 'things', retries=3, timeout=60.0, backoff=1.5)
@kopf.on.resume('example.com', 'v1', 'things', errors=kopf.ErrorsMode.PERMANENT)
def create_fn(
    *,
    body: kopf.Body,
    spec: kopf.Spec,
    meta: kopf.Meta,
    status: kopf.Status,
    labels: kopf.Labels,
    annotations: kopf.Annotations,
    name: str | None,
    namespace: str | None,
    uid: str | None,
    patch: kopf.Patch,
    memo: kopf.Memo,
    logger: kopf.Logger,
    retry: int,
    reason: str,
    resource: kopf.Resource,
    **_: Any,
) -> Mapping[str, Any] | None:
    size = spec.get('size', 1)
    if not isinstance(size, int):
        raise kopf.PermanentError('The size must be a number.')
    if retry > 3:
        raise kopf.TemporaryError('Not yet.', delay=10)
    patch.status['size'] = size
    patch.meta.labels['a'] = 'b'
    patch['metadata'] = {'annotations': {'c': 'd'}}
    child: dict[str, Any] = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {}}
    kopf.adopt(child)
    kopf.label([child], {'x': 'y'}, nested='spec.template')
    kopf.append_owner_reference(child, owner=body)
    kopf.info(body, reason='Reason', message='Message')
    owner: kopf.OwnerReference = kopf.build_owner_reference(body)
    reference: kopf.ObjectReference = kopf.build_object_reference(body)
    logger.debug('%s %s %s %s', owner, reference, meta.labels, resource.plural)
    memo.setdefault('seen', 0)
    return {'message': f'{name} {namespace} {uid} {reason} {labels} {annotations} {status}'}


@kopf.on.update('things', labels={'a': kopf.PRESENT, 'b': kopf.ABSENT})
async def update_fn(diff: kopf.Diff, old: Any, new: Any, **_: Any) -> None:
    for item in diff:
        operation: kopf.DiffOperation = item.op
        print(operation, item.field, item.old, item.new, old, new)


def is_big(spec: kopf.Spec, **_: Any) -> bool:
    return bool(spec.get('size', 0) > 10)


@kopf.on.delete('things', optional=True, when=kopf.all_([is_big, kopf.not_(is_big)]))
async def delete_fn(**_: Any) -> None:
    pass


@kopf.on.field('things', field='spec.size', old=kopf.ABSENT, new=kopf.PRESENT)
def field_fn(old: Any, new: Any, diff: kopf.Diff, **_: Any) -> None:
    pass


@kopf.on.event(kopf.EVERYTHING)
def event_fn(event: kopf.RawEvent, type: str, body: kopf.Body, **_: Any) -> None:
    print(event['type'], event['object'], type, body.metadata.name)


@kopf.daemon('things', cancellation_timeout=5, initial_delay=1.0)
async def daemon_async(stopped: kopf.DaemonStopped, spec: kopf.Spec, **_: Any) -> None:
    while not stopped:
        await stopped.wait(10)


@kopf.daemon('things')
def daemon_sync(stopped: kopf.DaemonStopped, **_: Any) -> None:
    while not stopped.is_set():
        stopped.wait(10)


@kopf.timer('things', interval=60, sharp=True, idle=10, initial_delay=lambda **_: 5)
def timer_fn(memo: kopf.Memo, patch: kopf.Patch, **_: Any) -> str:
    return 'done'


@kopf.index('pods', labels={'app': 'x'})
async def pods(namespace: str | None, name: str, spec: kopf.Spec, **_: Any) -> dict[str, Any]:
    return {f'{namespace}/{name}': spec.get('nodeName')}


@kopf.on.create('things')
def indexed_fn(**kwargs: Any) -> None:
    pods: kopf.Index[str, Any] = kwargs['pods']
    store: kopf.Store[Any] = pods['default/x']
    print(list(store), len(pods))


@kopf.on.validate('things', operation='CREATE', persistent=True)
def validate_fn(
    warnings: list[str],
    dryrun: bool,
    userinfo: kopf.UserInfo,
    headers: kopf.Headers,
    sslpeer: kopf.SSLPeer,
    **_: Any,
) -> None:
    warnings.append('careful')
    raise kopf.AdmissionError('no', code=400)


@kopf.on.mutate('things', side_effects=True, ignore_failures=True)
async def mutate_fn(patch: kopf.Patch, **_: Any) -> None:
    patch.spec['defaulted'] = True


@kopf.on.create('things')
async def parent_fn(spec: kopf.Spec, **_: Any) -> None:
    @kopf.subhandler(id='child')
    async def child_fn(**_: Any) -> None:
        pass

    def another_fn(*, name: str, **_: Any) -> None:
        pass

    kopf.register(id='another', fn=another_fn)
    await kopf.execute(fns=[another_fn])


class OwnStorage(kopf.DiffBaseStorage):
    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        pass


class OwnProgress(kopf.ProgressStorage):
    def fetch(self, *, key: kopf.HandlerId, body: kopf.Body) -> kopf.ProgressRecord | None:
        return None

    def store(
        self,
        *,
        key: kopf.HandlerId,
        record: kopf.ProgressRecord,
        body: kopf.Body,
        patch: kopf.Patch,
    ) -> None:
        pass

    def purge(self, *, key: kopf.HandlerId, body: kopf.Body, patch: kopf.Patch) -> None:
        pass

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        pass


async def own_server(fn: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
    yield kopf.WebhookClientConfig(url='https://localhost:1234', caBundle='')


async def embedded() -> None:
    registry = kopf.OperatorRegistry()
    settings = kopf.OperatorSettings()
    settings.admission.server = own_server
    ready, stop = asyncio.Event(), asyncio.Event()
    tasks: Collection[asyncio.Task[Any]] = await kopf.spawn_tasks(
        registry=registry, settings=settings, ready_flag=ready, stop_flag=stop, clusterwide=True
    )
    await kopf.run_tasks(tasks)
    await kopf.operator(memo=kopf.Memo(a=1), namespaces=['default'], standalone=True, priority=1)


def main() -> None:
    kopf.configure(verbose=True, log_format=kopf.LogFormat.JSON)
    kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)
    kopf.set_default_registry(kopf.get_default_registry())
    kopf.run(clusterwide=True, liveness_endpoint='http://0.0.0.0:8080/healthz')
