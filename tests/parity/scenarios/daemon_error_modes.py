"""What arbitrary errors of daemons mean, by their modes."""

import kopf
from recorder import record


@kopf.daemon('kopfexamples', errors=kopf.ErrorsMode.IGNORED)
async def ignored_fn(**kwargs):
    record('ignored_fn', kwargs)
    raise ValueError('ignored')


@kopf.daemon('kopfexamples', errors=kopf.ErrorsMode.PERMANENT)
def permanent_fn(**kwargs):
    record('permanent_fn', kwargs)
    raise ValueError('permanent')


@kopf.daemon('kopfexamples')
async def given_up_fn(**kwargs):
    record('given_up_fn', kwargs)
    raise kopf.PermanentError('given up')


UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    for id in 'ignored_fn', 'permanent_fn', 'given_up_fn':
        world.wait_record(id)
    world.wait_log('will ignore it: ignored')
    world.wait_log('will stop now: permanent')
    world.wait_log('failed permanently: given up')
    world.patch('obj', spec={'field': 'changed'})
    world.wait('obj', lambda body: not body['metadata'].get('finalizers'))
