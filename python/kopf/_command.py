"""The command `kopf`, without its parser where that is not needed.

`kopf cluster` has its parser in Rust: to load the one of Python would take longer than
to start the cluster.
"""
from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:2] == ['cluster']:
        run_cluster(sys.argv[2:])
    from kopf.cli import main as run_command
    try:
        run_command(prog_name='kopf')
    finally:
        # The interpreter waits for the threads of functions; whoever interrupts it need not.
        import signal
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_cluster(arguments: list[str]) -> None:
    """Run a cluster until it is stopped; then the process is over, too."""
    import signal

    from kopf import _native_cluster
    # It has its own handler, and the interpreter would only interfere.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise SystemExit(_native_cluster.command_line(['kopf', 'cluster', *arguments]))
