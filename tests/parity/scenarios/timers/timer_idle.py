"""Timers that wait until the object is left alone."""

import kopf
from tests.parity.recorder import record


@kopf.timer('kopfexamples', idle=1.0)
async def timer_fn(spec, **kwargs):
    record('timer_fn', dict(kwargs, spec=spec), 'spec.field')


@kopf.on.create('kopfexamples')
@kopf.on.update('kopfexamples')
def change_fn(**_):
    pass


def story(world):
    world.start()
    world.create('obj')
    world.wait_log("Handler 'change_fn' succeeded.")
    for number, value in enumerate('abc', start=2):
        world.patch('obj', spec={'field': value})
        world.wait_log("Handler 'change_fn' succeeded.", count=number)
    world.wait_record('timer_fn')
    world.patch('obj', spec={'field': 'd'})
    world.wait_record('timer_fn', 2)
    world.wait_log("Timer 'timer_fn' succeeded.", count=2)
    world.kill()  # upstream would not exit: such a timer keeps its event loop busy then
