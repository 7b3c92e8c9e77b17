"""Sub-handlers of sub-handlers."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def outer_fn(**kwargs):
    record('outer_fn', kwargs)

    @kopf.subhandler(id='middle')
    def middle_fn(**kwargs):
        record('middle', kwargs)

        @kopf.subhandler(id='inner')
        def inner_fn(retry, **kwargs):
            record('inner', dict(kwargs, retry=retry), 'annotations')
            if not retry:
                raise kopf.TemporaryError('once more', delay=1)
            return 'inner'

        return 'middle'

    @kopf.subhandler()
    def sibling_fn(**kwargs):
        record('sibling_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()
