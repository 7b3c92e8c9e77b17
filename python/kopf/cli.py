"""The command line: `kopf run handlers.py`. Every option is also a variable `KOPF_RUN_…`."""
from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from kopf._call.loggers import LogFormat, configure, configure_for_terminal
from kopf._version import __version__

if TYPE_CHECKING:
    import asyncio

    from kopf._declare.registries import OperatorRegistry
    from kopf._declare.settings import OperatorSettings
    from kopf._run.stop_flags import Flag


class CLIControls:
    """What `KopfRunner` passes to the commands in addition to their options."""

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
    formats = [*(format.name.lower() for format in LogFormat), 'terminal']

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
        if log_format == 'terminal':
            configure_for_terminal(debug=debug, verbose=verbose, quiet=quiet)
        else:
            configure(debug=debug, verbose=verbose, quiet=quiet,
                      log_format=LogFormat[log_format.upper()],
                      log_refkey=log_refkey, log_prefix=log_prefix)
        return fn(*args, **kwargs)

    return wrapper


@click.group(name='kopf', context_settings={'auto_envvar_prefix': 'KOPF'})
@click.version_option(version=__version__, prog_name='kopf', message='Kopf version: %(version)s')
@click.make_pass_decorator(CLIControls, ensure=True)
def main(__controls: CLIControls) -> None:
    """Run and control Kubernetes operators."""


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
    """Run an operator with the handlers of these files and modules."""
    from kopf._cli import preload
    from kopf._connect import active_cluster
    from kopf._declare import registries
    active_cluster.adopt()  # before the handlers import a client library
    namespace = os.environ.get('KOPF_RUN_NAMESPACE')
    if namespace:
        namespaces = (*namespaces, namespace)
    if namespaces and clusterwide:
        raise click.UsageError("Either --namespace or --all-namespaces can be used, not both.")
    if __controls.registry is not None:
        registries.set_default_registry(__controls.registry)
    try:
        preload.preload(paths=paths, modules=modules)
    except Exception as error:
        _hide_stack_trace(error, describe_loading_error(error))
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
def freeze(
        __controls: CLIControls,
        id: str | None,
        message: str | None,
        lifetime: int,
        namespaces: Collection[str],
        clusterwide: bool,
        peering_name: str,
        priority: int,
        dev: bool,
) -> None:
    """Pause the operators of a peering for the number of seconds in --lifetime."""
    del message  # accepted as a note for the shell history; the peering has no field for it
    _touch_peering(__controls, id, namespaces, clusterwide, peering_name,
                   666 if dev else priority, lifetime)


@main.command()
@logging_options
@click.option('-n', '--namespace', 'namespaces', multiple=True)
@click.option('-A', '--all-namespaces', 'clusterwide', is_flag=True)
@click.option('-i', '--id', type=str, default=None)
@click.option('-P', '--peering', 'peering_name', required=True, envvar='KOPF_RESUME_PEERING')
@click.make_pass_decorator(CLIControls, ensure=True)
def resume(
        __controls: CLIControls,
        id: str | None,
        namespaces: Collection[str],
        clusterwide: bool,
        peering_name: str,
) -> None:
    """Resume the operators of a peering that `kopf freeze` has paused."""
    _touch_peering(__controls, id, namespaces, clusterwide, peering_name, 0, 0)


def _touch_peering(
        controls: CLIControls,
        id: str | None,
        namespaces: Collection[str],
        clusterwide: bool,
        peering_name: str,
        priority: int,
        lifetime: int,
) -> None:
    from kopf._declare.settings import OperatorSettings
    from kopf._run import own_peer
    if namespaces and clusterwide:
        raise click.UsageError("Either --namespace or --all-namespaces can be used, not both.")
    settings = OperatorSettings()
    settings.peering.name = peering_name
    settings.peering.priority = priority
    _run(
        controls,
        namespaces=namespaces,
        clusterwide=clusterwide,
        identity=id or own_peer.detect_own_id(manual=True),
        settings=settings,
        registry=controls.registry,
        vault=controls.vault,
        _command=lifetime,
    )


@main.command(
    add_help_option=False,
    context_settings={'ignore_unknown_options': True, 'allow_interspersed_args': False},
)
@click.argument('arguments', nargs=-1, type=click.UNPROCESSED)
def cluster(arguments: Sequence[str]) -> None:
    """Run a Kubernetes API server in this process, for development."""
    from kopf._cli.cluster_command import run_cluster
    run_cluster(list(arguments))


@main.command()
@click.option('-f', '--filename', 'manifests', multiple=True, type=click.Path(exists=True),
              help="Apply this manifest, or a folder of manifests, at the start and on changes.")
