"""Which files the rules look at, and their text without comments and tests. Used by all rules."""
from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Report:
    """What one rule has to say."""

    #: One line: what was looked at, and how much of it.
    summary: str
    #: One line per violation, with the file, the line if there is one, and the remedy.
    problems: list[str]


@functools.cache
def tracked() -> tuple[str, ...]:
    """All files of the repository, also those that are not committed yet, as paths from its root."""
    listing = subprocess.run(
        ['git', 'ls-files', '--cached', '--others', '--exclude-standard'],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(name for name in sorted(set(listing.splitlines())) if (ROOT / name).is_file())


def files(*suffixes: str, under: tuple[str, ...] = ('',)) -> list[str]:
    return [name for name in tracked() if name.endswith(suffixes) and name.startswith(under)]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding='utf-8')


def is_rust_test(name: str) -> bool:
    """Whether the whole file is a test, by its place or its name."""
    parts = pathlib.PurePosixPath(name).parts
    return 'tests' in parts or parts[-1] in ('tests.rs',) or parts[-1].endswith(('_tests.rs', '_test.rs'))


#: Everything that may hide what looks like code: comments, strings, characters.
NOT_CODE = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|\bb?r(#*)".*?"\1'
    r'|"(?:\\.|[^"\\])*"'
    r"|'(?:\\(?:u\{[0-9a-fA-F]+\}|.)|[^'\\\n])'",
    re.DOTALL)

#: An item that exists in tests only; its body ends at the brace that matches.
TEST_ITEM = re.compile(r'#\[cfg\((?:test|all\(test[^)]*\)|any\(test[^)]*\))\)\]')


@functools.cache
def rust_code(name: str) -> str:
    """The code of a Rust file without comments, strings and tests; the lines stay where they were."""
    code = NOT_CODE.sub(lambda match: blank(match[0]), read(name))
    while match := TEST_ITEM.search(code):
        end = end_of_item(code, match.end())
        code = code[:match.start()] + blank(code[match.start():end]) + code[end:]
    return code


def test_modules(name: str) -> list[str]:
    """The modules that the file declares for tests: `#[cfg(test)] mod fakes;`."""
    code = NOT_CODE.sub(lambda match: blank(match[0]), read(name))
    return re.findall(r'#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;', code)


def blank(text: str) -> str:
    return re.sub(r'[^\n]', ' ', text)


def end_of_item(code: str, start: int) -> int:
    """Where the item after an attribute ends: at its semicolon, or at its closing brace."""
    depth = 0
    for match in re.finditer(r'[{};]', code[start:]):
        if match[0] == '{':
            depth += 1
        elif match[0] == '}':
            depth -= 1
        if depth <= 0:
            return start + match.end()
    return len(code)


def line_of(text: str, position: int) -> int:
    return text.count('\n', 0, position) + 1
