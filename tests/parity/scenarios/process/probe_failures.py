"""A probe handler that fails for good fails the probe; without handlers, it is empty."""

import os

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


if os.environ.get('FAILING'):

    @kopf.on.probe()
    def good_fn(**kwargs):
        return 'good'

    @kopf.on.probe()
    def bad_fn(retry, **kwargs):
        record('bad_fn', {'retry': retry})
        raise kopf.PermanentError('boo')


def story(world):
    for failing in '', 'yes':
        port = world.free_port()
        world.start(f'--liveness=http://localhost:{port}/', env={'FAILING': failing})
        world.sentinel()
        for _ in range(2):
            world.note('answer', list(world.fetch(f'http://localhost:{port}/')))
        world.stop()
