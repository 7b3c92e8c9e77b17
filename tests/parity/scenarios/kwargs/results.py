"""What the handlers return goes to the status under their ids; None is nothing."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def make(id, value):
    @kopf.on.create('kopfexamples', id=id)
    def returning_fn(**kwargs):
        record(id, kwargs)
        return value


make('dict', {'a': {'b': [1, None, 'x']}})
make('empty-dict', {})
make('list', [1, 2])
make('text', 'text')
make('number', 1.5)
make('false', False)
make('zero', 0)
make('none', None)
make('with/slash', 'slash')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()
