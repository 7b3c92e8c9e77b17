"""A function that returns None leaves in the index what was there; the memo stays, too."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.index('kopfexamples', labels={'indexed': 'yes'})
def index_fn(name, spec, memo, **kwargs):
    memo.setdefault('seen', {})[spec['field']] = True
    record('index_fn', {'name': name}, field=spec['field'], seen=list(memo.seen))
    return {spec['field']: name} if spec['field'] != 'none' else None


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
    world.create('never', spec={'field': 'none'}, labels={'indexed': 'yes'})
    world.create('obj', spec={'field': 'x'}, labels={'indexed': 'yes'})
    world.wait_record('index_fn', name='obj', field='x')
    read(1)
    world.patch('obj', spec={'field': 'none'})
    world.wait_record('index_fn', name='obj', field='none')
    read(2)
    world.patch('obj', spec={'field': 'y'})
    world.wait_record('index_fn', name='obj', field='y')
    read(3)
