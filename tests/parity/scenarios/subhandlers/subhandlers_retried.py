"""Retries of sub-handlers do not repeat the siblings that are done; the parent is called
each time.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.update('kopfexamples')
@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
async def parent_fn(reason, **kwargs):
    record('parent_fn', dict(kwargs, reason=reason))

    @kopf.subhandler(backoff=0.1)
    async def failing_fn(retry, **kwargs):
        record('failing_fn', dict(kwargs, retry=retry))
        if retry < 2:
            raise ValueError(f'try {retry}')

    @kopf.subhandler()
    def good_fn(**kwargs):
        record('good_fn', kwargs)
        return str(kwargs['reason'])


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.patch('obj', spec={'field': 'changed'})
    world.wait_log('Updating is processed')
    world.wait_handled('obj')
    world.sentinel()
