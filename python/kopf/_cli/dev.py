"""`kopf dev`: the embedded cluster and an operator on it, restarted when its files change.

The cluster runs in this process, the operator in a child process. So the objects stay when the code
changes, and Python imports the handlers with `KUBECONFIG` set, as users' scripts expect.
"""
from __future__ import annotations

import dataclasses
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence

from kopf._embedded.cluster import Cluster, ClusterError
from kopf._embedded.manifests import manifest_files

# How often to check the files. It takes milliseconds even for large projects.
LOOK_INTERVAL_SECONDS = 0.2

# How long the operator may take to stop before Kopf kills it.
STOP_TIMEOUT_SECONDS = 15.0

# With more files, it is probably not a project, but a home directory.
FILES_LIMIT = 5000

SKIPPED_FOLDERS = frozenset({'__pycache__', 'node_modules', 'target', 'venv', 'site-packages'})

Stamps = dict[pathlib.Path, int]


@dataclasses.dataclass(frozen=True)
class Options:
    """What to run, and how."""

    paths: Sequence[str]
    modules: Sequence[str]
    manifests: Sequence[str]
    run_options: Sequence[str]      # of the child: logging, namespaces
    command: str | None             # run beside the operator; when it exits, everything ends
    reload: bool


class Interrupted(BaseException):
    """A signal ends the session."""


class Session:
    """One run of `kopf dev`, from the start of the cluster to its end."""

    def __init__(self, options: Options, cluster: Cluster, report: Callable[[str], None]) -> None:
        self.options = options
        self.cluster = cluster
        self.report = report
        self.operator: subprocess.Popen[bytes] | None = None
        self.command: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Serve until a signal, or until the command exits; return the exit code."""
        previous = signal.signal(signal.SIGTERM, _interrupt)
        try:
            self.apply_manifests()
            self.start_operator()
            if self.options.command is not None:
                self.command = subprocess.Popen(
                    self.options.command, shell=True, env=self.environment())
            return self.supervise()
        except (KeyboardInterrupt, Interrupted):
            return 0
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.stop(self.command)
            self.stop(self.operator)
            signal.signal(signal.SIGTERM, previous)

    def supervise(self) -> int:
        sources, manifests = self.look_at_sources(), self.look_at_manifests()
        reported_end = False
        while True:
            time.sleep(LOOK_INTERVAL_SECONDS)
            if self.command is not None and self.command.poll() is not None:
                return self.command.returncode
            if self.operator is not None and self.operator.poll() is not None:
                code = self.operator.returncode
                if not self.options.reload or self.command is not None:
                    return code or 1
                if not reported_end:
                    self.report(f"The operator has ended with the code {code}. "
                              f"It is started again when its files change.")
                    reported_end = True
            if not self.options.reload:
                continue
            if (now := self.look_at_manifests()) != manifests:
                manifests = now
                self.report(f"Applied again: {', '.join(self.options.manifests)}")
                try:
                    self.apply_manifests()
                except (ClusterError, OSError) as error:
                    self.report(f"Error: {error}")
            if (now := self.look_at_sources()) != sources:
                changed = [path for path in {*now, *sources} if now.get(path) != sources.get(path)]
                sources, reported_end = now, False
                self.report(f"Changed: {', '.join(sorted(map(_shortened, changed))[:3])}; "
                          f"the operator is restarted.")
                self.stop(self.operator)
                self.start_operator()

    def start_operator(self) -> None:
        modules = [word for module in self.options.modules for word in ('-m', module)]
        self.operator = subprocess.Popen(
            [sys.executable, '-m', 'kopf', 'run', '--standalone',
             *self.options.run_options, *modules, '--', *self.options.paths],
            env=self.environment())

    def stop(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()

    def apply_manifests(self) -> None:
        for manifest in self.options.manifests:
            for file in manifest_files(pathlib.Path(manifest)):
                try:
                    self.cluster.apply(file)
                except ClusterError as error:
                    raise ClusterError(error.code, error.reason, f"{file}: {error}") from None

    def environment(self) -> dict[str, str]:
        return {**self.cluster.child_environment(), 'PYTHONUNBUFFERED': '1'}

    def look_at_sources(self) -> Stamps:
        files = [pathlib.Path(path) for path in self.options.paths]
        folders = {file.parent for file in files}
        for module in self.options.modules:
            origin = _origin_of(module)
            if origin is not None and origin.name == '__init__.py':
                folders.add(origin.parent)
            elif origin is not None:
                files.append(origin)
        for folder in folders:
            files.extend(_python_files(folder))
        return _stamps(files)

    def look_at_manifests(self) -> Stamps:
        return _stamps([file for manifest in self.options.manifests
                        for file in manifest_files(pathlib.Path(manifest))])


def _interrupt(signum: int, frame: types.FrameType | None) -> None:
    raise Interrupted


def _stamps(files: Sequence[pathlib.Path]) -> Stamps:
    stamps: Stamps = {}
    for file in files:
        try:
            stamps[file] = file.stat().st_mtime_ns
        except OSError:
            pass  # Editors replace files; it will exist again at the next check.
    return stamps


def _python_files(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    count = 0
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders
                      if name not in SKIPPED_FOLDERS and not name.startswith('.')]
        for name in names:
            if name.endswith('.py'):
                count += 1
                if count > FILES_LIMIT:
                    return
                yield pathlib.Path(root) / name


def _origin_of(module: str) -> pathlib.Path | None:
    try:
        spec = importlib.util.find_spec(module.partition('.')[0])
    except (ImportError, ValueError):
        return None
    return pathlib.Path(spec.origin) if spec is not None and spec.origin is not None else None


def _shortened(path: pathlib.Path) -> str:
    try:
        return str(path.resolve().relative_to(pathlib.Path.cwd()))
    except ValueError:
        return str(path)
