"""The embedded cluster, as `kopf dev`, `kopf cluster` and `kopf.testing` see it.

Operators in production never load this module: the engine is in `kopf._native`.
"""
import os
from collections.abc import Sequence

class Cluster:
    """The embedded Kubernetes, on its own threads."""
    def __init__(self, config: str, /) -> None:
        """JSON: {"seed": int | None, "data_dir": str | None, "workloads": bool, "clock_shift_seconds": float}"""
    def start(self, host: str, port: int, /) -> None: ...
    def access(self) -> str:
        """JSON: {"url", "token", "kubeconfig"}"""
    def request(self, method: str, path: str, content_type: str, body: bytes, /) -> tuple[int, bytes]: ...
    def apply(self, manifest: str, namespace: str, /) -> str:
        """JSON list of the objects; raises ValueError if the cluster refuses a part of the manifest."""
    def path(self, resource: str, namespace: str | None, name: str | None, /) -> str | None: ...
    def advance(self, seconds: float, /) -> None:
        """Move the clock of the cluster forward; not that of the operators: see `_native.advance_clock()`."""
    def compact(self) -> None: ...
    def close(self) -> None: ...

def command_line(arguments: Sequence[str], /) -> int:
    """Run a command that needs no Python, such as ['kopf', 'cluster'], and return its exit code."""
def write_kubeconfig(path: str | os.PathLike[str], text: str, /) -> None:
    """Raises OSError if the file cannot be written, or if it exists and kopf has not written it."""
