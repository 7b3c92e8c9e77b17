"""Sub-handlers in progress are stored with the subrefs of the parent, and go on after a kill."""

import os

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples')
def parent_fn(**kwargs):
    record('parent_fn', kwargs)

    @kopf.subhandler()
    def done_fn(**kwargs):
        record('done_fn', kwargs)
        return 1

    @kopf.subhandler(id='waiting/<unusual>.name')
    def waiting_fn(retry, **kwargs):
        record('waiting_fn', dict(kwargs, retry=retry))
        if not os.environ.get('WORKS'):
            raise kopf.TemporaryError('not here', delay=2)
        return 2


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: any(
            '"retries":1' in text and 'waiting' in key and '"message"' in text
            for key, text in body['metadata']['annotations'].items()
        ),
    )
    world.kill()
    world.note('in between', sorted(world.get('obj')['metadata']['annotations']))
    world.start(env={'WORKS': '1'})
    world.wait_handled('obj')
