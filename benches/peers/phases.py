"""The phases of the benchmark: what each does to the objects, and what it measures meanwhile.

One operator runs at a time, in fresh namespaces, with its own user. Called by __main__.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.controlplane.plane import ControlPlane
from tests.support.client import kubeconfig, wait_for

from .audit import Audit
from .configuration import CACHE, HERE, Configuration, OperatorEntry
from .processes import OperatorProcess, cpu_seconds, socket_count

#: In this order; the phases of a group use the same objects.
GROUPS = (
    ('startup',),
    ('storm', 'update', 'delete', 'latency'),
    ('burst',),
    ('idle', 'restart', 'timers'),
    ('large_restart',),
)
PHASES = tuple(phase for group in GROUPS for phase in group)

Figures = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Scale:
    """The numbers of objects, and the durations."""

    n: int = 2000
    burst_n: int = 10000
    idle_n: int = 10000
    large_restart_n: int = 50000
    idle_batch: int = 500
    rate: float = 20.0
    latency_seconds: float = 60.0
    idle_seconds: float = 20.0
    startups: int = 3
    quiet_seconds: float = 6.0
    timeout_seconds: int = 240
    #: The interval of the timers, and how many calls of each are measured.
    timer_seconds: float = 10.0
    timer_rounds: int = 3


class Bench:
    """The control plane with the load generator, and the operators on it."""

    def __init__(
        self,
        scale: Scale,
        configuration: Configuration,
        plane: ControlPlane,
        workdir: pathlib.Path,
    ) -> None:
        self._scale = scale
        self._configuration = configuration
        self._plane = plane
        self._workdir = workdir
        self._audit = Audit(plane.folder / 'audit.log')
        self._plane_pids = [entry['pid'] for entry in plane.alive()]
        self._namespaces = 0
        self._large_restart_namespace = ''
        self._users: dict[str, str] = {}

    def setup(self) -> None:
        crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
        self._plane.client.create(crds, json.loads((HERE / 'crd.json').read_text()))
        wait_for('the kind', lambda: self._plane.client.find('/apis/bench.dev/v1/widgets?limit=1'))
        # The API server sizes its watch buffers by the recent traffic of the resource. With the
        # buffers of a new resource (10 events), it closes the watches at every burst. So warm up.
        namespace = self._namespace('warmup')
        n = self._scale.n
        self._load(namespace, 'create', n=n)
        for size in range(2, 6):
            self._load(namespace, 'patch', n=n, size=size)
        self._load(namespace, 'purge')

    def create_handled_copies(self, operators: list[OperatorEntry]) -> None:
        """Create very many objects that all operators have handled: copies of one object.

        All operators share them, since it would take too long if each handled its own. They
        stay until the control plane is gone.
        """
        namespace = self._namespace('large-restart')
        self._load(namespace, 'create', n=1)
        for entry in operators:
            with self._running(entry, namespace) as operator:
                self._wait_until_quiet(operator, self._scale.quiet_seconds)
        self._load(namespace, 'copy', n=self._scale.large_restart_n)
        self._large_restart_namespace = namespace

    def run(self, operator: OperatorEntry, phases: set[str]) -> Figures:
        """Return the figures by phase; failures are under ``errors``."""
        figures: Figures = {}
        for group, run in (
            ('startup', self._startup),
            ('storm', self._lifecycle),
            ('burst', self._burst),
            ('idle', self._idle),
            ('large_restart', self._large_restart),
        ):
            if group in phases:
                try:
                    run(operator, phases, figures)
                except Exception as e:
                    figures.setdefault('errors', []).append(f'{group}: {e}')
        return figures

    # ------------------------------------------------------------------ phases

    def _startup(self, entry: OperatorEntry, phases: set[str], into: Figures) -> None:
        """Measure from the spawn to the first status of one existing object."""
        times, cpus, rss = [], [], 0.0
        for _ in range(self._scale.startups):
            namespace = self._namespace(entry.name)
            self._load(namespace, 'create', n=1)
            self._calm()
            with (
                self._observing(namespace, 'wait', n=1) as result,
                self._running(entry, namespace) as operator,
            ):
                times.append(result()['done'] - operator.started)
                self._wait_until_quiet(operator, 1.0)
                cpus.append(operator.cpu())
                rss = operator.rss()
            self._load(namespace, 'purge')
        into['startup'] = {
            'seconds': statistics.median(times),
            'all': times,
            'cpu_s': statistics.median(cpus),
            'rss_mib': rss,
        }

    def _lifecycle(self, entry: OperatorEntry, phases: set[str], into: Figures) -> None:
        """Storm, update, delete, latency: one process, one namespace."""
        n, namespace = self._scale.n, self._namespace(entry.name)
        with contextlib.ExitStack() as stack:
            stack.callback(self._load, namespace, 'purge')
            operator = self._storm(entry, namespace, n, into.setdefault('storm', {}), stack)
            if 'update' in phases:
                with (
                    self._changing(entry, operator, n, into.setdefault('update', {})) as figures,
                    self._observing(namespace, 'wait', n=n, generation=2) as result,
                ):
                    load = self._load(namespace, 'patch', n=n, size=2)
                    figures['seconds'] = result()['done'] - load['start']
            if phases & {'delete', 'latency'}:
                with (
                    self._changing(entry, operator, n, into.setdefault('delete', {})) as figures,
                    self._observing(namespace, 'wait', n=n, **{'for': 'gone'}) as result,
                ):
                    load = self._load(namespace, 'delete', n=n)
                    figures['seconds'] = result()['done'] - load['start']
            if 'latency' in phases:
                options = {'rate': self._scale.rate, 'seconds': self._scale.latency_seconds}
                with (
                    self._changing(entry, operator, n, into.setdefault('latency', {})) as figures,
                    self._observing(namespace, 'latency', **options) as result,
                ):
                    figures.update(result())

    def _burst(self, entry: OperatorEntry, phases: set[str], into: Figures) -> None:
        """As a storm, but with more objects than can be in flight at once."""
        namespace = self._namespace(entry.name)
        with contextlib.ExitStack() as stack:
            stack.callback(self._load, namespace, 'purge')
            n = self._scale.burst_n
            self._storm(entry, namespace, n, into.setdefault('burst', {}), stack)

    def _idle(self, entry: OperatorEntry, phases: set[str], into: Figures) -> None:
        """Memory and CPU with many handled objects; then a restart on the same objects."""
        n, namespace = self._scale.idle_n, self._namespace(entry.name)
        self._calm()
        with contextlib.ExitStack() as stack:
            stack.callback(self._load, namespace, 'purge')
            idle = into.setdefault('idle', {'n': n})
            with self._running(entry, namespace) as operator:
                # In batches, because not every operator can handle 10,000 objects at once.
                with self._measured(entry, operator, 0.0, idle):
                    options = {'n': n, 'batch': self._scale.idle_batch}
                    with self._observing(namespace, 'feed', **options) as result:
                        idle['sync_s'] = result()['seconds']
                idle['sync_cpu_s'] = idle.pop('cpu_s')
                before, requests = operator.cpu(), self._audit.of(self._user(entry))
                time.sleep(self._scale.idle_seconds)
                operator.check()
                idle['idle_s'] = self._scale.idle_seconds
                idle['idle_cpu_s'] = operator.cpu() - before
                idle['idle_rss_mib'] = operator.rss()
                idle['peak_rss_mib'] = operator.peak_rss()
                idle['idle_requests'] = dict(self._audit.of(self._user(entry)) - requests)
            if 'restart' in phases:
                self._restart(entry, namespace, n, into.setdefault('restart', {}))
            if 'timers' in phases:
                self._calm()
                into['timers'] = {'n': n, **self._measure_timers(entry, namespace, n)}

    def _large_restart(self, entry: OperatorEntry, phases: set[str], into: Figures) -> None:
        """A restart on very many handled objects."""
        n, figures = self._scale.large_restart_n, into.setdefault('large_restart', {})
        self._restart(entry, self._large_restart_namespace, n, figures)
        if writes := {key for key in figures['requests'] if re.match('patch|update', key)}:
            raise RuntimeError(f'it handles objects again: {", ".join(sorted(writes))}')

    # ------------------------------------------------------------------ parts of phases

    def _restart(self, entry: OperatorEntry, namespace: str, n: int, figures: Figures) -> None:
        """A new process on objects that are all handled already has nothing to do."""
        figures['n'] = n
        self._calm()
        with (
            self._running(entry, namespace) as operator,
            self._measured(entry, operator, 0.0, figures),
        ):
            time.sleep(self._scale.quiet_seconds)

    def _measure_timers(self, entry: OperatorEntry, namespace: str, n: int) -> Figures:
        """Run a timer that does nothing for each object; all objects are handled already."""
        interval, rounds = self._scale.timer_seconds, self._scale.timer_rounds
        env = {**entry.env, 'BENCH_TIMERS': f'{interval:g}'}
        timed = dataclasses.replace(entry, env=env)
        log = self._workdir / f'{entry.name}.log'
        seen = log.stat().st_size
        with self._running(timed, namespace) as operator:
            time.sleep(interval)  # the start, and the first calls
            before = operator.cpu()
            time.sleep(interval * rounds)
            operator.check()
            figures: Figures = {'cpu_s': operator.cpu() - before, 'rss_mib': operator.rss()}
        # The operators print every hundredth call.
        ticks = re.findall(rb'^ticks: (\d+)$', log.read_bytes()[seen:], re.MULTILINE)
        figures |= {'rounds': rounds, 'calls': max(map(int, ticks), default=0)}
        if figures['calls'] < n * rounds:
            raise RuntimeError(f'timers: {figures["calls"]} calls for {n} objects')
        return figures

    def _storm(
        self,
        entry: OperatorEntry,
        namespace: str,
        n: int,
        figures: Figures,
        stack: contextlib.ExitStack,
    ) -> OperatorProcess:
        """All objects exist when the operator starts. It runs until the stack closes."""
        figures['n'] = n
        figures['load_s'] = self._load(namespace, 'create', n=n)['seconds']
        self._calm()
        with self._observing(namespace, 'wait', n=n) as result:
            operator = stack.enter_context(self._running(entry, namespace))
            with self._measured(entry, operator, 0.0, figures):
                seen = result()
                figures['first_s'] = seen['first'] - operator.started
                figures['seconds'] = seen['done'] - operator.started
        return operator

    @contextlib.contextmanager
    def _changing(
        self, entry: OperatorEntry, operator: OperatorProcess, n: int, figures: Figures
    ) -> Iterator[Figures]:
        figures['n'] = n
        self._calm()
        with self._measured(entry, operator, operator.cpu(), figures):
            yield figures

    @contextlib.contextmanager
    def _measured(
        self, entry: OperatorEntry, operator: OperatorProcess, cpu: float, into: Figures
    ) -> Iterator[None]:
        """Measure CPU, memory and requests until the operator is quiet again."""
        requests, terminated = self._audit.of(self._user(entry)), self._terminated_watches()
        plane_cpu = cpu_seconds(*self._plane_pids)
        yield
        into['sockets'] = socket_count(*operator.pids())
        self._wait_until_quiet(operator, self._scale.quiet_seconds)
        into['cpu_s'] = operator.cpu() - cpu
        into['peak_rss_mib'] = operator.peak_rss()
        into['rss_mib'] = operator.rss()
        into['plane_cpu_s'] = cpu_seconds(*self._plane_pids) - plane_cpu
        into['terminated_watches'] = self._terminated_watches() - terminated
        made = self._audit.of(self._user(entry)) - requests
        into['requests'] = dict(sorted(made.items()))

    @contextlib.contextmanager
    def _running(self, entry: OperatorEntry, namespace: str) -> Iterator[OperatorProcess]:
        user = self._user(entry)
        path = self._workdir / f'kubeconfig-{user}'
        path.touch(mode=0o600)
        path.write_text(kubeconfig(self._plane.user(user)))
        values = {'namespace': namespace, 'kubeconfig': str(path)}
        env_values = self._configuration.filled(entry.env.values(), **values)
        env = dict(zip(entry.env, env_values, strict=True))
        operator = OperatorProcess(
            self._configuration.filled(entry.command, **values),
            {**os.environ, 'KUBECONFIG': str(path), 'BENCH_NAMESPACE': namespace, **env},
            self._workdir / f'{entry.name}.log',
        )
        try:
            yield operator
        finally:
            operator.stop()

    def _user(self, entry: OperatorEntry) -> str:
        return self._users.setdefault(entry.name, f'operator-{len(self._users):03}')

    def _namespace(self, hint: str) -> str:
        self._namespaces += 1
        name = f'bench-{self._namespaces:03}-{hint}'
        self._plane.client.create('/api/v1/namespaces', {'metadata': {'name': name}})
        return name

    # ------------------------------------------------------------------ the load generator

    def _loader(self, namespace: str, command: str, **options: Any) -> list[str]:
        flags = [f'-{key}={value}' for key, value in options.items()]
        loader = str(CACHE / 'bin' / 'loader')
        return [loader, f'-plane={self._plane.folder}', f'-ns={namespace}', *flags, command]

    def _load(self, namespace: str, command: str, **options: Any) -> dict[str, Any]:
        done = subprocess.run(
            self._loader(namespace, command, **options), capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f'{command}: {done.stderr.strip()}')
        return json.loads(done.stdout.splitlines()[-1])

    @contextlib.contextmanager
    def _observing(
        self, namespace: str, command: str, **options: Any
    ) -> Iterator[Callable[[], dict[str, Any]]]:
        """Start an observer and wait until it watches; yield a function that awaits its result."""
        options['timeout'] = f'{self._scale.timeout_seconds}s'
        process = subprocess.Popen(
            self._loader(namespace, command, **options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stderr is not None
        output, errors = process.stdout, process.stderr

        def result() -> dict[str, Any]:
            lines = output.read().splitlines()
            if process.wait():
                raise RuntimeError(f'{command}: {errors.read().strip()}')
            return json.loads(lines[-1])

        try:
            if output.readline().strip() != 'armed':
                raise RuntimeError(f'{command}: {errors.read().strip()}')
            yield result
        finally:
            process.kill()
            process.wait()

    # ------------------------------------------------------------------ waiting until all is quiet

    def _terminated_watches(self) -> int:
        """Count the watches of all clients that the API server has closed as too slow."""
        metrics = self._plane.client.get('/metrics')
        pattern = r'^apiserver_terminated_watchers_total\{.*widgets.*\} (\d+)'
        return sum(map(int, re.findall(pattern, metrics, re.MULTILINE)))

    def _calm(self, timeout_seconds: float = 30.0) -> None:
        """Wait until the control plane has nothing to do."""
        deadline, quiet = time.monotonic() + timeout_seconds, 0
        while quiet < 2 and time.monotonic() < deadline:
            before = cpu_seconds(*self._plane_pids)
            time.sleep(0.5)
            quiet = quiet + 1 if cpu_seconds(*self._plane_pids) - before < 0.08 else 0

    def _wait_until_quiet(
        self, operator: OperatorProcess, minimum_seconds: float, timeout_seconds: float = 60.0
    ) -> None:
        """Wait until the operator makes no requests and uses no CPU."""
        start, quiet = time.monotonic(), 0
        while time.monotonic() - start < timeout_seconds:
            before = operator.cpu(), self._audit.size()
            time.sleep(0.5)
            operator.check()
            busy = operator.cpu() - before[0] > 0.02 or self._audit.size() != before[1]
            quiet = 0 if busy else quiet + 1
            if quiet >= 2 and time.monotonic() - start >= minimum_seconds:
                return
