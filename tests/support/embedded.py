"""The embedded cluster, with the same interface to the tests as the real control plane."""

from __future__ import annotations

import base64
import pathlib
import signal
import subprocess

import yaml

from tests.support.client import Client, wait_for
from tests.support.processes import die_with_parent


class EmbeddedPlane:
    """A process of `kopf cluster`."""

    def __init__(self, folder: pathlib.Path, python: pathlib.Path) -> None:
        self.folder = folder
        self.python = python
        self.kubeconfig = folder / 'kubeconfig'
        self._client: Client | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        command = [str(self.python), '-m', 'kopf', 'cluster', '--kubeconfig', str(self.kubeconfig)]
        log = self.folder / 'cluster.log'
        with log.open('wb') as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        wait_for(lambda: f'the cluster is up; its log: {log.read_text()}', self.is_up)
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster = config['clusters'][0]['cluster']
        authority = self.folder / 'ca.crt'
        authority.write_bytes(base64.b64decode(cluster['certificate-authority-data']))
        token = config['users'][0]['user']['token']
        self._client = Client(cluster['server'], token, authority)

    def is_up(self) -> bool:
        assert self._process is not None and self._process.poll() is None
        return 'Ctrl-C' in (self.folder / 'cluster.log').read_text()

    def down(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=30)

    @property
    def client(self) -> Client:
        assert self._client is not None, 'The cluster is not up.'
        return self._client

    def user(self, name: str) -> Client:
        """The embedded cluster has only one user, who may do everything."""
        return self.client
