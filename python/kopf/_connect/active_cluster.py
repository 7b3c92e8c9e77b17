"""Embedded clusters that are active, and the guard that keeps operators on them.

A test or `kopf dev` must never touch the cluster of somebody's kubeconfig or of the pod that it
runs in. So an active cluster does two things. It directs all logins of the process to itself:
through the environment and the settings of client libraries (see `client_libraries`). And it
confines the operators: they refuse credentials for any other server, wherever these come from.

`_embedded.cluster` reports when a cluster starts and ends; `logins` asks where to log in;
`_run.front` checks every result of a login handler. `kopf dev` informs its child processes through
the variable `KOPF_EMBEDDED_CLUSTER`.
"""
from __future__ import annotations

import contextvars
import dataclasses
import os
import threading
from collections.abc import Iterable

from kopf._connect import client_libraries
from kopf._errors import OtherClusterError

# The only servers for operators of this process and of its children, separated by commas.
VARIABLE = 'KOPF_EMBEDDED_CLUSTER'

# Libraries find the cluster of the pod by these. Without them, they look for a kubeconfig.
VARIABLES_OF_PODS = (
    'KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT',
    'PYKUBE_KUBERNETES_SERVICE_HOST', 'PYKUBE_KUBERNETES_SERVICE_PORT',
)


@dataclasses.dataclass(frozen=True, eq=False)
class Embedded:
    """One active cluster."""

    server: str
    kubeconfig: str
    leading: bool  # whether logins are directed to it; operators are confined to it in any case


# Operators that start in this context are confined to these servers, even if the clusters end.
_confined: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar('confined', default=())

_lock = threading.RLock()
_active: list[Embedded] = []

# The variables that we have changed: their values before, and those that we have set.
_before: dict[str, str | None] = {}
_changed: dict[str, str | None] = {}


def enter(embedded: Embedded) -> None:
    """A cluster has started."""
    with _lock:
        _active.append(embedded)
        if embedded.leading:
            _set_variables(taking_over=True)
            client_libraries.lead_to(embedded.kubeconfig, embedded.server)


def leave(embedded: Embedded) -> None:
    """A cluster ends. With the last one, restore everything that others have not changed since."""
    with _lock:
        _active.remove(embedded)
        if embedded.leading:
            _set_variables(taking_over=False)
            leading = _get_leading()
            if leading is not None:
                client_libraries.go_back_to(leading.kubeconfig, leading.server)
            else:
                client_libraries.restore()


def get_servers() -> tuple[str, ...]:
    """The only servers that operators may use from now on; none if they may use any."""
    with _lock:
        own = [embedded.server for embedded in _active]
    return tuple(dict.fromkeys([*own, *_split(os.environ.get(VARIABLE)), *_confined.get()]))


def get_kubeconfig() -> str | None:
    """The kubeconfig to log in with, if logins are directed to an embedded cluster."""
    with _lock:
        leading = _get_leading()
        if not get_servers():
            return None
        return os.environ.get('KUBECONFIG') or (leading.kubeconfig if leading else None)


def confine(servers: Iterable[str]) -> None:
    """Confine operators that start in this context later, even after the clusters have ended."""
    _confined.set(tuple(servers))


def adopt() -> None:
    """If `kopf dev` runs this process, direct the client libraries to its cluster."""
    if _split(os.environ.get(VARIABLE)):
        client_libraries.hide_pod()


def child_environment(embedded: Embedded) -> dict[str, str]:
    """The variables for a process that may only use this cluster."""
    inherited = {name: value for name, value in os.environ.items()
                 if name not in VARIABLES_OF_PODS}
    return {**inherited, 'KUBECONFIG': embedded.kubeconfig, VARIABLE: embedded.server}


def check(handler_id: str, server: str, allowed: Iterable[str]) -> None:
    """Refuse the credentials of a login handler for any other server, if only these are allowed."""
    servers = list(allowed)
    if not servers or any(_normalize(server) == _normalize(own) for own in servers):
        return
    title = 'cluster' if len(servers) == 1 else 'clusters'
    raise OtherClusterError(
        f"The login handler {handler_id!r} would log in to {server or 'an unknown server'}, "
        f"but operators of this process may only use the embedded {title} {', '.join(servers)} "
        f"of kopf.testing or kopf dev. The operator refuses to run.")


def _get_leading() -> Embedded | None:
    return next((embedded for embedded in reversed(_active) if embedded.leading), None)


def _set_variables(*, taking_over: bool) -> None:
    """Set the variables for the latest cluster.

    It overrides what others have set meanwhile only when a cluster starts.
    """
    wanted = _get_wanted()
    for name in ('KUBECONFIG', VARIABLE, *VARIABLES_OF_PODS):
        current = os.environ.get(name)
        untouched = name in _changed and _changed[name] == current
        if wanted and (untouched or taking_over):
            if not untouched:
                _before[name] = current
            _put(name, wanted.get(name))
            _changed[name] = wanted.get(name)
        elif not wanted:
            if untouched:
                _put(name, _before[name])
            _changed.pop(name, None)
            _before.pop(name, None)


def _get_wanted() -> dict[str, str]:
    leading = _get_leading()
    if leading is None:
        return {}
    inherited = _before[VARIABLE] if VARIABLE in _changed else os.environ.get(VARIABLE)
    servers = [*_split(inherited), *(embedded.server for embedded in _active)]
    return {'KUBECONFIG': leading.kubeconfig, VARIABLE: ','.join(dict.fromkeys(servers))}


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _split(servers: str | None) -> list[str]:
    return [server.strip() for server in (servers or '').split(',') if server.strip()]


def _normalize(server: str) -> object:
    """The address in one form, with or without the default port and the last slash."""
    import urllib.parse
    try:
        parts = urllib.parse.urlsplit(server)
        port = parts.port or {'http': 80, 'https': 443}.get(parts.scheme)
    except ValueError:
        return server  # it equals only itself
    return parts.scheme, parts.hostname, port, parts.path.rstrip('/'), parts.query
