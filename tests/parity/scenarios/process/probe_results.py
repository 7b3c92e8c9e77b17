"""The liveness endpoint shows what the probe handlers return, and remembers it for a while."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def start_fn(memo, **kwargs):
    memo.calls = 0


@kopf.on.probe()
def count_fn(memo, **kwargs):
    memo.calls += 1
    record('count_fn', {}, names=sorted(kwargs))
    return memo.calls


@kopf.on.probe(id='renamed')
async def async_fn(**kwargs):
    return {'nested': ['list', None, 1.5]}


@kopf.on.probe()
def nothing_fn(**kwargs):
    return None


def story(world):
    port = world.free_port()
    world.start(f'--liveness=http://localhost:{port}/health')
    world.sentinel()
    for _ in range(3):
        world.note('answer', list(world.fetch(f'http://localhost:{port}/health')))
    code, _, _ = world.fetch(f'http://localhost:{port}/elsewhere')
    world.note('elsewhere', code)
