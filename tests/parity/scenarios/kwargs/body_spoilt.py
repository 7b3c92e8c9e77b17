"""An index function changes the body in place. Upstream stores the change as a part of the last
handled state; ours stores the state of the object.
"""

import kopf
from tests.parity.recorder import record


@kopf.index('kopfexamples')
def index_fn(body, **_):
    body['spec']['list'][0]['extra'] = 'spoilt'


@kopf.on.create('kopfexamples')
def create_fn(spec, **kwargs):
    record('create_fn', dict(kwargs, spec=spec), 'spec')


def story(world):
    world.start()
    world.create('obj', spec={'list': [{'key': 'value'}]})
    world.wait('obj', lambda body: body['metadata']['annotations'][world.last_handled])
