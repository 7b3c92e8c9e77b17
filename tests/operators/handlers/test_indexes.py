"""Indices of a running operator: complete before the handlers, and up to date from then on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tests.support.examples import ExampleObjects
from tests.support.operator_process import OperatorProcess

StartOperator = Callable[..., OperatorProcess]

OPERATOR = """
import kopf

@kopf.index('kopfexamples', labels={'indexed': 'yes'})
def by_zone(name, spec, **_):
    return {spec.get('zone'): name}

@kopf.index('configmaps', labels={'indexed': 'yes'})
async def maps(name, **_):
    return name

@kopf.on.create('kopfexamples', labels={'reader': 'yes'})
@kopf.on.update('kopfexamples', labels={'reader': 'yes'})
def read_fn(by_zone, maps, patch, spec, **_):
    patch.status['seen'] = {
        'round': spec.get('round'),
        'zones': {zone: sorted(names) for zone, names in by_zone.items()},
        'maps': sorted(maps.get(None, ())),
    }
"""


def was_read_in(number: int, body: Any) -> bool:
    return body['status']['seen']['round'] == number


INDEXED = {'labels': {'indexed': 'yes'}}


def test_indices_are_complete_before_the_first_handler(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    """The reader is created first, and is the first in the list; but it waits for the others."""
    examples.create('a-reader', metadata={'labels': {'reader': 'yes'}})
    names = [f'obj-{number:02}' for number in range(40)]
    for name in names:
        examples.create(name, metadata=INDEXED, spec={'zone': 'z'})
    maps = examples.path.replace('/apis/kopf.dev/v1/', '/api/v1/').replace(
        'kopfexamples', 'configmaps'
    )
    for number in range(5):
        examples.client.create(maps, {'metadata': {'name': f'map-{number}', **INDEXED}})
    process = operator(OPERATOR)
    body = examples.wait('a-reader', lambda body: body['status']['seen'])
    assert body['status']['seen']['zones'] == {'z': names}
    assert body['status']['seen']['maps'] == [f'map-{number}' for number in range(5)]
    assert process.count('Indexer') == 0, 'indexing is silent unless it is verbose'
    assert process.stop() == 0


def test_indices_follow_the_objects(operator: StartOperator, examples: ExampleObjects) -> None:
    operator(OPERATOR)
    examples.create('reader', metadata={'labels': {'reader': 'yes'}})
    rounds = 0

    def read_until(zones: dict[str, list[str]]) -> None:
        """What has changed may be seen a moment later than this question is: ask until it is."""
        nonlocal rounds
        for _ in range(50):
            rounds += 1
            is_read = functools.partial(was_read_in, rounds)
            examples.patch('reader', {'spec': {'round': rounds}})
            body = examples.wait('reader', is_read)
            # A merge-patch does not remove keys of an earlier round: nulls do.
            seen = {zone: names for zone, names in body['status']['seen']['zones'].items() if names}
            examples.patch('reader', {'status': None})
            if seen == zones:
                return
        raise AssertionError(f'{seen} instead of {zones}')

    for name in 'a', 'b':
        examples.create(name, metadata=INDEXED, spec={'zone': 'x'})
    read_until({'x': ['a', 'b']})
    examples.patch('a', {'spec': {'zone': 'y'}})
    read_until({'x': ['b'], 'y': ['a']})
    examples.patch('b', {'metadata': {'labels': {'indexed': None}}})
    read_until({'y': ['a']})
    examples.delete('a')
    read_until({})


def test_a_failed_object_is_tried_again_by_itself(
    operator: StartOperator, examples: ExampleObjects
) -> None:
    process = operator("""
import itertools, kopf
calls = itertools.count(1)

@kopf.index('kopfexamples')
def index_fn(name, retry, **_):
    # Not by the retries: each version of the object is indexed again.
    if next(calls) <= 2:
        raise kopf.TemporaryError('not yet', delay=0.1)
    return name


@kopf.on.create('kopfexamples', backoff=0.1)
def create_fn(index_fn, name, logger, **_):
    if name not in index_fn.get(None, ()):
        raise kopf.TemporaryError('not indexed yet', delay=0.1)
    logger.info('It is indexed.')
""")
    examples.create('obj')
    process.wait_log('It is indexed.')
    assert process.count("Indexer 'index_fn' failed temporarily: not yet") == 2
    assert process.stop() == 0
