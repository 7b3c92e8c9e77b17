"""A temporary error of an index function excludes the object until the next attempt.

Upstream retries only when the object changes, however long that takes; this version
retries when the delay is over. See ``index_changed_in_delay`` for objects that do change.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()

indexed = set()


@kopf.index('kopfexamples', labels={'indexed': 'yes'})
def index_fn(name, spec, retry, **kwargs):
    if name not in indexed:
        record('index_fn', {'name': name, 'retry': retry}, field=spec['field'])
    if retry < 2 and name not in indexed:
        raise kopf.TemporaryError('not yet', delay=0.5)
    indexed.add(name)
    return {name: spec['field']}


@kopf.on.create('kopfexamples', labels={'reader': 'yes'})
def reader_fn(index_fn, **kwargs):
    record('reader_fn', kwargs, content={key: sorted(store) for key, store in index_fn.items()})


def story(world):
    def read(number):
        world.sentinel()
        world.create(f'reader-{number}', labels={'reader': 'yes'})
        world.wait_record('reader_fn', name=f'reader-{number}')
        world.wait_handled(f'reader-{number}')

    world.start()
    world.create('obj', spec={'field': 'x'}, labels={'indexed': 'yes'})
    world.wait_record('index_fn', retry=0)
    read(1)
    retried = world.happens(lambda: world.records('index_fn', retry=2), within_seconds=5)
    world.note('tried again without a change', retried)
    read(2)
