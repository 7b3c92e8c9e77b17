"""A kill at any moment loses nothing that was stored, and leaves no object blocked after the next
start.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.client import wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess
from tests.support.plane import Plane

SCRIPT = """
import os, kopf

def write(*words):
    with open(os.environ['CALLS'], 'a') as file:
        file.write(' '.join(words) + '\\n')

@kopf.on.create('kopf.dev', 'v1', '{plural}')
def first_fn(name, **_):
    write('first_fn', name)
    return {{'first': name}}

@kopf.on.create('kopf.dev', 'v1', '{plural}')
async def retried_fn(name, retry, **_):
    write('retried_fn', name, str(retry))
    if retry < 2:
        raise kopf.TemporaryError('not yet', delay=0.1)
    return {{'retry': retry}}

@kopf.on.create('kopf.dev', 'v1', '{plural}')
async def parent_fn(name, **_):
    @kopf.subhandler(id='child')
    async def child_fn(name, **_):
        write('child_fn', name)
        return name

@kopf.on.update('kopf.dev', 'v1', '{plural}')
def update_fn(name, new, **_):
    write('update_fn', name)
    return new['spec']['field']

@kopf.on.delete('kopf.dev', 'v1', '{plural}')
def delete_fn(name, retry, **_):
    write('delete_fn', name)
    if not retry:
        raise kopf.TemporaryError('not yet', delay=0.1)
"""

OBJECTS = 8
KILLS = 10
PREFIX = 'kopf.zalando.org/'
HANDLED = f'{PREFIX}last-handled-configuration'


@pytest.mark.parametrize(
    'plural, kind', [('kopfexamples', 'KopfExample'), ('kopfstatuses', 'KopfStatus')]
)
def test_kills_at_random_moments(
    plural: str,
    kind: str,
    plane: Plane,
    namespace: str,
    operator: Callable[..., OperatorProcess],
    tmp_path: Any,
) -> None:
    seed = random.randrange(1 << 32)
    print(f'The seed is {seed}.')
    chance = random.Random(seed)
    objects = ExampleObjects(plane.client, namespace, plural, kind)
    names = [f'obj-{number}' for number in range(OBJECTS)]
    kept, deleted = names[::2], names[1::2]
    script, env = SCRIPT.format(plural=plural), {'CALLS': str(tmp_path / 'calls')}
    process = operator(script, env=env)
    process.kill()

    def run_and_kill() -> None:
        """The start takes its time; after the first sign of work, any moment is as good
        as another.
        """
        process.start()
        before = process.count('')
        wait_for(
            lambda: f'A sign of life in {process.tail()}',
            lambda: process.count('') > before + 3 or done(objects),
        )
        time.sleep(chance.uniform(0, 0.5))
        process.kill()

    for name in names:
        objects.create(name, spec={'field': 'value'})
    for _ in range(KILLS // 2):
        run_and_kill()
    for name in kept:
        objects.patch(name, {'spec': {'field': 'changed'}})
    for name in deleted:
        objects.delete(name)
    for _ in range(KILLS - KILLS // 2):
        run_and_kill()

    process.start()
    objects.create('last', spec={'field': 'value'})
    for name in deleted:
        objects.wait_gone(name)
    for name in kept:
        body = objects.wait(name, is_up_to_date)
        assert body['status']['first_fn'] == {'first': name}
        assert body['status']['retried_fn'] == {'retry': 2}
        assert body['status']['parent_fn/child'] == name
        assert body['spec'] == {'field': 'changed'}
    objects.wait('last', is_up_to_date)
    assert process.stop() == 0


def is_up_to_date(body: dict[str, Any]) -> bool:
    """The newest state is stored as handled, and nothing is in progress."""
    annotations = {
        key: value
        for key, value in body['metadata']['annotations'].items()
        if key.startswith(PREFIX)
    }
    return f'"{body["spec"]["field"]}"' in annotations.pop(HANDLED, '') and not annotations


def done(objects: ExampleObjects) -> bool:
    """Whether there is nothing left that a kill could interrupt."""
    return all(
        'deletionTimestamp' not in body['metadata']
        and 'annotations' in body['metadata']
        and is_up_to_date(body)
        for body in objects.list()
    )
