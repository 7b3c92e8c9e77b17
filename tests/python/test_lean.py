"""Asyncio is imported without OpenSSL, and nobody notices."""
from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

HEAD = """
import sys
from kopf._lean import import_asyncio
import_asyncio()
assert 'asyncio' in sys.modules and '_ssl' not in sys.modules, sorted(sys.modules)
import asyncio
"""


def run(script: str) -> None:
    done = subprocess.run([sys.executable, '-c', HEAD + script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nobody_else_gets_the_stand_ins() -> None:
    run("""
assert 'ssl' not in sys.modules and 'asyncio.sslproto' not in sys.modules
import ssl, asyncio.sslproto
assert issubclass(ssl.SSLError, OSError)
assert asyncio.sslproto.ssl is ssl
""")


def test_asyncio_sees_the_real_modules() -> None:
    run("""
import ssl
from asyncio import base_events, sslproto
assert isinstance(ssl.create_default_context(), base_events.ssl.SSLContext)
assert base_events.sslproto.SSLProtocol is sslproto.SSLProtocol
""")


def test_asyncio_loads_them_when_it_needs_them() -> None:
    run("""
from asyncio import base_events
assert base_events.sslproto.SSLProtocol.__module__ == 'asyncio.sslproto'
assert '_ssl' in sys.modules
""")


def test_connections_with_tls() -> None:
    run("""
import ssl

async def main():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), '127.0.0.1', 0)
    address = server.sockets[0].getsockname()
    context = ssl.create_default_context()
    try:
        await asyncio.open_connection(*address, ssl=context, server_hostname='localhost')
    except (ssl.SSLError, ConnectionError):
        pass  # it speaks no TLS; but we have tried
    else:
        raise AssertionError('not refused')

asyncio.run(main())
""")


@pytest.mark.parametrize('module', ['asyncio', 'ssl'])
def test_what_is_imported_already_stays(module: str) -> None:
    script = (f'import sys, {module}; before = sys.modules[{module!r}]\n'
              'from kopf._lean import import_asyncio; import_asyncio()\n'
              f'assert sys.modules[{module!r}] is before')
    done = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_modules_that_are_needed_at_once_are_loaded() -> None:
    """As if asyncio of another version of Python looked into them while it is imported."""
    script = ('import sys; from kopf import _lean\n'
              "sys.modules['ssl'] = stand_in = _lean._StandIn('ssl')\n"
              'assert stand_in.SSLError\n'
              "assert sys.modules['ssl'] is not stand_in")
    done = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_command_uses_it(tmp_path: pathlib.Path) -> None:
    """Of a small operator, nothing needs OpenSSL, unless uvloop is there, which does."""
    handlers = tmp_path / 'handlers.py'
    handlers.write_text("import kopf, sys\n"
                        "@kopf.on.startup()\n"
                        "def tell(**_):\n"
                        "    print('OpenSSL' if '_ssl' in sys.modules else 'lean')\n"
                        "    raise kopf.PermanentError('enough')\n")
    script = ("import sys; sys.modules['uvloop'] = None\n"
              f"sys.argv[1:] = ['run', '-A', '--standalone', {str(handlers)!r}]\n"
              "from kopf._command import main; main()")
    done = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True)
    assert done.stdout == 'lean\n', done.stderr
