"""With a named peering, the operator does nothing until there is an object of that name."""

import kopf
from tests.parity.recorder import record

ALSO = ['kopfpeerings']


@kopf.on.create('kopfexamples')
def create_fn(spec, **kwargs):
    record('create_fn', kwargs, field=spec['field'])


def story(world):
    world.create('obj', spec={'field': 'before'})
    world.start('--peering=team', '--verbose', env={'POD_ID': 'me'})
    world.wait_log("Keep-alive in 'team' in ", ': not found.')
    world.patch('obj', spec={'field': 'after'})
    world.create('team', plural='kopfpeerings')
    world.wait_handled('obj')
