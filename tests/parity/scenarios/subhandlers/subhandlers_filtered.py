"""Sub-handlers have filters of their own, and deletion has sub-handlers, too."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
@kopf.on.delete('kopfexamples', labels={'sentinel': kopf.ABSENT})
def parent_fn(**kwargs):
    record('parent_fn', kwargs)

    @kopf.subhandler(labels={'a': 'yes'})
    def labelled_fn(**kwargs):
        record('labelled_fn', kwargs)

    @kopf.subhandler(when=lambda spec, **_: spec.get('field') == 'value')
    def when_fn(**kwargs):
        record('when_fn', kwargs)

    @kopf.subhandler(field='spec.field')
    def field_fn(**kwargs):
        record('field_fn', kwargs)


def story(world):
    world.start()
    world.create('one', labels={'a': 'yes'}, spec={})
    world.create('two', labels={'a': 'no'})
    world.wait_handled('one')
    world.wait_handled('two')
    world.delete('two')
    world.wait_gone('two')
    world.sentinel()
