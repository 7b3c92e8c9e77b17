"""Kubernetes events by kopf.event() and its family: about the object of the handler, and about
others.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(body, **kwargs):
    record('create_fn', kwargs)
    kopf.event(body, type='Custom', reason='Because', message='An event.')
    kopf.info(body, reason='Informed', message='Some information.')
    kopf.warn(body, reason='Warned', message='A warning.')
    try:
        raise ValueError('as an exception')
    except ValueError:
        kopf.exception(body, reason='Raised', message='Some words:')
    try:
        raise KeyError('another')
    except KeyError as e:
        kopf.exception(body, reason='Given', exc=e)
    kopf.info(body, reason='Long', message='<' + 'x' * 1500 + '>')
    kopf.info(
        [
            {
                'apiVersion': 'v1',
                'kind': 'ConfigMap',
                'metadata': {'name': 'other', 'namespace': body.metadata.namespace, 'uid': 'u'},
            }
        ],
        reason='Other',
        message='About another object.',
    )


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.wait_events(7)
    world.sentinel()
