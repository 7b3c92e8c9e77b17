"""A timer waits until the object is left alone, while its status changes. Where no changes are
handled, upstream takes that for a change; for ours, only the essence of the object counts.
"""

import kopf
from tests.parity.recorder import record


@kopf.timer('kopfexamples', idle=2, interval=60)
async def timer_fn(**kwargs):
    record('timer_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    number = 0

    def ticked():
        nonlocal number
        number += 1
        world.patch('obj', status={'number': number})
        return world.records('timer_fn')

    world.note('called while the status changes', world.happens(ticked, within_seconds=6))
    world.kill()
    world.patch('obj', status=None)