@click.option('-n', '--namespace', 'namespaces', multiple=True,
              help="Serve this namespace instead of all; can be repeated.")
@click.option('-m', '--module', 'modules', multiple=True,
              help="A module with handlers; can be repeated.")
@click.option('-p', '--port', type=click.IntRange(0, 65535), default=0,
              help="The port of the cluster; by default, any free port.")
@click.option('--kubeconfig', type=click.Path(dir_okay=False),
              help="Also write the kubeconfig to this file, unless it is not from Kopf.")
@click.option('--data-dir', type=click.Path(file_okay=False),
              help="Keep the state of the cluster in this folder, across restarts.")
@click.option('--workloads/--no-workloads', default=True,
              help="Create pods for deployments, jobs and the like; by default, yes.")
@click.option('--reload/--no-reload', default=True,
              help="Restart the operator when its files change; by default, yes.")
@click.option('--exec', 'command', type=str, metavar='COMMAND',
              help="Run this command with KUBECONFIG set; exit when it exits, with its exit code.")
@click.option('-v', '--verbose', is_flag=True, help="Log everything that the operator does.")
@click.option('-d', '--debug', is_flag=True, help="Also log everything that the libraries do.")
@click.option('-q', '--quiet', is_flag=True, help="Log only warnings and errors.")
@click.argument('paths', nargs=-1, type=click.Path(exists=True, dir_okay=False))
def dev(
        paths: Sequence[str],
        modules: Sequence[str],
        manifests: Sequence[str],
        namespaces: Sequence[str],
        port: int,
        kubeconfig: str | None,
        data_dir: str | None,
        workloads: bool,
        reload: bool,
        command: str | None,
        verbose: bool,
        debug: bool,
        quiet: bool,
) -> None:
    """Run an operator on its own embedded Kubernetes cluster, in this process.

    You need no other cluster and no Docker. Kopf restarts the operator when its files change.
    """
    from kopf import _native_cluster
    from kopf._cli import dev
    from kopf._embedded.cluster import Cluster, ClusterError
    if not paths and not modules:
        raise click.UsageError("Which handlers? Name their files, or modules with -m.")
    flags = {'--verbose': verbose, '--debug': debug, '--quiet': quiet}
    served = [word for name in namespaces for word in ('-n', name)] or ['-A']
    options = dev.Options(
        paths=paths, modules=modules, manifests=manifests, command=command, reload=reload,
        run_options=['--log-format=terminal', *(flag for flag, on in flags.items() if on), *served])
    try:
        with Cluster(
                port=port, data_dir=data_dir, workloads=workloads, environ=False) as cluster:
            if kubeconfig is not None:
                _native_cluster.write_kubeconfig(kubeconfig, cluster.kubeconfig.read_text())
            click.secho(f"Kubernetes (embedded) listens on {cluster.url}", bold=True, err=True)
            click.echo(f"  export KUBECONFIG={kubeconfig or cluster.kubeconfig}", err=True)
            report = functools.partial(click.secho, fg='magenta', err=True)
            code = dev.Session(options, cluster, report).run()
    except (ClusterError, OSError) as error:
        raise click.ClickException(str(error))
    raise SystemExit(code)


def _run(controls: CLIControls, **kwargs: Any) -> None:
    from kopf._errors import ActivityError, EngineError, OtherClusterError
    from kopf._run import operator as running
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
    except (ActivityError, EngineError, OtherClusterError) as error:
        cause = str(error.__cause__ or '')
        _hide_stack_trace(error, str(error) if cause in str(error) else f"{error}: {cause}")
        raise
    finally:
        if own is not None:
            own.run_until_complete(own.shutdown_asyncgens())
            own.close()


def describe_loading_error(error: BaseException) -> str:
    """Say what has failed in the user's code, and in which file and line."""
    text = str(error)
    if isinstance(error, SyntaxError) and error.filename is not None:
        text, filename, line = error.msg, error.filename, error.lineno
    else:
        own = os.path.join(os.path.dirname(__file__), '')
        frames = [frame for frame in traceback.extract_tb(error.__traceback__)
                  if not frame.filename.startswith(('<frozen', own))]
        if not frames or isinstance(error, FileNotFoundError):
            return f"Cannot load the handlers: {type(error).__name__}: {text}"
        filename, line = frames[-1].filename, frames[-1].lineno
    return (f"Cannot load the handlers: {type(error).__name__}: {text} "
            f"({filename}, line {line})")


def _hide_stack_trace(error: BaseException, message: str) -> None:
    """If nobody catches the error, show one message instead of a stack trace of Kopf.

    In the debug mode, and for all other errors, Python shows the stack trace.
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
