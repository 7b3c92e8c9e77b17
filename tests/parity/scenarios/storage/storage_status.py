"""Progress and the last handled state in the status."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.StatusProgressStorage(
        field='status.my-op.progress'
    )
    settings.persistence.diffbase_storage = kopf.StatusDiffBaseStorage(field='status.my-op.seen')


@kopf.on.create('kopfstatuses')
@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs, 'status')
    return {'x': 1}


@kopf.on.create('kopfstatuses')
@kopf.on.create('kopfexamples')
def retried_fn(retry, **kwargs):
    record('retried_fn', dict(kwargs, retry=retry), 'status.create_fn')
    if kwargs['spec'].get('wait') or not retry:
        raise kopf.TemporaryError('later', delay=60 if kwargs['spec'].get('wait') else 0.2)


@kopf.on.update('kopfstatuses')
@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


def story(world):
    world.start()
    for plural in 'kopfexamples', 'kopfstatuses':
        name = plural[4:]
        world.create(name, plural=plural)
        world.wait(
            name,
            lambda body: (
                body['status']['my-op']['seen'] and not body['status']['my-op'].get('progress')
            ),
            plural=plural,
        )
        world.patch(name, spec={'field': 'changed'}, plural=plural)
        world.wait_record('update_fn', name=name)
        world.wait(
            name, lambda body: 'changed' in str(body['status']['my-op']['seen']), plural=plural
        )
        world.create(f'{name}-waiting', spec={'wait': True}, plural=plural)
        world.wait(
            f'{name}-waiting',
            lambda body: body['status']['my-op']['progress']['retried_fn']['delayed'],
            plural=plural,
        )
