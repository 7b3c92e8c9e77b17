"""Keeps the normalised answers of the real server, so that ours can be compared without one.

Beside them are the names of the requests that are known to be answered differently. Both files are
written by ``python -m tests.conformance`` and read by test_recorded.py.
"""

from __future__ import annotations

import gzip
import json
import pathlib
from collections.abc import Iterable

from .running import Answers, Result
from .scenario import Scenario

RECORDED = pathlib.Path(__file__).with_name('recorded') / 'answers.json.gz'
KNOWN = RECORDED.with_name('known.txt')


class StaleRecording(Exception):
    """The corpus has changed since the recording."""


class Recording:
    """The answers by scenario, with a digest of what was asked."""

    def __init__(self, answers: dict[str, tuple[str, Answers]]) -> None:
        self._answers = answers

    @classmethod
    def load(cls, path: pathlib.Path = RECORDED) -> Recording:
        with gzip.open(path, 'rt', encoding='utf-8') as file:
            stored = json.load(file)
        return cls({key: (digest, answers) for key, (digest, answers) in stored.items()})

    @classmethod
    def empty(cls) -> Recording:
        return cls({})

    def save(self, path: pathlib.Path = RECORDED) -> None:
        path.parent.mkdir(exist_ok=True)
        text = json.dumps(self._answers, sort_keys=True, separators=(',', ':'))
        # Without a time in it, the same answers make the same file.
        path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))

    def add(self, scenario: Scenario, answers: Answers) -> None:
        self._answers[scenario.key] = (scenario.digest, answers)

    def update(self, newer: Recording) -> None:
        """Takes over the answers of another recording."""
        self._answers.update(newer._answers)

    def answers(self, scenario: Scenario) -> Answers:
        digest, answers = self._answers.get(scenario.key, ('', []))
        if digest != scenario.digest:
            raise StaleRecording(
                f'{scenario.key}: the recording is of other steps. '
                'Run: make conformance (it records, too)'
            )
        return answers


def save_known(results: Iterable[Result], path: pathlib.Path = KNOWN) -> None:
    path.write_text(''.join(f'{result.key}\n' for result in results if result.unexplained))


def load_known(path: pathlib.Path = KNOWN) -> set[str]:
    return set(path.read_text().splitlines())
