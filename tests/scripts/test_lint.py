"""Each rule of `scripts/lint` accepts a clean repository, and finds a violation planted in it."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

ENGINE = 'crates/kopf-engine/src'
TEST = '#[cfg(test)]\nmod tests { use crate::worker; }\n'
VERSION = "__version__ = '1.0.0'\n__version_tuple__: tuple[int, ...] = (1, 0, 0)\n"

CLEAN = {
    'Cargo.toml': '[workspace.package]\nversion = "1.0.0"\n',
    'clippy.toml': 'too-many-arguments-threshold = 6\n',
    'README.md': '# Title\n\n[Title](#title), [code](crates) and `crates/kopf-engine`.\n',
    f'{ENGINE}/lib.rs': 'pub mod queue;\npub mod worker;\npub use queue::Queue;\n',
    f'{ENGINE}/queue.rs': 'mod entry;\npub struct Queue;\n',
    f'{ENGINE}/queue/entry.rs': '// A word in a comment is no code: crate::worker\n',
    f'{ENGINE}/worker.rs': 'use crate::{Queue, queue};\n' + TEST,
    'crates/kopf-object/src/lib.rs': '//! Pure.\n',
    'python/kopf/_version.py': VERSION,
    'python/kopf/_webhooks/reviews.py': 'addresses = asyncio.Queue()\n',
    'python/kopf/_call/threads.py': 'waiting = deque()\n',
}

#: rule: (the file, or 21 files if there is a placeholder; what is appended; what the rule says)
PLANTED = {
    'cycles': [
        (f'{ENGINE}/queue.rs', 'use crate::worker;\n', 'queue -> worker'),
        (f'{ENGINE}/queue/entry.rs', 'fn f() { super::super::worker::run() }\n', 'queue -> worker'),
    ],
    'purity': [('crates/kopf-object/src/lib.rs', 'fn f() { std::fs::read("x"); }\n', 'std::fs')],
    'queues': [
        (f'{ENGINE}/queue.rs', 'fn f() { mpsc::unbounded_channel(); }\n', 'unbounded_channel'),
        ('python/kopf/on.py', 'queue = asyncio.Queue()\n', 'asyncio.Queue()'),
    ],
    'parameters': [
        (
            f'{ENGINE}/queue.rs',
            '#[allow(clippy::too_many_arguments)]\nfn f() {}\n',
            'into a struct',
        ),
    ],
    'sizes': [('tests/many/{}.py', '\n', 'tests/many: 21 files')],
    'words': [
        ('README.md', 'The gatekeeper.\n', '"gatekeeper"; say'),
        (f'{ENGINE}/queue.rs', 'struct ApiGatekeeper;\n', '"gatekeeper"; say'),
    ],
    'links': [
        ('README.md', '[gone](docs/gone.md)\n', 'docs/gone.md leads nowhere'),
        ('README.md', '[gone](#gone)\n', 'no heading for #gone'),
        ('README.md', '`crates/gone.rs`\n', '`crates/gone.rs` does not exist'),
    ],
    'versions': [('Cargo.toml', 'kopf = { path = "x", version = "1.1.0" }\n', 'is not 1.0.0')],
}


@pytest.fixture()
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(
        REPOSITORY / 'scripts', tmp_path / 'scripts', ignore=shutil.ignore_patterns('__pycache__')
    )
    for name, text in CLEAN.items():
        plant(tmp_path, name, text)
    subprocess.run(['git', 'init', '--quiet', str(tmp_path)], check=True)
    return tmp_path


def plant(repository: pathlib.Path, name: str, text: str) -> None:
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('a') as file:
        file.write(text)


def run(repository: pathlib.Path, rule: str) -> tuple[int, str]:
    answer = subprocess.run(
        [sys.executable, '-m', 'scripts.lint', rule], cwd=repository, capture_output=True, text=True
    )
    return answer.returncode, answer.stdout + answer.stderr


@pytest.mark.parametrize('rule', PLANTED)
def test_a_clean_repository_passes(repository: pathlib.Path, rule: str) -> None:
    assert run(repository, rule)[0] == 0, run(repository, rule)[1]


@pytest.mark.parametrize(
    'rule, name, text, message',
    [(rule, *planted) for rule, cases in PLANTED.items() for planted in cases],
)
def test_a_planted_violation_is_found(
    repository: pathlib.Path, rule: str, name: str, text: str, message: str
) -> None:
    for number in range(21):
        if '{}' in name or number == 0:
            plant(repository, name.format(number), text)
    code, output = run(repository, rule)
    assert code == 1 and message in output, output
