"""Running operators: `kopf.run()`, `kopf.operator()`, `kopf.spawn_tasks()`, `kopf.run_tasks()`.

An operator is one task in the user's event loop; the engine runs in its own thread. The operator
ends on a signal, on a stop flag, when its task is cancelled, or when the engine fails. In any case,
the engine cleans up first.
"""
from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from kopf import lifecycles
from kopf._call.context import front_var, settings_var
from kopf._call.posting import install_poster
from kopf._connect import active_cluster
from kopf._declare.registries import get_default_registry
from kopf._declare.settings import OperatorSettings
from kopf._objects.memos import Memo
from kopf._run import own_peer, signals
from kopf._run.front import Front
from kopf._run.stop_flags import Flag, FlagWatcher, raise_flag

if TYPE_CHECKING:
    from kopf._declare.registries import OperatorRegistry
    from kopf._objects.resources import NamespacePattern

logger = logging.getLogger('kopf._core.reactor.running')

#: How long functions may run on after everything else has ended; and how long they may take
#: to exit after their cancellation.
_PATIENCE_SECONDS = 5.0
#: A second signal in this time counts as the same one.
_SAME_SIGNAL_SECONDS = 1.0


def run(
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        lifecycle: Callable[..., Any] | None = None,
        indexers: Any = None,
        registry: OperatorRegistry | None = None,
        settings: OperatorSettings | None = None,
        memories: Any = None,
        insights: Any = None,
        identity: Any = None,
        standalone: bool | None = None,
        priority: int | None = None,
        peering_name: str | None = None,
        liveness_endpoint: str | None = None,
        clusterwide: bool = False,
        namespaces: Collection[NamespacePattern] = (),
        namespace: NamespacePattern | None = None,
        stop_flag: Flag | None = None,
        ready_flag: Flag | None = None,
        vault: Any = None,
        memo: object | None = None,
        _command: Any = None,
) -> None:
    """Run an operator until it is stopped: in the given event loop, or in a new one.

    Signals stop it, if it runs in the main thread.

    Example::

        if __name__ == '__main__':
            kopf.run(clusterwide=True)

    Args:
        loop: The event loop. By default, a new one.
        lifecycle: Which of the due handlers Kopf calls in one cycle of an object: one of
            `kopf.lifecycles`, or a function like them.
        registry: The handlers. By default, those of the decorators.
        settings: The settings. By default, new ones, for startup handlers to change.
        identity: The name of this operator among its peers. By default, the name of the pod, or of
            the user and the host.
        standalone: Whether to ignore peers.
        priority: The priority among peers: an operator pauses while a peer with a higher one runs.
        peering_name: The name of the peering object; the operator requires it to exist.
        liveness_endpoint: Where to answer probes, such as ``'http://0.0.0.0:8080/healthz'``.
        clusterwide: Whether to serve the whole cluster, and cluster-scoped resources.
        namespaces: The namespaces to serve: names, or patterns such as ``'app-*,!app-test'``.
        namespace: Deprecated: use ``namespaces``.
        stop_flag: Something that stops the operator when it is set: an event of asyncio or of
            threading, or a future of asyncio or of concurrent.futures.
        ready_flag: The same, set by the operator when it is ready.
        vault: Ready-made credentials, instead of login handlers.
        memo: The memo of the operator; every object starts with a shallow copy of it.
        indexers, memories, insights: Ignored; kopf 1.45 had them.
    """
    coroutine = operator(
        lifecycle=lifecycle, indexers=indexers, registry=registry, settings=settings,
        memories=memories, insights=insights, identity=identity, standalone=standalone,
        priority=priority, peering_name=peering_name, liveness_endpoint=liveness_endpoint,
        clusterwide=clusterwide, namespaces=namespaces, namespace=namespace,
        stop_flag=stop_flag, ready_flag=ready_flag, vault=vault, memo=memo, _command=_command,
    )
    try:
        if loop is not None:
            loop.run_until_complete(coroutine)
        else:
            asyncio.run(coroutine)
    except asyncio.CancelledError:
        pass


