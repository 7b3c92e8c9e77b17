"""The version of all packages, which is written in one place: `workspace.package.version` of Cargo.toml.

    python3 -m scripts.version               # print it
    python3 -m scripts.version --write       # write it to all places that repeat it
    python3 -m scripts.version --tag v2.0.0  # check that a release can be made of it; the release workflow does so

Crates must name the versions of each other to be published, and `kopf.__version__` must not cost operators the
import of `importlib.metadata`. So these repeat it, and `make lint-rules` checks that they agree.
"""
from __future__ import annotations

import argparse
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MANIFEST = 'Cargo.toml'
MODULE = 'python/kopf/_version.py'

#: file: the places in it that repeat the version. The second group is what is replaced.
REPEATED = {
    MANIFEST: re.compile(r'(?m)^([\w-]+ = \{ path = "[^"]+", version = ")([^"]+)'),
    MODULE: re.compile(r"(?m)^(__version__ = ')([^']+)"),
}
TUPLE = re.compile(r'(?m)^(__version_tuple__: .* = )(\(.*\))$')


def main() -> int:
    parser = argparse.ArgumentParser(prog='python3 -m scripts.version', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--write', action='store_true', help='write it to all places that repeat it')
    parser.add_argument('--tag', help='check that a release with this tag can be made')
    args = parser.parse_args()
    if args.write:
        write()
    problems = differences() + (release_problems(args.tag) if args.tag else [])
    print(current(), *problems, sep='\n  ')
    return 1 if problems else 0


def current() -> str:
    return tomllib.loads((ROOT / MANIFEST).read_text())['workspace']['package']['version']


def differences() -> list[str]:
    """The places that repeat another version."""
    version = current()
    found = {f'{name}: {match[0].strip()}': match[2]
             for name, pattern in REPEATED.items() for match in pattern.finditer((ROOT / name).read_text())}
    match = TUPLE.search((ROOT / MODULE).read_text())
    if match is None or match[2] != as_tuple(version):
        found[f'{MODULE}: __version_tuple__'] = match[2] if match else 'missing'
    return [f'{place} is not {version}; run: python3 -m scripts.version --write'
            for place, other in found.items() if other != version]


def write() -> None:
    version = current()
    for name, pattern in REPEATED.items():
        text = pattern.sub(rf'\g<1>{version}', (ROOT / name).read_text())
        if name == MODULE:
            text = TUPLE.sub(rf'\g<1>{as_tuple(version)}', text)
        (ROOT / name).write_text(text)


def as_tuple(version: str) -> str:
    """`2.1.0rc1` as `(2, 1, '0rc1')`."""
    return f'({", ".join(part if part.isdigit() else repr(part) for part in version.split("."))})'


def release_problems(tag: str) -> list[str]:
    version, problems = current(), []
    if tag != f'v{version}':
        problems.append(f'the tag {tag} is not v{version}')
    headings = re.findall(r'(?m)^## (.+)$', (ROOT / 'CHANGELOG.md').read_text())
    entry = next((line for line in headings if line.split()[0] == version), 'none')
    if entry == 'none' or 'unreleased' in entry:
        problems.append(f'CHANGELOG.md has no entry for the release {version}: {entry}')
    return problems


if __name__ == '__main__':
    sys.exit(main())
