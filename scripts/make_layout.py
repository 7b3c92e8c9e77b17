#!/usr/bin/env python3
"""Writes crates/kopf-python/executed.txt: which functions of the native module are to be side by side.

    make layout      # Linux; needs valgrind; some minutes for the build afterwards

Of the code of the module, an operator executes a sixth. Spread over the whole, it would bring
most of the module into memory, since the kernel loads pages with their neighbours; and
processors remember the places of few pages. So the linker puts what is executed together, the
most executed first. What that is, callgrind tells of an operator with a few objects.

The names are without the hashes of the compiler, so that they stay valid when the code changes.
Those that do not exist any more do no harm; new functions are just somewhere else.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

from kopf.testing import Cluster

PROJECT = pathlib.Path(__file__).resolve().parents[1]
PEERS = PROJECT / 'benches' / 'peers'
EXECUTED = PROJECT / 'crates' / 'kopf-python' / 'executed.txt'
MODULE = '_native.abi3.so'
RESOURCE = 'widgets.bench.dev'
OBJECTS = 8

#: The kernel maps so many bytes at once.
NEIGHBOURHOOD = 64 * 1024


def main() -> None:
    with tempfile.TemporaryDirectory(prefix='layout-') as folder:
        for script in ('handlers_async.py', 'handlers_sync.py'):
            profile(PEERS / 'kopf' / script, pathlib.Path(folder))
        executed = read_profiles(pathlib.Path(folder).glob('callgrind.*'))
    patterns = choose(executed, read_sizes(PROJECT / 'python' / 'kopf' / MODULE))
    EXECUTED.write_text(''.join(f'{pattern}\n' for pattern in patterns))
    print(f'{len(patterns)} names are in {EXECUTED.relative_to(PROJECT)}')


def profile(script: pathlib.Path, folder: pathlib.Path) -> None:
    """The lives of some objects under callgrind, and a restart on top of them."""
    with Cluster(workloads=False) as cluster:
        cluster.apply(json.loads((PEERS / 'crd.json').read_text()))
        names = [f'widget-{number}' for number in range(OBJECTS)]
        for name in names:
            spec = {'title': name, 'color': 'red', 'size': 1, 'tags': ['a'], 'payload': 'x' * 800}
            metadata = {'name': name}
            cluster.create(
                {'apiVersion': 'bench.dev/v1', 'kind': 'Widget', 'metadata': metadata, 'spec': spec}
            )
        for size in (2, 3):
            operator = start(script, folder, cluster)
            wait(cluster, operator, is_handled)
            for name in names:
                cluster.patch(RESOURCE, name, {'spec': {'size': size}})
            wait(cluster, operator, is_handled)
            if size == 3:
                for name in names:
                    cluster.delete(RESOURCE, name)
                wait(cluster, operator, lambda widget: False)
            operator.send_signal(signal.SIGTERM)
            operator.wait(60)


def start(script: pathlib.Path, folder: pathlib.Path, cluster: Cluster) -> subprocess.Popen[bytes]:
    valgrind = [
        'valgrind',
        '--tool=callgrind',
        '--demangle=no',
        '--compress-strings=no',
        '--compress-pos=no',
        f'--callgrind-out-file={folder}/callgrind.%p',
    ]
    kopf = ['-m', 'kopf', 'run', '--standalone', '--quiet', '--namespace', 'default', str(script)]
    env = {**os.environ, 'KUBECONFIG': str(cluster.kubeconfig)}
    return subprocess.Popen(
        [*valgrind, sys.executable, *kopf], env=env, stderr=subprocess.DEVNULL
    )


def is_handled(widget: dict[str, Any]) -> bool:
    seen = (widget.get('status') or {}).get('observedGeneration')
    return seen == widget['metadata']['generation']


def wait(
    cluster: Cluster,
    operator: subprocess.Popen[bytes],
    is_done: Callable[[dict[str, Any]], bool],
) -> None:
    """Until all objects that are there are done."""
    deadline = time.monotonic() + 300
    while not all(map(is_done, cluster.list(RESOURCE))):
        if operator.poll() is not None or time.monotonic() > deadline:
            sys.exit('The operator does not do its work.')
        time.sleep(0.5)


def read_profiles(paths: Iterable[pathlib.Path]) -> collections.Counter[str]:
    """The instructions of each function of the module."""
    counts: collections.Counter[str] = collections.Counter()
    for path in paths:
        is_ours, function = False, ''
        lines = iter(path.read_text().splitlines())
        for line in lines:
            if line.startswith('ob='):
                is_ours = line.endswith(MODULE)
            elif line.startswith('fn='):
                function = re.sub(r"'\d+$", '', line[3:])
            elif line.startswith('calls='):
                next(lines)  # what the called function takes is counted there
            elif is_ours and line[:1].isdigit():
                counts[function] += int(line.split()[1])
    return counts


def read_sizes(module: pathlib.Path) -> dict[str, int]:
    """The size of each function of the module, in bytes."""
    listing = subprocess.run(
        ['nm', '--print-size', str(module)], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in listing.stdout.splitlines())
    return {row[3]: int(row[1], 16) for row in rows if len(row) == 4 and row[2] in 'tTwW'}


def choose(executed: collections.Counter[str], sizes: dict[str, int]) -> list[str]:
    """The patterns of the executed functions, the most executed first.

    Generic functions have many variants under one name. If most of them are not executed, all
    of them would take more memory than the executed ones with their neighbours, wherever they are.
    """
    variants: dict[str, list[str]] = collections.defaultdict(list)
    whole: collections.Counter[str] = collections.Counter()
    for name, size in sizes.items():
        whole[as_pattern(name)] += size
    for name in executed:
        if name in sizes:
            variants[as_pattern(name)].append(name)
    chosen = [
        pattern
        for pattern, names in variants.items()
        if whole[pattern] - sum(map(sizes.__getitem__, names)) < NEIGHBOURHOOD * len(names)
    ]
    return sorted(chosen, key=lambda pattern: -sum(map(executed.__getitem__, variants[pattern])))


def as_pattern(name: str) -> str:
    """The name as the linker finds it, whatever the hashes are."""
    name = re.sub(r'17h[0-9a-f]{16}E.*$', '17h*', name)
    return re.sub(r'Cs[0-9A-Za-z]+_', 'Cs*_', name) if name.startswith('_R') else name


if __name__ == '__main__':
    main()
