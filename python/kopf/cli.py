"""The command line: `kopf run handlers.py`. Every option is also a variable `KOPF_RUN_…`."""
from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import click

from kopf._logging import LogFormat, configure
from kopf._version import __version__

if TYPE_CHECKING:
    import asyncio

    from kopf._flags import Flag
    from kopf._registry import OperatorRegistry
    from kopf._settings import OperatorSettings


class CLIControls:
    """What `KopfRunner` gives to the commands beside their options."""

    def __init__(
            self,
            ready_flag: Flag | None = None,
            stop_flag: Flag | None = None,
            vault: Any = None,
            registry: OperatorRegistry | None = None,
            settings: OperatorSettings | None = None,
            loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.ready_flag = ready_flag
        self.stop_flag = stop_flag
        self.vault = vault
        self.registry = registry
        self.settings = settings
        self.loop = loop


def logging_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The options of logging, the same for all commands."""
    formats = [format.name.lower() for format in LogFormat]

    @click.option('-v', '--verbose', is_flag=True)
    @click.option('-d', '--debug', is_flag=True)
    @click.option('-q', '--quiet', is_flag=True)
    @click.option('--log-format', type=click.Choice(formats, case_sensitive=False), default='full')
    @click.option('--log-refkey', type=str)
    @click.option('--log-prefix/--no-log-prefix', default=None)
    @functools.wraps(fn)
    def wrapper(
            verbose: bool,
            debug: bool,
            quiet: bool,
            log_format: str,
            log_refkey: str | None,
            log_prefix: bool | None,
            *args: Any,
            **kwargs: Any,
    ) -> Any:
        configure(debug=debug, verbose=verbose, quiet=quiet,
                  log_format=LogFormat[log_format.upper()],
                  log_refkey=log_refkey, log_prefix=log_prefix)
        return fn(*args, **kwargs)

    return wrapper


@click.group(name='kopf', context_settings={'auto_envvar_prefix': 'KOPF'})
@click.version_option(version=__version__, prog_name='kopf', message='Kopf version: %(version)s')
@click.make_pass_decorator(CLIControls, ensure=True)
def main(__controls: CLIControls) -> None:
    """Run and control operators of Kubernetes."""


@main.command()
@logging_options
@click.option('-A', '--all-namespaces', 'clusterwide', is_flag=True)
@click.option('-n', '--namespace', 'namespaces', multiple=True)
@click.option('--standalone', is_flag=True, default=None)
@click.option('--dev', is_flag=True)
@click.option('-L', '--liveness', 'liveness_endpoint', type=str)
@click.option('-P', '--peering', 'peering_name', type=str, envvar='KOPF_RUN_PEERING')
@click.option('-p', '--priority', type=int)
@click.option('-m', '--module', 'modules', multiple=True)
@click.argument('paths', nargs=-1)
@click.make_pass_decorator(CLIControls, ensure=True)
def run(
        __controls: CLIControls,
        paths: Collection[str],
        modules: Collection[str],
        peering_name: str | None,
        priority: int | None,
        dev: bool | None,
        standalone: bool | None,
        namespaces: Collection[str],
        clusterwide: bool,
        liveness_endpoint: str | None,
) -> None:
    """Start an operator with the handlers of the files and modules."""
    from kopf import _loader, _registry
    namespace = os.environ.get('KOPF_RUN_NAMESPACE')
    if namespace:
        namespaces = (*namespaces, namespace)
    if namespaces and clusterwide:
        raise click.UsageError("Either --namespace or --all-namespaces can be used, not both.")
    if __controls.registry is not None:
        _registry.set_default_registry(__controls.registry)
    try:
        _loader.preload(paths=paths, modules=modules)
    except Exception as error:
        _prepare_to_tell(error, describe_loading_error(error))
        raise
    _run(
        __controls,
        standalone=standalone,
        namespaces=namespaces,
        clusterwide=clusterwide,
        priority=666 if dev else priority,
        peering_name=peering_name,
        liveness_endpoint=liveness_endpoint,
        registry=__controls.registry,
        settings=__controls.settings,
        stop_flag=__controls.stop_flag,
        ready_flag=__controls.ready_flag,
        vault=__controls.vault,
    )


@main.command()
@logging_options
@click.option('-n', '--namespace', 'namespaces', multiple=True)
@click.option('-A', '--all-namespaces', 'clusterwide', is_flag=True)
@click.option('-i', '--id', type=str, default=None)
@click.option('--dev', is_flag=True)
@click.option('-P', '--peering', 'peering_name', required=True, envvar='KOPF_FREEZE_PEERING')
@click.option('-p', '--priority', type=int, default=100, required=True)
@click.option('-t', '--lifetime', type=int, required=True)
@click.option('-m', '--message', type=str)
@click.make_pass_decorator(CLIControls, ensure=True)
def freeze(__controls: CLIControls, **_: Any) -> None:
    """Pause the operators of a peering."""
    raise click.ClickException("peering is not available yet")


@main.command()
@logging_options
@click.option('-n', '--namespace', 'namespaces', multiple=True)
@click.option('-A', '--all-namespaces', 'clusterwide', is_flag=True)
@click.option('-i', '--id', type=str, default=None)
@click.option('-P', '--peering', 'peering_name', required=True, envvar='KOPF_RESUME_PEERING')
@click.make_pass_decorator(CLIControls, ensure=True)
def resume(__controls: CLIControls, **_: Any) -> None:
    """Resume the operators of a peering."""
    raise click.ClickException("peering is not available yet")


def _run(controls: CLIControls, **kwargs: Any) -> None:
    from kopf import _run as running
    from kopf._errors import ActivityError, EngineError
    loop, own = controls.loop, None
    if loop is None:
        try:
            import uvloop
        except ImportError:
            pass
        else:
            loop = own = uvloop.new_event_loop()
    try:
        running.run(loop=loop, **kwargs)
    except (ActivityError, EngineError) as error:
        cause = str(error.__cause__ or '')
        _prepare_to_tell(error, str(error) if cause in str(error) else f"{error}: {cause}")
        raise
    finally:
        if own is not None:
            own.run_until_complete(own.shutdown_asyncgens())
            own.close()


def describe_loading_error(error: BaseException) -> str:
    """What has failed in the user's code, and in which file and line."""
    text = str(error)
    if isinstance(error, SyntaxError) and error.filename is not None:
        text, filename, line = error.msg, error.filename, error.lineno
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__)
                  if not frame.filename.startswith('<frozen') and
                  os.path.dirname(__file__) != os.path.dirname(frame.filename)]
        if not frames or isinstance(error, FileNotFoundError):
            return f"Cannot load the handlers: {type(error).__name__}: {text}"
        filename, line = frames[-1].filename, frames[-1].lineno
    return (f"Cannot load the handlers: {type(error).__name__}: {text} "
            f"({filename}, line {line})")


def _prepare_to_tell(error: BaseException, message: str) -> None:
    """If nobody catches the error, show one message instead of our own stack trace.

    The stack trace is shown in the debug mode, or for all other errors.
    """
    import logging
    if logging.getLogger().isEnabledFor(logging.DEBUG):
        return
    default = sys.excepthook

    def excepthook(cls: Any, value: BaseException, trace: Any) -> None:
        if value is error:
            click.echo(f"Error: {message}", err=True)
        else:
            default(cls, value, trace)

    sys.excepthook = excepthook
