"""Upstream's kopf, which ours is compared with: an environment with the pinned version.

The parity tests use it, and those tests that run both versions beside each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import subprocess
import sys

REQUIREMENTS = pathlib.Path(__file__).with_name('upstream-requirements.txt')


def python_of_upstream() -> pathlib.Path:
    """The interpreter with the pinned version of upstream's kopf; the first call installs it."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    cache = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or '~/.cache').expanduser() / 'kopf'
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f'upstream-{key}'
    complete = folder / 'complete'
    with (cache / f'upstream-{key}.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            subprocess.run([sys.executable, '-m', 'venv', '--clear', str(folder)], check=True)
            subprocess.run(
                [
                    str(folder / 'bin' / 'python'),
                    '-m',
                    'pip',
                    'install',
                    '--quiet',
                    '--disable-pip-version-check',
                    '-r',
                    str(REQUIREMENTS),
                ],
                check=True,
            )
            complete.touch()
    return folder / 'bin' / 'python'
