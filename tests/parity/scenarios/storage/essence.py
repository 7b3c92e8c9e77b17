"""What counts as a change: not the status, not the annotations of kubectl and of kopf; but other
stanzas do.
"""

import kopf
from tests.parity.recorder import record, sentinel

ALSO = ['configmaps']
sentinel()


@kopf.on.create('configmaps')
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.update('configmaps')
def update_fn(**kwargs):
    record('update_fn', kwargs)


def story(world):
    world.start()
    world.create(
        'obj',
        plural='configmaps',
        data={'a': 'b'},
        annotations={
            'kubectl.kubernetes.io/last-applied-configuration': '{}',
            'own': 'yes',
            'other-operator.example.com/kopf-managed': 'yes',
            'other-operator.example.com/handler': '{}',
        },
    )
    world.wait(
        'obj',
        lambda body: world.last_handled in body['metadata']['annotations'],
        plural='configmaps',
    )
    world.patch(
        'obj',
        plural='configmaps',
        metadata={
            'annotations': {
                'kubectl.kubernetes.io/last-applied-configuration': '{"x": 1}',
                'other-operator.example.com/handler': '{"x": 1}',
                'kopf.zalando.org/foreign': 'x',
            }
        },
    )
    world.sentinel()
    world.patch(
        'obj', plural='configmaps', data={'a': 'c'}, metadata={'annotations': {'own': 'no'}}
    )
    world.wait_record('update_fn', name='obj')
    world.wait(
        'obj',
        lambda body: '"c"' in body['metadata']['annotations'][world.last_handled],
        plural='configmaps',
    )
    world.sentinel()
