"""The native module: loaded when it is needed, and missed with a clear message."""
from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest

import kopf
from kopf._native_loader import explain


@pytest.mark.parametrize('facts, expected', [
    ({'implementation': 'pypy'}, 'it needs CPython, but this is pypy.'),
    ({'free_threaded': True}, 'it is not built for the free-threaded Python.'),
    ({'files': []}, 'it is not there.'),
    ({}, '(_native.abi3.so): undefined symbol: x'),
])
def test_explanations(facts, expected):
    usual = {'implementation': 'cpython', 'free_threaded': False, 'files': ['_native.abi3.so']}
    text = explain(ImportError('undefined symbol: x'), **{**usual, **facts})
    assert text.startswith('The native module of kopf cannot be loaded')
    assert expected in text


@pytest.mark.parametrize('content, expected', [
    (None, 'it is not there'),
    (b'not a library', '(_native.abi3.so): '),
])
def test_a_package_without_a_native_module(tmp_path, content, expected):
    """Handlers can be imported and checked; only running them tells what is missing."""
    source = pathlib.Path(kopf.__file__).parent
    shutil.copytree(source, tmp_path / 'kopf', ignore=shutil.ignore_patterns('*.so', '__pycache__'))
    if content is not None:
        (tmp_path / 'kopf' / '_native.abi3.so').write_bytes(content)
    script = tmp_path / 'handlers.py'
    script.write_text("import kopf\n\n@kopf.on.create('x')\ndef fn(**_):\n    pass\n")
    code = f'''
import sys
sys.path.insert(0, {str(tmp_path)!r})
import kopf, handlers
assert kopf.__file__.startswith({str(tmp_path)!r})
try:
    kopf.run(standalone=True, clusterwide=True)
except ImportError as error:
    print(error)
'''
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          timeout=60, cwd=tmp_path)
    assert 'The native module of kopf cannot be loaded' in done.stdout, done.stderr
    assert expected in done.stdout
