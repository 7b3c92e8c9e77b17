"""Runs the scenarios, several at a time, each under all implementations at once.

A scenario is one file: an operator script with a function ``story(world)``. The operator processes
import the whole file; the harness takes only the story and the literal constants from it, so it
needs no kopf itself. The constants:

* ``SWITCH = True``: the story starts the operator twice, ``start(implementation=0)`` and
  ``start(implementation=1)``; upstream-upstream is the reference for upstream-ours and
  ours-upstream.
* ``ALONE = True``: the objects are cluster-scoped, so the runs come one after another.
* ``UNORDERED = True``: the order of calls and log lines is not defined in this scenario, nor the
  number of equal log lines.
* ``ALSO = ['plural', …]``: the other kinds whose objects are compared.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import os
import pathlib
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.controlplane.plane import ControlPlane
from tests.parity.comparison import (
    Outcome,
    comparable_event,
    comparable_log,
    comparable_object,
    comparable_records,
    normalised,
    without_sentinels,
)
from tests.parity.world import World
from tests.support.operator_process import parse_json, python_under_test
from tests.support.pki import make_self_signed
from tests.support.upstream import python_of_upstream

HERE = pathlib.Path(__file__).parent
SCENARIOS = HERE / 'scenarios'

#: How many scenarios run at once. Each has two operators, but they mostly wait.
PARALLEL_SCENARIOS = int(os.environ.get('KOPF_PARITY_PARALLEL', '4'))

WRITES = ('create', 'update', 'patch', 'delete')

#: Those who post events on their own.
CLUSTER_COMPONENTS = ('default-scheduler', 'kwok', 'kwok-controller', 'taint-eviction-controller')


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One file of ``scenarios/``."""

    path: pathlib.Path
    story: Callable[[World], None]
    constants: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path.stem

    def flag(self, name: str) -> bool:
        return bool(self.constants.get(name, False))


def scenario_names() -> list[str]:
    return sorted(path.stem for path in SCENARIOS.glob('*/*.py'))


def load(name: str) -> Scenario:
    [path] = SCENARIOS.glob(f'*/{name}.py')
    tree = ast.parse(path.read_text(), str(path))
    constants = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and is_literal(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    tree.body = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == 'story'
    ]
    assert tree.body, f'{path} has no story(world).'
    module = dict(constants)
    exec(compile(tree, str(path), 'exec'), module)
    return Scenario(path, module['story'], constants)


def is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def python_of_ours() -> pathlib.Path:
    """$KOPF_PARITY_PYTHON names another interpreter to be compared with upstream."""
    override = os.environ.get('KOPF_PARITY_PYTHON')
    return pathlib.Path(override) if override else python_under_test()


