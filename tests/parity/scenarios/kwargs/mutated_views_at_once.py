"""As ``mutated_views``, but all handlers are called on one event: they share the views, so those
after the first see what it has changed in place; still nothing of that is stored.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()
kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def first_fn(spec, body, **kwargs):
    record('first_fn', kwargs, spec=spec, keys=sorted(body))
    spec['nested']['a'] = 'mutated'
    spec['nested']['list'].append('mutated')
    body['metadata']['labels']['x'] = 'mutated'
    record('first_fn', kwargs, spec=spec, labels=body['metadata']['labels'])


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def second_fn(spec, **kwargs):
    record('second_fn', kwargs, 'labels', spec=spec, copied={**spec}, length=len(spec))


def story(world):
    world.start()
    world.create('obj', spec={'nested': {'a': 1, 'list': [{'x': 1}]}}, labels={'x': 'y'})
    world.wait_handled('obj')
    world.sentinel()
