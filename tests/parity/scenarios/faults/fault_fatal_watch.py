"""Faults of the API: a watch is refused by 400, as a proxy in between may do. Upstream ends;
this version retries.
"""

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples')
@kopf.on.update('kopfexamples')
def change_fn(spec, **kwargs):
    record('change_fn', kwargs, field=spec['field'])


def story(world):
    api_proxy = world.proxy()
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    refusals = api_proxy.inject(world.is_watch(), code=400, times=1)
    world.wait_until('a watch to be cut', lambda: api_proxy.cut(world.is_watch()))
    world.wait_until('the refusal', lambda: refusals.met)
    ended = world.happens(lambda: not world.operator.is_running(), within_seconds=6)
    world.note('the operator has ended', ended)
    world.patch('obj', spec={'field': 'changed'})
    if not ended:
        world.wait_record('change_fn', field='changed')
        world.wait_handled('obj')
    world.kill()
