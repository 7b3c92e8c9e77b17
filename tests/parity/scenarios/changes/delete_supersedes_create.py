"""A deletion ends an unfinished creation: its retries are given up."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)
    raise kopf.TemporaryError(
        'not ready', delay=0.5 if kwargs['name'].startswith('sentinel') else 60
    )


@kopf.on.delete('kopfexamples')
def delete_fn(**kwargs):
    record('delete_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: 'delayed' in body['metadata']['annotations']['kopf.zalando.org/create_fn'],
    )
    world.delete('obj')
    world.wait_gone('obj')
    world.sentinel()
