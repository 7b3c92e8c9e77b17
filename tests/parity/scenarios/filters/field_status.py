"""A field of the status is tracked if a handler asks for it, and so it is in the stored essence."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfstatuses')
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.field('kopfstatuses', field='status.phase')
def phase_fn(**kwargs):
    record('phase_fn', kwargs)


def story(world):
    world.start()
    world.create('obj', plural='kopfstatuses')
    world.wait(
        'obj',
        lambda body: world.last_handled in body['metadata'].get('annotations', {}),
        plural='kopfstatuses',
    )
    world.patch(
        'obj',
        {'status': {'phase': 'Ready', 'noise': 1}},
        plural='kopfstatuses',
        subresource='status',
    )
    world.wait_record('phase_fn', new='Ready')
    world.wait(
        'obj',
        lambda body: 'Ready' in body['metadata']['annotations'][world.last_handled],
        plural='kopfstatuses',
    )
    world.patch(
        'obj',
        {'status': {'phase': 'Gone', 'noise': 2}},
        plural='kopfstatuses',
        subresource='status',
    )
    world.wait_record('phase_fn', new='Gone')
    world.wait(
        'obj',
        lambda body: 'Gone' in body['metadata']['annotations'][world.last_handled],
        plural='kopfstatuses',
    )
    world.sentinel()
