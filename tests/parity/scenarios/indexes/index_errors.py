"""Errors of index functions: those of the framework exclude the object, others are ignored."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


def wanted(labels, **_):
    return 'sentinel' not in labels and 'reader' not in labels


@kopf.index('kopfexamples', when=wanted)
def arbitrary(name, spec, **kwargs):
    if spec['field'] == 'bad':
        raise ValueError('boo')
    return {name: spec['field']}


@kopf.index('kopfexamples', when=wanted)
def permanent(name, spec, **kwargs):
    if spec['field'] == 'bad':
        raise kopf.PermanentError('boo')
    return {name: spec['field']}


@kopf.index('kopfexamples', when=wanted, errors=kopf.ErrorsMode.PERMANENT)
def strict(name, spec, **kwargs):
    if spec['field'] == 'bad':
        raise ValueError('boo')
    return {name: spec['field']}


@kopf.index('kopfexamples', when=wanted)
def temporary(name, spec, **kwargs):
    if spec['field'] == 'bad':
        raise kopf.TemporaryError('boo', delay=1000)
    return {name: spec['field']}


@kopf.index('kopfexamples', when=wanted, retries=1)
def limited(name, spec, **kwargs):
    if spec['field'] == 'bad':
        raise kopf.TemporaryError('boo', delay=1000)
    return {name: spec['field']}


@kopf.on.create('kopfexamples', labels={'reader': 'yes'})
def reader_fn(arbitrary, permanent, strict, temporary, limited, **kwargs):
    indices = {
        'arbitrary': arbitrary,
        'permanent': permanent,
        'strict': strict,
        'temporary': temporary,
        'limited': limited,
    }
    record(
        'reader_fn',
        kwargs,
        **{
            name: {key: list(store) for key, store in index.items()}
            for name, index in indices.items()
        },
    )


def story(world):
    def read(number):
        world.sentinel()
        world.create(f'reader-{number}', labels={'reader': 'yes'})
        world.wait_record('reader_fn', name=f'reader-{number}')
        world.wait_handled(f'reader-{number}')

    world.start()
    world.create('good', spec={'field': 'good'})
    world.create('bad', spec={'field': 'bad'})
    read(1)
    world.patch('good', spec={'field': 'bad'})
    world.wait_log(
        'Indexer', "'limited' failed temporarily but will exceed 1 retries: boo", count=2
    )
    read(2)
    world.patch('good', spec={'field': 'good'})
    world.patch('bad', spec={'field': 'fine'})
    read(3)
