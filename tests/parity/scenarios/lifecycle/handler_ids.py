"""Ids with all kinds of characters, and of nested functions, as they are stored while in
progress.
"""

import functools

import kopf
from tests.parity.recorder import record


def make(id):
    @kopf.on.create('kopfexamples', id=id)
    def recording_fn(**kwargs):
        record(str(id), kwargs)
        raise kopf.TemporaryError('later', delay=60)


make('slash/inside')
make('angle<br>ackets')
make('dots.and_underscores')
make('UPPER-case')
make(None)


@kopf.on.create('kopfexamples', id='param', param={'some': 'thing'})
def with_param(param, **kwargs):
    record('param', kwargs, param=param)
    raise kopf.TemporaryError('later', delay=60)


kopf.on.create('kopfexamples', id='partial')(functools.partial(with_param, param='p'))


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: all('delayed' in text for text in body['metadata']['annotations'].values()),
    )
