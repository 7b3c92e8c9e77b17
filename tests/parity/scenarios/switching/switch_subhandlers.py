"""Sub-handlers in progress, with long ids, are taken over by the other implementation."""

import os

import kopf
from tests.parity.recorder import record

SWITCH = True


@kopf.on.create('kopfexamples')
def parent_fn(**kwargs):
    record('parent_fn', kwargs)

    @kopf.subhandler(id='done/<child>.with.a.very.long.name.which.is.to.be.cut.somewhere')
    def done_fn(**kwargs):
        record('done_fn', kwargs)
        return 'done'

    @kopf.subhandler(id='retried/<child>.with.a.very.long.name.which.is.to.be.cut.somewhere')
    def retried_fn(retry, **kwargs):
        record('retried_fn', dict(kwargs, retry=retry))
        if not os.environ.get('WORKS'):
            raise kopf.TemporaryError('not here', delay=2)
        return retry


def story(world):
    world.start(implementation=0)
    world.create('obj')
    world.wait(
        'obj',
        lambda body: any('not here' in text for text in body['metadata']['annotations'].values()),
    )
    world.kill()
    world.start(implementation=1, env={'WORKS': '1'})
    world.wait_handled('obj')
