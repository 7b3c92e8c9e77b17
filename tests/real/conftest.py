"""The tests of the package on a real control plane: as its users run it, by its command line."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'controlplane')]

from cluster_fixtures import examples, namespace, operator, plane  # noqa: E402, F401
