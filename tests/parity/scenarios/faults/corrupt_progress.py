"""A progress annotation that is not JSON, and one with unknown and missing keys."""

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


def story(world):
    world.start()
    world.create('new', annotations={'kopf.zalando.org/create_fn': '{"retries":5,"unknown":"key"}'})
    world.wait_handled('new')
    world.create('empty', annotations={'kopf.zalando.org/create_fn': '{}'})
    world.wait_handled('empty')
    world.create(
        'foreign',
        annotations={
            'kopf.zalando.org/other_fn': '{"started":"2020-01-01T00:00:00","success":true}'
        },
    )
    world.wait('foreign', lambda body: world.last_handled in body['metadata']['annotations'])
