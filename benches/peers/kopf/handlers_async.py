"""The benchmark's "widget" operator on kopf, with async handlers.

The same job as the other peers: add a finalizer on first sight, write
``status.message`` and ``status.observedGeneration`` for every new generation
of the spec, remove the finalizer on deletion. Nothing else is posted.

With ``BENCH_TIMERS=SECONDS``, each object also has a timer with this interval that does nothing.
"""

import os

import kopf


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False
    settings.persistence.finalizer = 'bench.dev/kopf'


@kopf.on.create('bench.dev', 'v1', 'widgets')
@kopf.on.update('bench.dev', 'v1', 'widgets')
async def apply(spec, meta, patch, **_):
    tags = ','.join(spec['tags'])
    patch.status['message'] = f'{spec["title"]}: {spec["size"]} {spec["color"]} [{tags}]'
    patch.status['observedGeneration'] = meta['generation']


@kopf.on.delete('bench.dev', 'v1', 'widgets')
async def cleanup(**_):
    pass


if 'BENCH_TIMERS' in os.environ:
    ticks = 0

    @kopf.timer('bench.dev', 'v1', 'widgets', interval=float(os.environ['BENCH_TIMERS']))
    async def tick(**_):
        global ticks
        ticks += 1
        if ticks % 100 == 0:
            print(f'ticks: {ticks}', flush=True)
