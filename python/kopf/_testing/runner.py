"""`kopf.testing.KopfRunner`: the command line in a thread, around the body of a `with`."""
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import types
from typing import TYPE_CHECKING, Any, Literal

import click.testing

from kopf import cli
from kopf._connect import active_cluster

if TYPE_CHECKING:
    from kopf._declare.registries import OperatorRegistry
    from kopf._declare.settings import OperatorSettings

ResultFuture = concurrent.futures.Future


class KopfRunner(contextlib.AbstractContextManager):
    """Runs the command `kopf` in a thread while the block runs::

        with KopfRunner(['run', '-A', 'handlers.py'], timeout=60) as runner:
            ...  # create, change, delete objects

        assert runner.exit_code == 0
        assert 'Handler' in runner.output

    The block raises the exceptions of the command, unless `reraise=False`.
    """

    def __init__(
            self,
            *args: Any,
            reraise: bool = True,
            timeout: float | None = None,
            registry: OperatorRegistry | None = None,
            settings: OperatorSettings | None = None,
            **kwargs: Any,
    ) -> None:
        super().__init__()
        self.args = args
        self.kwargs = kwargs
        self.reraise = reraise
        self.timeout = timeout
        self.registry = registry
        self.settings = settings
        self._servers: tuple[str, ...] = ()
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._target, name='kopf runner')
        self._future: ResultFuture[click.testing.Result] = concurrent.futures.Future()

    def __enter__(self) -> KopfRunner:
        self._servers = active_cluster.get_servers()
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
            self,
            exc_type: type[BaseException] | None,
            exc_val: BaseException | None,
            exc_tb: types.TracebackType | None,
    ) -> Literal[False]:
        self._stop.set()
        self._thread.join(timeout=self.timeout)
        if self._thread.is_alive():
            raise Exception("The operator didn't stop, still running.")
        error = self._future.exception()
        if error is None and self.reraise:
            error = self._future.result().exception
        if error is not None:
            if exc_val is None:
                raise error
            raise error from exc_val
        return False

    def _target(self) -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        # The cluster of the block may end while the operator is still starting.
        active_cluster.confine(self._servers)
        self._ready.set()
        controls = cli.CLIControls(
            registry=self.registry, settings=self.settings, stop_flag=self._stop, loop=loop)
        try:
            runner = click.testing.CliRunner()
            result = runner.invoke(cli.main, *self.args, **self.kwargs, obj=controls)
        except BaseException as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    @property
    def future(self) -> ResultFuture[click.testing.Result]:
        return self._future

    @property
    def output(self) -> str:
        return self.future.result().output

    @property
    def stdout(self) -> str:
        return self.future.result().stdout

    @property
    def stdout_bytes(self) -> bytes:
        return self.future.result().stdout_bytes

    @property
    def stderr(self) -> str:
        return self.future.result().stderr

    @property
    def stderr_bytes(self) -> bytes:
        return self.future.result().stderr_bytes or b''

    @property
    def exit_code(self) -> int:
        return self.future.result().exit_code

    @property
    def exception(self) -> BaseException | None:
        return self.future.result().exception

    @property
    def exc_info(self) -> Any:
        return self.future.result().exc_info
