"""What is stored about each handler while the cycle is not finished: succeeded, failed, delayed,
not yet started.
"""

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples')
def good_fn(**kwargs):
    record('good_fn', kwargs)
    return {'some': 'result'}


@kopf.on.create('kopfexamples')
def bad_fn(**kwargs):
    record('bad_fn', kwargs)
    raise kopf.PermanentError('It is over.')


@kopf.on.create('kopfexamples')
def waiting_fn(**kwargs):
    record('waiting_fn', kwargs)
    raise kopf.TemporaryError('Wait with "quotes" and ☃ and <b>&amp;</b>.', delay=60)


@kopf.on.create('kopfexamples')
def broken_fn(**kwargs):
    record('broken_fn', kwargs)
    raise ValueError('unexpected\nin two lines')


def story(world):
    world.start()
    world.create('obj')
    world.wait(
        'obj',
        lambda body: (
            'delayed' in body['metadata']['annotations'].get('kopf.zalando.org/broken_fn', '')
        ),
    )
