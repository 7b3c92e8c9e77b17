"""The parity tests share the control plane with the other tests on a real cluster."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'controlplane')]

from cluster_fixtures import plane  # noqa: E402, F401
