"""A sub-handler that fails for good does not fail its parent."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def parent_fn(**kwargs):
    record('parent_fn', kwargs)

    @kopf.subhandler()
    def permanent_fn(**kwargs):
        record('permanent_fn', kwargs)
        raise kopf.PermanentError('over')

    @kopf.subhandler(retries=1, errors=kopf.ErrorsMode.TEMPORARY)
    def exhausted_fn(**kwargs):
        record('exhausted_fn', kwargs)
        raise KeyError('x')

    @kopf.subhandler(errors=kopf.ErrorsMode.IGNORED)
    def ignored_fn(**kwargs):
        record('ignored_fn', kwargs)
        raise KeyError('x')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()
