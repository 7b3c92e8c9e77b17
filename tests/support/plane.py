"""What the tests need of a cluster, whether it is real or embedded."""

from __future__ import annotations

import pathlib
from typing import Protocol

from tests.support.client import Client


class Plane(Protocol):
    """A running cluster. ``tests.controlplane.plane`` has the real one, and
    ``tests.support.embedded`` the embedded one.
    """

    @property
    def client(self) -> Client:
        """The administrator."""
        ...

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The file with the credentials of the administrator."""
        ...

    def user(self, name: str) -> Client:
        """One of the users who may do everything, and whose requests a real cluster records:
        ``operator-NNN``.
        """
        ...
