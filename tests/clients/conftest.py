"""The tests of clients of others on the embedded cluster, and on a real one for comparison."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'controlplane'), str(HERE.parent / 'parity')]

from cluster_fixtures import examples, namespace, operator, plane  # noqa: E402, F401
