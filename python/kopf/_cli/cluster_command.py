"""`kopf cluster`: hands the arguments over to the native module, which parses them and serves."""
from __future__ import annotations

import signal


def run_cluster(arguments: list[str]) -> None:
    """Run an embedded cluster until it stops; then exit the process with its exit code."""
    from kopf import _native_cluster
    # The native module handles the signal itself; Python's handler would only interfere.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise SystemExit(_native_cluster.command_line(['kopf', 'cluster', *arguments]))
