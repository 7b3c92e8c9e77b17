"""A deletion handler beside a daemon that takes its time to end. Upstream calls the handler again
each time it looks after the daemon; ours calls it once.
"""

import time

import kopf
from tests.parity.recorder import record


@kopf.daemon('kopfexamples', cancellation_polling=0.5)
def daemon_fn(stopped, **kwargs):
    record('daemon_fn', kwargs, stage='started')
    stopped.wait()
    time.sleep(2)


@kopf.on.delete('kopfexamples')
def delete_fn(memo, **kwargs):
    memo.calls = memo.get('calls', 0) + 1
    record('delete_fn', kwargs, call=memo.calls)


UNORDERED = True


def story(world):
    world.start()
    world.create('obj')
    world.wait_record('daemon_fn', stage='started')
    world.wait('obj', lambda body: body['metadata'].get('finalizers'))
    world.delete('obj')
    world.wait_gone('obj')
    world.note('called once', len(world.records('delete_fn')) == 1)