class Runner:
    """All runs of one test session. The results are futures: the tests wait for theirs."""

    def __init__(self, plane: ControlPlane, folder: pathlib.Path) -> None:
        self.plane = plane
        self.folder = folder
        self.certificates = folder / 'certificates'
        make_self_signed(self.certificates, 'webhooks')
        self.upstream = python_of_upstream()
        self.ours = python_of_ours()
        self._users = (f'operator-{number:03}' for number in itertools.count())
        self._lock = threading.Lock()
        self._alone = threading.Lock()
        self._scenarios = ThreadPoolExecutor(PARALLEL_SCENARIOS, thread_name_prefix='scenario')
        self._runs = ThreadPoolExecutor(PARALLEL_SCENARIOS * 3, thread_name_prefix='run')
        self._results: dict[str, Future[dict[str, Outcome]]] = {}

    def submit(self, names: list[str]) -> None:
        for name in names:
            self._results[name] = self._scenarios.submit(self._run_scenario, name)

    @property
    def submitted(self) -> list[str]:
        return list(self._results)

    def result(self, name: str) -> dict[str, Outcome]:
        """The outcomes of the scenario by the names of the sides; the first is the reference."""
        return self._results[name].result()

    def close(self) -> None:
        self._scenarios.shutdown(cancel_futures=True)
        self._runs.shutdown()
        self.plane.client.close()

    def _run_scenario(self, name: str) -> dict[str, Outcome]:
        scenario = load(name)
        sides = {'upstream': [self.upstream], 'ours': [self.ours]}
        if scenario.flag('SWITCH'):
            sides = {
                'upstream-upstream': [self.upstream, self.upstream],
                'upstream-ours': [self.upstream, self.ours],
                'ours-upstream': [self.ours, self.upstream],
            }
        if scenario.flag('ALONE'):
            with self._alone:
                return {side: self._run(scenario, side, pythons) for side, pythons in sides.items()}
        futures = {
            side: self._runs.submit(self._run, scenario, side, pythons)
            for side, pythons in sides.items()
        }
        return {side: future.result() for side, future in futures.items()}

    def _run(self, scenario: Scenario, side: str, pythons: list[pathlib.Path]) -> Outcome:
        result = self._run_once(scenario, side, pythons)
        is_disturbed = result.failure is not None or 'ServerDisconnectedError' in str(result.log)
        if is_disturbed and all(python == self.upstream for python in pythons):
            # Upstream gets stuck once in a while, or uses a connection that the server has closed
            # just then; only an undisturbed run can be compared with.
            result = self._run_once(scenario, f'{side}-again', pythons)
        return result

    def _run_once(self, scenario: Scenario, side: str, pythons: list[pathlib.Path]) -> Outcome:
        folder = self.folder / scenario.name / side
        folder.mkdir(parents=True)
        with self._lock:
            user = next(self._users)
        world = World(self.plane, scenario.path, folder, user, pythons, self.certificates)
        failure: str | None = None
        try:
            try:
                scenario.story(world)
                objects = collect_objects(world, scenario)
                if world.operator is not None:
                    world.stop()
            except Exception:
                failure = traceback.format_exc()
                objects = collect_objects(world, scenario)
            result = outcome(world, scenario, objects, failure)
            result.writes = self._writes(user, world.namespace)
            return result
        finally:
            world.close()

    def _writes(self, user: str, namespace: str) -> int:
        requests = self.plane.requests(user)
        return sum(
            request.verb in WRITES
            for request in requests
            if request.namespace == namespace
            if not (request.name or '').startswith('sentinel-')
        )


def collect_objects(world: World, scenario: Scenario) -> dict[str, Any]:
    plurals = ['kopfexamples', 'kopfstatuses', *scenario.constants.get('ALSO', [])]
    others = {namespace: f'{suffix}/' for suffix, namespace in world.namespaces.items()}
    return {
        f'{plural}/{others.get(body["metadata"].get("namespace"), "")}{body["metadata"]["name"]}': (
            comparable_object(body)
        )
        for plural in plurals
        for body in world.list(plural)
        if body['metadata']['name'] != 'kube-root-ca.crt'
    }


def outcome(
    world: World, scenario: Scenario, objects: dict[str, Any], failure: str | None
) -> Outcome:
    """All that is compared of this run."""
    log_file = world.folder / 'operator.log'
    lines = log_file.read_text(errors='replace').splitlines() if log_file.exists() else []
    entries = [entry for line in lines if line.startswith('{') if (entry := parse_json(line))]
    if failure is not None:
        failure = f'{failure}\nThe end of the log:\n' + '\n'.join(lines[-15:])
    unordered = scenario.flag('UNORDERED')
    log = comparable_log(entries)
    events = [
        comparable_event(event)
        for event in world.list('events')
        if not event['involvedObject'].get('name', '').startswith('sentinel-')
        if event.get('reportingComponent') not in CLUSTER_COMPONENTS
    ]

    def clean(value: Any) -> Any:
        return normalised(value, world.namespace)

    return Outcome(
        records=without_sentinels(clean(comparable_records(world.records(), unordered=unordered))),
        log=without_sentinels(
            clean({key: sorted(set(lines)) if unordered else lines for key, lines in log.items()})
        ),
        objects=without_sentinels(clean(objects)),
        events=sorted(clean(events), key=str),
        notes=clean(world.notes),
        failure=failure,
    )
