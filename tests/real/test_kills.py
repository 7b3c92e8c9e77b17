"""Operators that are killed again and again while their objects are edited and deleted: nothing is
lost, nothing is stuck, nothing runs again after its success was stored.

``KOPF_KILLS=100`` makes it longer.
"""

from __future__ import annotations

import bisect
import collections
import json
import os
import pathlib
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.support.client import ApiError, wait_for
from tests.support.examples import ExampleObjects
from tests.support.operator_process import REPOSITORY, OperatorProcess
from tests.support.plane import Plane

KILLS = int(os.environ.get('KOPF_KILLS', '15'))
OBJECTS = 150
DELETED = 50
SEED = 20261118

#: The same operator as in ``crates/kopf/examples/journal.rs``.
SCRIPT = """
import asyncio, os, time
import kopf

def write(handler, name, x):
    with open(os.environ['CALLS'], 'a') as file:
        file.write(f'{handler} {name} {x} {time.time():.6f}\\n')

@kopf.on.create('kopf.dev', 'v1', 'kopfstatuses')
async def create(name, spec, **_):
    write('create', name, spec['x'])

@kopf.on.update('kopf.dev', 'v1', 'kopfstatuses')
async def first(name, spec, **_):
    write('first', name, spec['x'])
    return spec['x']

@kopf.on.update('kopf.dev', 'v1', 'kopfstatuses')
async def second(name, spec, **_):
    write('second', name, spec['x'])
    await asyncio.sleep(spec['x'] * 37 % 150 / 1000)
    return spec['x']

@kopf.on.delete('kopf.dev', 'v1', 'kopfstatuses')
def delete(name, spec, **_):
    write('delete', name, spec['x'])
"""

HANDLED = 'last-handled-configuration'


@pytest.mark.parametrize('front', ['python', 'rust'])
def test_kills_and_edits(
    front: str,
    plane: Plane,
    namespace: str,
    operator: Callable[..., OperatorProcess],
    tmp_path: pathlib.Path,
) -> None:
    chance = random.Random(SEED)
    calls = tmp_path / 'calls.txt'
    calls.touch()
    objects = ExampleObjects(plane.client, namespace, 'kopfstatuses', 'KopfStatus')
    names = [f'object-{number}' for number in range(OBJECTS)]
    for name in names:
        objects.create(name, spec={'x': 1})
    starts = [time.time()]
    process = start(front, plane, namespace, operator, tmp_path, calls)
    wait_for('all are created', lambda: len(read(calls)) >= OBJECTS, timeout_seconds=60)

    user = User(objects, names, random.Random(SEED))
    witness = Witness(objects)
    with user, witness:
        for _ in range(KILLS):
            # Long enough to start and to be in the middle of something.
            time.sleep(chance.uniform(0.3, 1.0))
            process.kill()
            starts.append(time.time())
            process.start()
    last = user.last
    wait_for(
        lambda: f'all is handled; not: {unhandled(objects, last)}',
        lambda: not unhandled(objects, last),
        timeout_seconds=120,
    )
    assert process.stop() == 0

    seen: dict[tuple[str, str], int] = {}
    for handler, name, x, _ in read(calls):
        seen[handler, name] = max(x, seen.get((handler, name), 0))
    again, overtaken = repeated(read(calls), witness.stored, starts)
    lost = [
        (handler, name, seen.get((handler, name)), x)
        for name, x in last.items()
        for handler in ('first', 'second')
        if x > 1 and seen.get((handler, name)) != x
    ]
    undeleted = [name for name in user.deleted if ('delete', name) not in seen]
    counts = f'{user.edits} edits, {len(user.deleted)} deletions, {len(read(calls))} calls'
    print(f'{front}: {KILLS} kills, {counts}; stored too late for the next process: {overtaken}')
    assert (lost, undeleted, again) == ([], [], [])
    assert user.edits > KILLS and user.deleted


def start(
    front: str,
    plane: Plane,
    namespace: str,
    operator: Callable[..., OperatorProcess],
    folder: pathlib.Path,
    calls: pathlib.Path,
) -> OperatorProcess:
    env = {'CALLS': str(calls)}
    if front == 'python':
        return operator(SCRIPT, env=env)
    binary = REPOSITORY / 'target' / 'debug' / 'examples' / 'journal'
    assert binary.exists(), f'{binary} is not built; see "make test-real".'
    env['KUBECONFIG'] = str(plane.kubeconfig)
    options = ('-n', namespace, '--standalone')
    return OperatorProcess(binary, *options, log=folder / 'log', env=env).start()


