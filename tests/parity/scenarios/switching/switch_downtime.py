"""A change while none of them runs is handled by the other one, with the diff against what the
first has stored.
"""

import kopf
from tests.parity.recorder import record, sentinel

SWITCH = True
sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


@kopf.on.resume('kopfexamples')
def resume_fn(**kwargs):
    record('resume_fn', kwargs)


@kopf.on.field('kopfexamples', field='status.counter')
def field_fn(**kwargs):
    record('field_fn', kwargs)


def story(world):
    world.start(implementation=0)
    for name in 'changed', 'same':
        world.create(
            name,
            spec={
                'number': 1.5,
                'big': 12345678901234567,
                'tree': {'b': 1, 'a': [{'z': 1, 'y': None}]},
            },
            status={'counter': 1},
            labels={'z': '1', 'a': '2'},
            annotations={'note': '"quoted" \\ / ů'},
        )
        world.wait_handled(name)
    world.kill()
    world.patch(
        'changed',
        spec={'number': 2, 'tree': {'b': None}},
        metadata={'labels': {'z': None}},
        status={'counter': 2},
    )
    world.start(implementation=1)
    world.wait_log('Updating is processed')
    world.wait_record('resume_fn', name='same')
    world.wait_handled('same')
    world.wait_handled('changed')
    world.sentinel()