async def operator(
        *,
        lifecycle: Callable[..., Any] | None = None,
        indexers: Any = None,
        registry: OperatorRegistry | None = None,
        settings: OperatorSettings | None = None,
        memories: Any = None,
        insights: Any = None,
        identity: Any = None,
        standalone: bool | None = None,
        priority: int | None = None,
        peering_name: str | None = None,
        liveness_endpoint: str | None = None,
        clusterwide: bool = False,
        namespaces: Collection[NamespacePattern] = (),
        namespace: NamespacePattern | None = None,
        stop_flag: Flag | None = None,
        ready_flag: Flag | None = None,
        vault: Any = None,
        memo: object | None = None,
        _command: Any = None,
) -> None:
    """Run an operator until it is stopped, in the current event loop.

    To stop it, cancel the task or set the stop flag.

    Example::

        async def main():
            await asyncio.gather(kopf.operator(namespaces=['default']), serve_http())

    Args:
        lifecycle: Which of the due handlers Kopf calls in one cycle of an object: one of
            `kopf.lifecycles`, or a function like them.
        registry: The handlers. By default, those of the decorators.
        settings: The settings. By default, new ones, for startup handlers to change.
        identity: The name of this operator among its peers. By default, the name of the pod, or of
            the user and the host.
        standalone: Whether to ignore peers.
        priority: The priority among peers: an operator pauses while a peer with a higher one runs.
        peering_name: The name of the peering object; the operator requires it to exist.
        liveness_endpoint: Where to answer probes, such as ``'http://0.0.0.0:8080/healthz'``.
        clusterwide: Whether to serve the whole cluster, and cluster-scoped resources.
        namespaces: The namespaces to serve: names, or patterns such as ``'app-*,!app-test'``.
        namespace: Deprecated: use ``namespaces``.
        stop_flag: Something that stops the operator when it is set: an event of asyncio or of
            threading, or a future of asyncio or of concurrent.futures.
        ready_flag: The same, set by the operator when it is ready.
        vault: Ready-made credentials, instead of login handlers.
        memo: The memo of the operator; every object starts with a shallow copy of it.
        indexers, memories, insights: Ignored; kopf 1.45 had them.
    """
    tasks = await spawn_tasks(
        lifecycle=lifecycle, indexers=indexers, registry=registry, settings=settings,
        memories=memories, insights=insights, identity=identity, standalone=standalone,
        priority=priority, peering_name=peering_name, liveness_endpoint=liveness_endpoint,
        clusterwide=clusterwide, namespaces=namespaces, namespace=namespace,
        stop_flag=stop_flag, ready_flag=ready_flag, vault=vault, memo=memo, _command=_command,
    )
    await run_tasks(tasks)


async def spawn_tasks(
        *,
        lifecycle: Callable[..., Any] | None = None,
        indexers: Any = None,
        registry: OperatorRegistry | None = None,
        settings: OperatorSettings | None = None,
        memories: Any = None,
        insights: Any = None,
        identity: Any = None,
        standalone: bool | None = None,
        priority: int | None = None,
        peering_name: str | None = None,
        liveness_endpoint: str | None = None,
        clusterwide: bool = False,
        namespaces: Collection[NamespacePattern] = (),
        namespace: NamespacePattern | None = None,
        stop_flag: Flag | None = None,
        ready_flag: Flag | None = None,
        vault: Any = None,
        memo: object | None = None,
        _command: Any = None,
) -> Collection[asyncio.Task[Any]]:
    """Start an operator in the current event loop, and return its tasks for `kopf.run_tasks`.

    Example::

        tasks = await kopf.spawn_tasks(clusterwide=True)
        await kopf.run_tasks(tasks)

    Args:
        lifecycle: Which of the due handlers Kopf calls in one cycle of an object: one of
            `kopf.lifecycles`, or a function like them.
        registry: The handlers. By default, those of the decorators.
        settings: The settings. By default, new ones, for startup handlers to change.
        identity: The name of this operator among its peers. By default, the name of the pod, or of
            the user and the host.
        standalone: Whether to ignore peers.
        priority: The priority among peers: an operator pauses while a peer with a higher one runs.
        peering_name: The name of the peering object; the operator requires it to exist.
        liveness_endpoint: Where to answer probes, such as ``'http://0.0.0.0:8080/healthz'``.
        clusterwide: Whether to serve the whole cluster, and cluster-scoped resources.
        namespaces: The namespaces to serve: names, or patterns such as ``'app-*,!app-test'``.
        namespace: Deprecated: use ``namespaces``.
        stop_flag: Something that stops the operator when it is set: an event of asyncio or of
            threading, or a future of asyncio or of concurrent.futures.
        ready_flag: The same, set by the operator when it is ready.
        vault: Ready-made credentials, instead of login handlers.
        memo: The memo of the operator; every object starts with a shallow copy of it.
        indexers, memories, insights: Ignored; kopf 1.45 had them.
    """
    if namespaces and namespace:
        raise TypeError("Either namespaces= or namespace= can be passed. Got both.")
    if namespace:
        warnings.warn("namespace= is deprecated; use namespaces=[...]",
                      DeprecationWarning, stacklevel=2)
        namespaces = [namespace]
    if clusterwide and namespaces:
        raise TypeError("The operator can be either cluster-wide or namespaced, not both.")
    if not clusterwide and not namespaces:
        warnings.warn("Absence of either namespaces or cluster-wide flag will become an error "
                      "soon. For now, switching to the cluster-wide mode for backward "
                      "compatibility.", FutureWarning, stacklevel=2)
        clusterwide = True

    for name, value in (('indexers', indexers), ('memories', memories), ('insights', insights)):
        if value is not None:
            warnings.warn(f"{name}= has no effect: the engine has its own. It is accepted for "
                          f"compatibility with kopf 1.45; leave it out.", stacklevel=2)

    settings = settings if settings is not None else OperatorSettings()
    settings.peering.clusterwide = clusterwide
    if peering_name is not None:
        settings.peering.mandatory = True
        settings.peering.name = peering_name
    if standalone is not None:
        settings.peering.standalone = standalone
    if priority is not None:
        settings.peering.priority = priority

    active_cluster.adopt()
    loop = asyncio.get_running_loop()
    front = Front(
        loop=loop,
        registry=registry if registry is not None else get_default_registry(),
        settings=settings,
        lifecycle=lifecycle if lifecycle is not None else lifecycles.get_default_lifecycle(),
        memo=memo if memo is not None else Memo(),
        vault=vault,
        on_ready=lambda: raise_flag(ready_flag),
    )
    if identity is None and not settings.peering.standalone:
        identity = own_peer.detect_own_id()  # may query DNS
    start = functools.partial(
        front.start,
        namespaces=list(namespaces),
        clusterwide=clusterwide,
        liveness=liveness_endpoint or None,
        identity=identity,
        peering_lifetime=_command,
    )
    task = loop.create_task(_serve(front, start, stop_flag), name='kopf operator')
    await asyncio.sleep(0)  # let it start, so that it handles signals from now on
    return [task]


