"""Activities and event handlers of the same names, as of modules that do not know of each other."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def make(number):
    @kopf.on.startup(id='configure')
    def configure(memo, **kwargs):
        memo[f'configured_{number}'] = True
        record('configure', {}, number=number)

    @kopf.on.event('kopfexamples', id='event_fn', labels={'sentinel': kopf.ABSENT},
                   when=lambda type, **_: type == 'DELETED')
    def event_fn(memo, **kwargs):
        record('event_fn', kwargs, number=number, memo=sorted(memo))

    @kopf.on.cleanup(id='clean')
    def clean(**kwargs):
        record('clean', {}, number=number)


make(1)
make(2)


def story(world):
    world.start()
    world.create('obj')
    world.sentinel()
    world.delete('obj')
    world.wait_record('event_fn', 2)
    world.stop()
