"""The kwargs of activities, the order of them, and the exit code."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def start_fn(**kwargs):
    record(
        'start_fn',
        {'retry': kwargs['retry']},
        names=sorted(kwargs),
        memo=type(kwargs['memo']).__name__,
    )
    kwargs['memo'].shared = 'from startup'


@kopf.on.startup(id='second', param='p')
async def second_fn(retry, param, **kwargs):
    record('second', {'retry': retry}, param=param)
    if not retry:
        raise kopf.TemporaryError('once more', delay=0.1)


@kopf.on.login()
def login_fn(**kwargs):
    record('login_fn', {'retry': kwargs['retry']}, names=sorted(kwargs))
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.cleanup()
async def cleanup_fn(**kwargs):
    record(
        'cleanup_fn',
        {'retry': kwargs['retry']},
        names=sorted(kwargs),
        memo=kwargs['memo'].get('shared'),
    )


@kopf.on.create('kopfexamples')
def create_fn(memo, **kwargs):
    record('create_fn', kwargs, memo=memo.shared)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.stop()
    world.note('names', [record['id'] for record in world.records()])