async def run_tasks(
        root_tasks: Collection[asyncio.Task[Any]],
        *,
        ignored: Collection[asyncio.Task[Any]] = frozenset(),
) -> None:
    """Wait for the tasks of `kopf.spawn_tasks`. When one ends, stop the others.

    It cancels only these tasks, never those of the application around the operator.

    Args:
        root_tasks: The tasks.
        ignored: Ignored; kopf 1.45 needed it.
    """
    try:
        await asyncio.wait(root_tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in root_tasks:
            task.cancel()
        while not all(task.done() for task in root_tasks):
            await asyncio.wait(root_tasks)
    for task in root_tasks:
        if not task.cancelled():
            task.result()


async def _serve(
        front: Front,
        start: Callable[[], None],
        stop_flag: Flag | None,
) -> None:
    front_var.set(front)
    settings_var.set(front.settings)
    install_poster()
    stopper = _Stopper(front, stop_flag)
    try:
        start()
        try:
            await asyncio.shield(front.finished)
        except asyncio.CancelledError:
            stopper.stop("The operator is cancelled.", limited=True)
            await asyncio.shield(front.finished)
            raise
        front.close()
        await front.finish_calls(_PATIENCE_SECONDS)
    finally:
        front.close()
        await front.cancel_calls(_PATIENCE_SECONDS)
        stopper.close()


class _Stopper:
    """Waits for anything that can stop an operator, and limits the time until the exit."""

    def __init__(self, front: Front, stop_flag: Flag | None) -> None:
        self._front = front
        self._killer: threading.Timer | None = None
        self._signalled_at: float | None = None
        self._watcher = FlagWatcher(stop_flag, front.loop, self._on_flag)
        try:
            signals.subscribe(front.loop, self._on_signal)
        except signals.SignalsIgnoredError as error:
            logger.warning(f"OS signals are ignored: {error}.")

    def close(self) -> None:
        self._watcher.close()
        if self._killer is not None:
            self._killer.cancel()
        signals.unsubscribe(self._front.loop, self._on_signal)

    def stop(self, reason: str, *, limited: bool) -> None:
        """Stop the operator; if limited, kill the process if that takes too long."""
        timeout = self._front.settings.process.ultimate_exiting_timeout
        if limited and timeout is not None and self._killer is None:
            self._killer = threading.Timer(timeout, os.kill, [os.getpid(), signal.SIGKILL])
            self._killer.daemon = True
            self._killer.start()
        self._front.stop(reason)

    def _on_signal(self, number: int) -> None:
        name, now = signal.Signals(number).name, time.monotonic()
        if self._signalled_at is not None:
            # Some shells send a signal twice. A person who presses Ctrl+C again needs longer.
            if now - self._signalled_at >= _SAME_SIGNAL_SECONDS:
                signals.exit_at_once(self._front.loop, number, lambda: logger.warning(
                    f"Signal {name} is received again. The process ends at once."))
            return
        self._signalled_at = now
        logger.info(f"Signal {name} is received. Operator is stopping.")
        self.stop(f"Signal {name}", limited=True)

    def _on_flag(self, value: Any) -> None:
        if value is None:
            logger.info("Stop-flag is raised. Operator is stopping.")
        else:
            logger.info(f"Stop-flag is set to {value!r}. Operator is stopping.")
        self.stop("Stop-flag", limited=False)
