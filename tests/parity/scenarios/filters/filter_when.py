"""The callbacks of when= get the same kwargs as the handlers, without what is known only at the
call.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def wanted(spec, name, labels, meta, body, **kwargs):
    return spec.get('wanted') and name == body['metadata']['name'] == meta.name


@kopf.on.create('kopfexamples', when=wanted)
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.update(
    'kopfexamples', when=lambda diff, old, new, **_: any(op == 'add' for op, *_ in diff)
)
def update_fn(**kwargs):
    record('update_fn', kwargs)


@kopf.on.event('kopfexamples', when=lambda type, event, **_: type == event['type'] == 'DELETED')
def gone_fn(**kwargs):
    record('gone_fn', kwargs)


def story(world):
    world.start()
    world.create('wanted', spec={'wanted': True})
    world.create('unwanted', spec={'wanted': False})
    world.wait_handled('wanted')
    world.wait_handled('unwanted')
    world.patch('wanted', spec={'wanted': False})
    world.sentinel()
    world.patch('wanted', spec={'more': 1})
    world.wait_record('update_fn')
    world.wait_handled('wanted')
    world.delete('unwanted')
    world.wait_record('gone_fn', name='unwanted')
    world.sentinel()
