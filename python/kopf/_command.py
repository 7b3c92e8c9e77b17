"""The entry point of the command `kopf`. Its address is in pyproject.toml and in installed scripts.

`kopf cluster` does not load the command line of Python (`kopf.cli`): that would take longer than to
start the cluster.
"""
from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:2] == ['cluster']:
        from kopf._cli.cluster_command import run_cluster
        run_cluster(sys.argv[2:])
    from kopf.cli import main as run_command
    try:
        run_command(prog_name='kopf')
    finally:
        # The interpreter waits for the threads of handlers. A second Ctrl+C ends it at once.
        import signal
        signal.signal(signal.SIGINT, signal.SIG_DFL)
