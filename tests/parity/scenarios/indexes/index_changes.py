"""Objects leave the index when they are deleted or stop to match, and move when they change."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.index('kopfexamples', labels={'indexed': 'yes'})
def index_fn(name, spec, **kwargs):
    record('index_fn', {'name': name}, field=spec['field'])
    return {spec['field']: name}


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
    for name in 'a', 'b', 'c':
        world.create(name, spec={'field': 'x'}, labels={'indexed': 'yes'})
        world.wait_record('index_fn', name=name)
    read(1)
    world.patch('a', spec={'field': 'y'})
    world.wait_record('index_fn', name='a', field='y')
    read(2)
    world.patch('b', metadata={'labels': {'indexed': 'no'}})
    read(3)
    world.delete('c')
    world.wait_gone('c')
    read(4)
    world.patch('b', metadata={'labels': {'indexed': 'yes'}}, spec={'field': 'z'})
    world.wait_record('index_fn', name='b', field='z')
    read(5)
