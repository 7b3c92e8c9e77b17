"""One function for creation and resuming: it is called once for an object that was there before the
first start.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.resume('kopfexamples')
@kopf.on.create('kopfexamples')
async def start_fn(**kwargs):
    record('start_fn', kwargs)


@kopf.on.resume('kopfexamples', id='other')
async def other_fn(**kwargs):
    record('other', kwargs)


def story(world):
    world.create('early')
    world.start()
    world.wait_handled('early')
    world.create('late')
    world.wait_handled('late')
    world.restart()
    world.wait_record('start_fn', reason='resume', name='late')
    world.wait_record('other', reason='resume', name='late')
    world.wait_record('other', reason='resume', name='early')
    world.wait_handled('late')
    world.wait_handled('early')
    world.sentinel()
