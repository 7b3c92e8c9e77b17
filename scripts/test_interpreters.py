"""Runs the tests of the Python front, and those of operators on the embedded cluster, on several interpreters.

`make test-interpreters` builds the wheel and calls it. Each interpreter gets its own environment with the wheel and
the test packages. The tests of the Python front run in that environment. The tests of operators run in this one, as
they need upstream's kopf, too, and only start their operators there. The script skips and names the interpreters that
are not on this machine; it fails if there is none, or if any test fails.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).parents[1]
FOLDER = REPOSITORY / 'target' / 'interpreters'

#: The requirements for building and checking, which the tests do not need.
TOOLS = ('setuptools', 'ruff', 'pyright', 'mypy')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('interpreters', nargs='+', help='names in $PATH, or paths')
    args = parser.parse_args()
    results = {name: test(name) for name in args.interpreters}
    print()
    for name, result in results.items():
        print(f'{name}: {result}')
    tested = [result for result in results.values() if result != 'absent']
    return 0 if tested and all(result.startswith('passed') for result in tested) else 1


def test(name: str) -> str:
    """Test one interpreter; the result in a few words."""
    found = shutil.which(name)
    # Shims of version managers are found, but they do not run unless the version is chosen.
    version = found and subprocess.run([found, '-V'], capture_output=True, text=True)
    if not found or not version or version.returncode != 0:
        return 'absent'
    python = prepare(found)
    suites = {'tests/python': python, 'tests/operators': sys.executable}
    failed = [suite for suite, runner in suites.items() if not run(runner, suite, python)]
    label = version.stdout.strip()
    return f'failed in {", ".join(failed)} ({label})' if failed else f'passed ({label})'


def prepare(interpreter: str) -> str:
    """Make an environment with the wheel of this build; return its interpreter."""
    folder = FOLDER / pathlib.Path(interpreter).name
    subprocess.run([interpreter, '-m', 'venv', '--clear', str(folder)], check=True)
    python = str(folder / 'bin' / 'python')
    requirements = folder / 'requirements.txt'
    lines = (REPOSITORY / 'requirements-dev.txt').read_text().splitlines()
    requirements.write_text('\n'.join(line for line in lines if not line.startswith(TOOLS)))
    wheels = [str(wheel) for wheel in (FOLDER / 'wheels').glob('*.whl')]
    command = [python, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check']
    subprocess.run([*command, '-r', str(requirements), *wheels], check=True)
    return python


def run(runner: str, suite: str, python: str) -> bool:
    print(f'== {python}: {suite}', flush=True)
    environment = {**os.environ, 'KOPF_PYTHON': python, 'KOPF_TEST_CLUSTER': 'embedded'}
    answer = subprocess.run([runner, '-m', 'pytest', '-q', suite], cwd=REPOSITORY, env=environment)
    return answer.returncode == 0


if __name__ == '__main__':
    sys.exit(main())
