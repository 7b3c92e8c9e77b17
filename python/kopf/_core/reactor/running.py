"""Running. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._run.operator import operator, run, run_tasks, spawn_tasks

__all__ = [
    'operator', 'run', 'run_tasks', 'spawn_tasks',
]
