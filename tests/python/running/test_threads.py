"""The native module in threads that come and go, beside the native modules of others.

Each test runs in a separate process: it looks for a crash of the interpreter.
"""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

#: What is tried in threads: calls that allocate on one side of the bridge and free on the other.
CALLS = """
import faulthandler, json, threading
faulthandler.enable()

def use_native():
    from kopf import _native
    for number in range(20):
        keys = [f'kopf.dev/x{number}'] * number
        _native.shrink_essence(json.dumps({'x': [number] * 50}), keys, '{}', '{}')
        _native.shrink_essence(json.dumps({'x': 'y' * 5000}), keys[:1], '{}', '{}')
        _native.yaml_to_json(f'x: [{number}, y]')
        _native.Operator(json.dumps({'identity': 'x' * number}))

def use_neighbours():
    import orjson
    import pydantic_core
    schema = pydantic_core.core_schema.list_schema(pydantic_core.core_schema.int_schema())
    validator = pydantic_core.SchemaValidator(schema)
    for number in range(50):
        assert validator.validate_json(orjson.dumps([number] * 50)) == [number] * 50

def run_in_threads(*functions):
    errors = []

    def guard(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guard, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
"""


def run(script: str, *, timeout_seconds: float = 120) -> None:
    process = subprocess.run(
        [sys.executable, '-c', CALLS + textwrap.dedent(script)],
        env={**os.environ, 'HOME': '/nonexistent', 'KUBECONFIG': '/nonexistent'},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_seconds)
    code = process.returncode
    ended = signal.Signals(-code).name if code < 0 else f'code {code}'
    assert code == 0, f'{ended}\n{process.stdout[-4000:]}'


def test_first_use_in_a_thread_that_ends() -> None:
    """As operators in threads of applications, and the runner of tests: not in the main thread."""
    run("""
        for _ in range(20):
            run_in_threads(use_native)
    """)


def test_loaded_in_a_thread_that_ends() -> None:
    run("""
        def load():
            from kopf import _native
        run_in_threads(load)
        use_native()
        run_in_threads(use_native, use_native)
        use_native()
    """)


def test_hundreds_of_short_threads() -> None:
    run("""
        for _ in range(100):
            run_in_threads(*[use_native] * 4)
    """)


@pytest.mark.parametrize('before', [True, False], ids=['before', 'after'])
def test_beside_other_native_modules(before: bool) -> None:
    """Each of them has its own allocator."""
    first, second = ('use_neighbours', 'use_native') if before else ('use_native', 'use_neighbours')
    run(f"""
        run_in_threads({first})
        run_in_threads({second})
        for _ in range(50):
            run_in_threads(use_native, use_neighbours, use_native, use_neighbours)
    """)


@pytest.mark.parametrize('before', [True, False], ids=['before', 'after'])
def test_beside_polars(before: bool) -> None:
    """It brings its own threads."""
    run(f"""
        def use_polars():
            import polars
            frame = polars.DataFrame({{'x': list(range(1000))}})
            assert frame.select(polars.col('x').sum()).item() == 499500

        run_in_threads(use_polars if {before} else use_native)
        for _ in range(20):
            run_in_threads(use_native, use_polars, use_native)
    """)


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='There is no fork.')
def test_after_a_fork() -> None:
    """Of a process that has used the module in a thread which is gone, as servers do."""
    run("""
        import os, warnings
        warnings.simplefilter('ignore', DeprecationWarning)
        run_in_threads(use_native, use_native)
        for _ in range(10):
            child = os.fork()
            if not child:
                run_in_threads(use_native, use_native)
                use_native()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            use_native()
    """)


def test_operators_in_short_threads() -> None:
    """Several at once, again and again, in event loops that come and go; they find no cluster."""
    run("""
        import logging
        import kopf
        logging.disable(logging.CRITICAL)

        def use_operator():
            registry = kopf.OperatorRegistry()
            stop = threading.Event()

            @kopf.on.login(registry=registry)
            def login(**_):
                stop.set()
                return kopf.ConnectionInfo(server='http://127.0.0.1:1')

            @kopf.on.event('pods', registry=registry)
            def event_fn(**_):
                pass

            kopf.run(registry=registry, clusterwide=True, standalone=True, stop_flag=stop)

        for _ in range(25):
            run_in_threads(*[use_operator] * 4, use_native, use_neighbours)
    """)


def test_cluster_that_is_started_in_another_thread() -> None:
    """A caller in the meantime gets an error, and does not hold up the start."""
    run("""
        from kopf import _native_cluster
        for _ in range(5):
            cluster = _native_cluster.Cluster(json.dumps({'workloads': False}))
            asking = threading.Barrier(3)

            def start():
                asking.wait()
                cluster.start('127.0.0.1', 0)

            def ask():
                asking.wait()
                while True:
                    try:
                        return cluster.access()
                    except RuntimeError as error:
                        assert 'not running' in str(error)

            run_in_threads(start, ask, ask)
            cluster.close()
            try:
                cluster.access()
            except RuntimeError as error:
                assert 'not running' in str(error)
    """, timeout_seconds=30)


def test_messages_of_the_runner_name_the_signal() -> None:
    """Otherwise, the tests above would tell nothing when they fail."""
    with pytest.raises(AssertionError, match='SIGSEGV'):
        run('import ctypes; ctypes.string_at(0)')
