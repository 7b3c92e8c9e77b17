"""Several functions with one id fill one index; one function may fill several."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.index('kopfexamples', id='names', labels={'indexed': 'yes'})
def examples(name, **kwargs):
    return {'example': name}


@kopf.index('configmaps', id='names', labels={'indexed': 'yes'})
def maps(name, **kwargs):
    return {'map': name, 'any': name}


@kopf.index('kopfexamples', id='first', labels={'indexed': 'yes'})
@kopf.on.index(
    'kopfexamples', id='second', labels={'indexed': 'yes'}, annotations={'second': kopf.PRESENT}
)
def both(name, **kwargs):
    return name


@kopf.on.create('kopfexamples', labels={'reader': 'yes'})
def reader_fn(names, first, second, **kwargs):
    record(
        'reader_fn',
        kwargs,
        names={key: sorted(store) for key, store in names.items()},
        first=sorted(first.get(None, ())),
        second=sorted(second.get(None, ())),
    )


def story(world):
    def read(number):
        world.sentinel()
        world.create(f'reader-{number}', labels={'reader': 'yes'})
        world.wait_record('reader_fn', name=f'reader-{number}')
        world.wait_handled(f'reader-{number}')

    world.start()
    world.create('a', labels={'indexed': 'yes'})
    world.create('b', labels={'indexed': 'yes'}, annotations={'second': ''})
    world.create('m', plural='configmaps', labels={'indexed': 'yes'}, data={})
    read(1)
    world.delete('m', plural='configmaps')
    world.patch('b', metadata={'annotations': {'second': None}})
    read(2)
