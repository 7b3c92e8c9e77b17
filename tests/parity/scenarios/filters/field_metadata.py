"""Labels and annotations as fields; changes of them are updates, too."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.field('kopfexamples', field='metadata.labels')
def labels_fn(**kwargs):
    record('labels_fn', kwargs)


@kopf.on.field('kopfexamples', field='metadata.annotations.note')
def note_fn(**kwargs):
    record('note_fn', kwargs)


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs, 'labels', 'annotations.note')


def story(world):
    world.start()
    world.create('obj', labels={'app': 'one'})
    world.wait_handled('obj')
    world.patch(
        'obj', metadata={'labels': {'app': 'two', 'new': 'x'}, 'annotations': {'note': 'written'}}
    )
    world.wait_record('update_fn', count=1)
    world.wait_handled('obj')
    world.patch('obj', metadata={'labels': {'app': None}})
    world.wait_record('update_fn', count=2)
    world.wait_handled('obj')
    world.sentinel()
