"""Every queue has a bound: production code uses no channel and no queue that grows without a limit.

A queue that is bounded by other means is in the list below, with the reason why it cannot grow.
"""
from __future__ import annotations

import io
import re
import tokenize

from scripts.lint.sources import Report, files, is_rust_test, line_of, read, rust_code

RUST = re.compile(
    r'\bunbounded(?:_channel)?(?:::<[^>]*>)?\s*\('
    r'|\bUnbounded(?:Sender|Receiver)\b'
    r'|\bmpsc::channel(?:::<[^>]*>)?\(\s*\)')
PYTHON = re.compile(
    r'\b(?:asyncio|queue|multiprocessing)\.(?:Lifo|Priority)?Queue\(\s*\)'
    r'|\bSimpleQueue\('
    r'|\bdeque\(\s*\)')

#: file: why its queue cannot grow without a limit.
BOUNDED_BY_OTHER_MEANS: dict[str, str] = {
    'python/kopf/_webhooks/reviews.py': 'a server announces its address once, and at most one failure after it',
    'python/kopf/_call/threads.py': 'calls that wait for a thread; the engine limits how many calls are under way',
}


def check() -> Report:
    rust = [name for name in files('.rs', under=('crates/',)) if '/src/' in name and not is_rust_test(name)]
    python = files('.py', under=('python/kopf/',))
    problems, excused = [], set()
    for name, code, pattern in [*((name, rust_code(name), RUST) for name in rust),
                                *((name, python_code(name), PYTHON) for name in python)]:
        for match in pattern.finditer(code):
            if name in BOUNDED_BY_OTHER_MEANS:
                excused.add(name)
            else:
                problems.append(f'{name}:{line_of(code, match.start())}: {match[0].strip()}: give it a bound')
    problems += [f'scripts/lint/queues.py: {name} has no such queue any more; remove its exception'
                 for name in BOUNDED_BY_OTHER_MEANS if name not in excused]
    return Report(
        f'unbounded queues: {len(rust)} Rust and {len(python)} Python files, {len(excused)} exceptions, '
        f'{len(problems)} unbounded', problems)


def python_code(name: str) -> str:
    """The code without comments and strings; the lines stay where they were."""
    text = read(name)
    lines = text.split('\n')
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            (first, start), (last, end) = token.start, token.end
            for number in range(first, last + 1):
                line = lines[number - 1]
                left = start if number == first else 0
                right = end if number == last else len(line)
                lines[number - 1] = line[:left] + ' ' * (right - left) + line[right:]
    return '\n'.join(lines)
