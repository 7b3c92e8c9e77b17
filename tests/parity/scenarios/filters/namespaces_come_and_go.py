"""Namespaces by patterns: those that appear later are served, too; those that go do no harm, nor do
those that are excluded.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(**kwargs):
    record('create_fn', kwargs, 'namespace')


def story(world):
    world.add_namespace('team-early')
    world.start('-n', world.namespace, '-n', f'{world.namespace}-team-*,!*-team-not')
    world.create('team-early/first')
    world.wait_handled('team-early/first')
    world.add_namespace('team-late')
    world.add_namespace('team-not')
    world.add_namespace('other')
    for name in 'team-late/second', 'team-not/third', 'other/fourth':
        world.create(name)
    world.wait_handled('team-late/second')
    world.remove_namespace('team-early')
    world.create('team-late/fifth')
    world.wait_handled('team-late/fifth')
    world.add_namespace('team-early')
    world.create('team-early/again')
    world.wait_handled('team-early/again')
    world.sentinel()
