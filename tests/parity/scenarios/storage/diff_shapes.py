"""Diffs of all shapes: added, changed, removed; nested; lists; types; several at once."""

import kopf
from tests.parity.recorder import record, sentinel

CHANGES = [
    {'text': 'new', 'number': 2},
    {'tree': {'a': {'b': {'c': 2}}}},
    {'tree': {'a': {'x': {'y': 1}}}},
    {'tree': {'a': {'b': None}}},
    {'tree': None, 'list': [1, 2, 3]},
    {'list': [1, {'deep': 'er'}, 3]},
    {'list': [], 'text': {'now': 'a dict'}},
    {'text': 'text again', 'number': 2.5},
    {'number': '2.5', 'flag': True},
    {'flag': False, 'zero': 0, 'empty': '', 'nothing': {}},
    {'unicode ☃': 'žluťoučký', 'with/slash.and dots': {'~': 1}},
    {'list': None, 'flag': None, 'zero': None, 'empty': None, 'nothing': None},
]

sentinel()


@kopf.on.create('kopfexamples')
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


def story(world):
    world.start()
    world.create(
        'obj', spec={'text': 'old', 'number': 1, 'tree': {'a': {'b': {'c': 1}}}, 'list': [1, 2]}
    )
    world.wait_handled('obj')
    for number, change in enumerate(CHANGES, start=1):
        world.patch('obj', spec=change)
        world.wait_record('update_fn', count=number)
        world.wait_handled('obj')
    world.sentinel()
