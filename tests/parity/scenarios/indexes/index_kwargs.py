"""The kwargs of index functions; and who gets the indices: events, activities, filters."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def start_fn(index_fn=None, **kwargs):
    record('start_fn', {}, index=index_fn is not None and dict(index_fn))


@kopf.index('kopfexamples', labels={'indexed': 'yes'}, param='param')
def index_fn(body, patch, logger, memo, **kwargs):
    record(
        'index_fn',
        kwargs,
        'param',
        'spec.field',
        'labels',
        'namespace',
        names=sorted({*kwargs, 'body', 'patch', 'logger', 'memo'} - {'sentinel'}),
        types=[type(body).__name__, type(patch).__name__, type(memo).__name__],
    )
    patch.status['ignored'] = True
    memo.indexed = True
    return {kwargs['name']: kwargs['spec']['field']}


@kopf.index('kopfexamples', labels={'indexed': 'yes'}, field='spec.field', value='special')
def filtered_fn(name, **kwargs):
    return name


@kopf.on.event('kopfexamples', labels={'indexed': 'yes'})
def event_fn(index_fn, filtered_fn, memo, type, **kwargs):
    if type == 'DELETED':
        record(
            'event_fn',
            kwargs,
            index=sorted(index_fn),
            filtered=[*filtered_fn.get(None, ())],
            memo=dict(memo),
        )


@kopf.on.create('kopfexamples', when=lambda index_fn, name, **_: f'{name}-base' in index_fn)
async def create_fn(index_fn, memo, **kwargs):
    record('create_fn', kwargs, index=sorted(index_fn), memo=dict(memo))


@kopf.on.cleanup()
def stop_fn(index_fn, **kwargs):
    record('stop_fn', {}, index=sorted(index_fn))


def story(world):
    world.start()
    world.create('one-base', spec={'field': 'special'}, labels={'indexed': 'yes'})
    world.wait_record('index_fn', name='one-base')
    world.sentinel()
    world.create('one')
    world.create('two')
    world.wait_record('create_fn', name='one')
    world.sentinel()
    world.create('two-base', labels={'indexed': 'yes'})
    world.wait_record('index_fn', name='two-base')
    world.delete('one-base')
    world.wait_record('event_fn', name='one-base')
    world.sentinel()
