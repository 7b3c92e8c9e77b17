"""An operator with many handlers: ``calls.py python-call-async|python-call-sync HANDLERS``.

Run by ``benches/budgets.py``. The number of objects is fixed, so each additional handler means one
additional call per object.
"""

import asyncio
import sys

import kopf
import kopf.testing

OBJECTS = 40


def main() -> None:
    kind, handlers = sys.argv[1], int(sys.argv[2])
    calls, ended = 0, asyncio.Event()

    async def call_async(spec, name, patch, logger, **_):
        count()

    def call_sync(spec, name, patch, logger, **_):
        loop.call_soon_threadsafe(count)

    def count():
        nonlocal calls
        calls += 1
        if calls == OBJECTS * handlers:
            ended.set()

    @kopf.on.startup()
    async def configure(settings, **_):
        settings.execution.max_workers = 1  # the same order of calls in every run

    function = call_async if kind == 'python-call-async' else call_sync
    for index in range(handlers):
        kopf.on.event('configmaps', id=f'handler-{index}')(function)

    async def run() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        running = kopf.operator(standalone=True, namespaces=['default'], stop_flag=stop)
        operator = asyncio.create_task(running)
        await ended.wait()
        stop.set()
        await operator

    loop: asyncio.AbstractEventLoop
    with kopf.testing.Cluster(workloads=False) as cluster:
        for index in range(OBJECTS):
            cluster.apply({
                'apiVersion': 'v1', 'kind': 'ConfigMap',
                'metadata': {'name': f'object-{index}', 'namespace': 'default'},
                'data': {'key': 'x' * 1000},
            })
        asyncio.run(run())


if __name__ == '__main__':
    main()
