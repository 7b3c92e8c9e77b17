"""Objects that match no handler are left alone: no finalizer, no annotation, no log line."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'mine': kopf.PRESENT})
@kopf.on.update('kopfexamples', labels={'mine': kopf.PRESENT})
@kopf.on.delete('kopfexamples', labels={'mine': kopf.PRESENT})
@kopf.on.resume('kopfexamples', labels={'mine': kopf.PRESENT})
def any_fn(**kwargs):
    record('any_fn', kwargs)


def story(world):
    world.create('before')
    world.start()
    world.create('after', labels={'other': 'x'})
    world.sentinel()
    world.patch('after', spec={'field': 'changed'})
    world.patch('before', spec={'field': 'changed'})
    world.sentinel()
    world.create('short')
    world.delete('short')
    world.sentinel()
