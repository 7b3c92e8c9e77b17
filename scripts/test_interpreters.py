"""Runs the tests of the Python front, and those of operators on the embedded cluster, on several interpreters.

Called by `make test-interpreters`, which builds the wheel before. Each interpreter gets an environment of its own with
the wheel and the test packages. The tests of the front run in it; the tests of operators run here, as they need
upstream's kopf, too, and only start their operators there. The exit code tells whether all tests have passed wherever they could run; those
interpreters which are not on this machine are named, and it is an error if there is none.
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

#: What is for building and checking, not for testing.
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
    """In a few words: what has come of it."""
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
    """Its environment, with the wheel of this build."""
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
