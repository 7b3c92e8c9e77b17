"""Server-side filters in the settings: by names, by groups, and by functions on resources."""

import kopf
from tests.parity.recorder import record

UNORDERED = True


@kopf.on.startup()
def configure(settings, **_):
    watching = settings.watching
    watching.label_selectors['kopfexamples'] = 'wanted=yes'
    watching.label_selectors['kopf.dev', kopf.EVERYTHING] = 'sort!=bad'
    watching.label_selectors[lambda resource: resource.plural == 'kopfexamples'] = 'other!=x'
    watching.label_selectors[lambda resource: False] = 'impossible=yes'
    watching.field_selectors['kopf.dev', 'v1', 'kopfexamples'] = 'metadata.name!=hidden'


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


def story(world):
    world.create('hidden', labels={'wanted': 'yes'})
    world.create('early', labels={'wanted': 'yes'})
    world.create('unwanted')
    world.start()
    world.wait_handled('early')
    world.create('bad', labels={'wanted': 'yes', 'sort': 'bad'})
    world.create('x', labels={'wanted': 'yes', 'other': 'x'})
    world.create('late', labels={'wanted': 'yes'})
    world.wait_handled('late')
