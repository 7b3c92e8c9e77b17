"""Handlers change ``old`` and ``new`` in place. Upstream stores what they made of ``new`` as the
last handled state, so that ``old`` and ``diff`` are wrong next time; ours stores the state of the
object.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.update('kopfexamples')
def update_fn(old, new, **kwargs):
    record('update_fn', dict(kwargs, old=old, new=new))
    for mapping in old['spec'], new['spec']:
        mapping['nested']['a'] = 'spoilt'
        mapping['nested']['list'].append('spoilt')


def story(world):
    world.start()
    world.create('obj', spec={'nested': {'a': 1, 'list': [1]}})
    world.wait_handled('obj')
    world.patch('obj', spec={'nested': {'b': 2}})
    world.wait('obj', lambda body: '"b":2' in body['metadata']['annotations'][world.last_handled])
    world.sentinel()
