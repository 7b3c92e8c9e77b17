"""not_, all_, any_, none_ over callbacks, in when= and in labels=."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def is_big(spec, **_):
    return spec.get('size', 0) > 10


def is_red(spec, **_):
    return spec.get('color') == 'red'


def make(id, when):
    @kopf.on.create('kopfexamples', id=id, when=when)
    def recording_fn(**kwargs):
        record(id, kwargs)


make('not', kopf.not_(is_big))
make('all', kopf.all_([is_big, is_red]))
make('any', kopf.any_([is_big, is_red]))
make('none', kopf.none_([is_big, is_red]))
make(
    'nested', kopf.all_([kopf.not_(is_big), kopf.any_([is_red, lambda name, **_: name == 'plain'])])
)


@kopf.on.create(
    'kopfexamples',
    id='labelled',
    labels={'x': kopf.any_([lambda value, **_: value == 'a', lambda value, **_: value == 'b'])},
)
def labelled_fn(**kwargs):
    record('labelled', kwargs)


def story(world):
    world.start()
    world.create('big-red', spec={'size': 20, 'color': 'red'}, labels={'x': 'a'})
    world.create('big', spec={'size': 20}, labels={'x': 'c'})
    world.create('red', spec={'color': 'red'}, labels={'x': 'b'})
    world.create('plain', spec={})
    for name in 'big-red', 'big', 'red', 'plain':
        world.wait_handled(name)
    world.sentinel()