def read(calls: pathlib.Path) -> list[tuple[str, str, int, float]]:
    """The handler, the object, its state, and when."""
    lines = [line.split() for line in calls.read_text().splitlines()]
    return [(handler, name, int(x), float(moment)) for handler, name, x, moment in lines]


def repeated(
    calls: list[tuple[str, str, int, float]],
    stored: Mapping[tuple[str, str, int], float],
    starts: list[float],
) -> tuple[list[tuple[str, str, int, float]], int]:
    """The calls after a stored success: it was stored before their process was started, or by it.

    The others are only counted. What a killed process has sent may be stored after the next process
    has listed the objects; no operator can know of that.
    """
    again, overtaken = [], 0
    processes: dict[tuple[str, str, int], int] = {}
    for handler, name, x, moment in calls:
        key = (handler, name, x)
        process = bisect.bisect(starts, moment)
        since = stored.get(key)
        if since is not None and moment > since:
            if since <= starts[process - 1] or processes.get(key) == process:
                again.append((handler, name, x, moment - since))
            else:
                overtaken += 1
        processes[key] = process
    return again, overtaken


def test_what_counts_as_repeated() -> None:
    stored = {('first', 'a', 1): 5.0}
    for moments, starts, expected in (
        ([4.0], [1.0], (0, 0)),
        ([4.0, 6.0], [1.0], (1, 0)),  # by the same process
        ([4.0, 6.0], [1.0, 5.5], (1, 0)),  # stored before the next one was started
        ([4.0, 6.0], [1.0, 4.5], (0, 1)),  # stored after the next one was started
        ([4.0, 6.0, 7.0], [1.0, 4.5], (1, 1)),
    ):
        calls = [('first', 'a', 1, moment) for moment in moments]
        again, overtaken = repeated(calls, stored, starts)
        assert (len(again), overtaken) == expected, (moments, starts)


def unhandled(objects: ExampleObjects, last: dict[str, int]) -> list[str]:
    there = {body['metadata']['name']: body for body in objects.list()}
    stuck = [name for name in there if name not in last]
    return stuck + [name for name, x in last.items() if handled_state(there[name]) != x]


def handled_state(body: Any) -> int | None:
    stored = records(body).get(HANDLED)
    return json.loads(stored)['spec']['x'] if stored else None


def records(body: Any) -> dict[str, Any]:
    """What the operator has stored: in annotations, or in the status."""
    annotations = body['metadata'].get('annotations') or {}
    found = {key.removeprefix('kopf.zalando.org/'): value for key, value in annotations.items()}
    kopf = (body.get('status') or {}).get('kopf') or {}
    handled = {HANDLED: kopf[HANDLED]} if HANDLED in kopf else {}
    return {**found, **kopf.get('progress', {}), **handled}


class Helper(threading.Thread):
    """Does something again and again while others do something else."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self.act()
        except BaseException as e:
            self.error = e

    def act(self) -> None:
        raise NotImplementedError


class User(Helper):
    """Edits and deletes objects at random."""

    def __init__(self, objects: ExampleObjects, names: list[str], chance: random.Random) -> None:
        super().__init__()
        self.objects = objects
        self.chance = chance
        self.doomed = names[:DELETED]
        #: The last states of those which are not deleted.
        self.last = dict.fromkeys(names, 1)
        self.deleted: list[str] = []
        self.edits = 0

    def act(self) -> None:
        name = self.chance.choice(list(self.last))
        if name in self.doomed and self.chance.random() < 0.3:
            del self.last[name]
            self.objects.delete(name)
            self.deleted.append(name)
            return
        x = self.last[name] + 1
        self.objects.patch(name, {'spec': {'x': x}})
        self.last[name] = x
        self.edits += 1


class Witness(Helper):
    """Sees which successes are stored, and since when at the latest."""

    def __init__(self, objects: ExampleObjects) -> None:
        super().__init__()
        self.objects = objects
        self.stored: dict[tuple[str, str, int], float] = collections.defaultdict(float)

    def act(self) -> None:
        try:
            bodies = self.objects.list()
        except ApiError:
            return
        now = time.time()
        for body in bodies:
            name, found = body['metadata']['name'], records(body)
            for handler in ('first', 'second'):
                record = found.get(handler)
                record = json.loads(record) if isinstance(record, str) else record
                essence = {**(record or {}), **found.get(f'{handler}#essence', {})}.get('essence')
                if record and record.get('success') and essence:
                    x = json.loads(essence)['spec']['x']
                    self.stored.setdefault((handler, name, x), now)
            if HANDLED in found and not any(handler in found for handler in ('first', 'second')):
                x = json.loads(found[HANDLED])['spec']['x']
                for handler in ('first', 'second'):
                    self.stored.setdefault((handler, name, x), now)
