"""What daemons get, sync and async: the kwargs, the views that follow the object, the memo."""

import kopf
from tests.parity.recorder import record


# Upstream looks after daemons that did not exit at once only every minute by default: that is
# in daemon_polling.
@kopf.daemon('kopfexamples', param='p', cancellation_polling=0.5)
async def async_fn(stopped, spec, memo, **kwargs):
    memo.touched = True
    names = sorted([*kwargs, 'stopped', 'spec', 'memo'])
    record(
        'async_fn',
        dict(kwargs, spec=spec),
        'param',
        'retry',
        'started',
        'runtime',
        names=names,
        stopped=[bool(stopped), stopped.is_set(), stopped.reason is None],
    )
    while spec.get('field') != 'changed':
        await stopped.wait(0.05)
    record('async_fn', dict(kwargs, spec=spec), 'spec', 'body.spec', live=True)
    await stopped.wait()
    record('async_fn', kwargs, reason=stopped.reason.name, set=bool(stopped))


@kopf.daemon('kopfexamples', cancellation_polling=0.5)
def sync_fn(stopped, spec, memo, **kwargs):
    while spec.get('field') != 'changed':
        stopped.wait(0.05)
    record('sync_fn', dict(kwargs, spec=spec), 'spec', live=True, memo=dict(memo))
    stopped.wait()
    record('sync_fn', kwargs, reason=stopped.reason.name, set=bool(stopped))


UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('async_fn')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.patch('obj', spec={'field': 'changed'})
    world.wait_record('async_fn', live=True)
    world.wait_record('sync_fn', live=True)
    world.delete('obj')
    world.wait_record('async_fn', reason='RESOURCE_DELETED')
    world.wait_record('sync_fn', reason='RESOURCE_DELETED')
    world.wait_gone('obj')
