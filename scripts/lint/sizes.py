"""Small folders and small files: at most 20 sources directly in a folder, and at least 92 % of the files with at
most 400 lines.
"""
from __future__ import annotations

import collections
import pathlib

from scripts.lint.sources import Report, files, read

MAX_FILES = 20
MAX_LINES = 400
SHARE = 0.92

SOURCES = ('.rs', '.py', '.pyi', '.go')
UNDER = ('crates/', 'python/', 'tests/', 'benches/', 'scripts/', 'examples/')

#: Not written by hand, so no reader is helped by splitting them.
GENERATED: tuple[str, ...] = ()


def check() -> Report:
    sources = [name for name in files(*SOURCES, under=UNDER) if name not in GENERATED]
    per_folder = collections.Counter(str(pathlib.PurePosixPath(name).parent) for name in sources)
    problems = [f'{folder}: {count} files; subdivide it by topic, {MAX_FILES} are enough'
                for folder, count in sorted(per_folder.items()) if count > MAX_FILES]
    lengths = {name: read(name).count('\n') for name in sources}
    long = sorted((name for name in sources if lengths[name] > MAX_LINES), key=lambda name: -lengths[name])
    share = 1 - len(long) / len(sources)
    if share < SHARE:
        problems += [f'{name}: {lengths[name]} lines; split it by concept, {MAX_LINES} are enough' for name in long]
    largest, count = per_folder.most_common(1)[0]
    return Report(
        f'sizes: {len(per_folder)} folders, the largest is {largest} with {count} files; {len(sources)} files, '
        f'{share:.1%} of them have at most {MAX_LINES} lines', problems)
