"""Reads and merges kubeconfig files: the first value of each name wins. For `logins`."""
from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from kopf._connect import active_cluster
from kopf._errors import LoginError


class Kubeconfig:
    """The current context of the merged files."""

    def __init__(
            self,
            cluster: dict[str, Any],
            user: dict[str, Any],
            namespace: str | None,
            folder: str,
    ) -> None:
        self.cluster = cluster
        self.user = user
        self.namespace = namespace
        self.folder = folder

    def locate(self, path: str | None) -> str | None:
        """Relative paths are relative to the file that they are written in."""
        return os.path.join(self.folder, path) if path else None


def find_files() -> list[str]:
    """The files to read, if there are any."""
    default = '~/.kube/config'
    spec = os.environ.get('KUBECONFIG') or active_cluster.get_kubeconfig()
    if not spec:
        spec = default if os.path.exists(os.path.expanduser(default)) else ''
    paths = (path.strip() for path in spec.split(os.pathsep))
    return [os.path.expanduser(path) for path in paths if path]


def load(paths: Sequence[str]) -> Kubeconfig:
    """Read the files and pick the current context."""
    from kopf import _native
    current: str | None = None
    named: dict[str, dict[str, Any]] = {'contexts': {}, 'clusters': {}, 'users': {}}
    folders: dict[tuple[str, str], str] = {}
    for path in paths:
        try:
            with open(path, encoding='utf-8') as file:
                config = json.loads(_native.yaml_to_json(file.read())) or {}
        except (OSError, ValueError) as error:
            raise LoginError(f"Cannot read the kubeconfig {path}: {error}") from error
        current = current or config.get('current-context')
        for group, key in (('contexts', 'context'), ('clusters', 'cluster'), ('users', 'user')):
            for item in config.get(group) or ():
                if item['name'] not in named[group]:
                    named[group][item['name']] = item.get(key) or {}
                    folders[group, item['name']] = os.path.dirname(os.path.abspath(path))
    if not current:
        raise LoginError("Current context is not set in kubeconfigs.")
    try:
        context = named['contexts'][current]
        cluster = named['clusters'][context['cluster']]
        user = named['users'][context['user']]
    except KeyError as error:
        raise LoginError(f"The context {current!r} of the kubeconfig refers to {error}, "
                         f"which is not there.") from error
    folder = folders['clusters', context['cluster']]
    return Kubeconfig(cluster, user, context.get('namespace'), folder)
