"""The tests of operators as users run them: on the embedded cluster, or on a real one."""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'controlplane'), str(HERE.parent / 'parity')]

from cluster_fixtures import examples, namespace, operator, plane  # noqa: E402, F401
