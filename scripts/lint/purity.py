"""Pure code stays pure: `kopf-object` and `kopf-reaction` do no I/O and know no clock; `kopf-engine` takes time and
randomness from `clock.rs` alone.
"""
from __future__ import annotations

import re

from scripts.lint.sources import Report, files, is_rust_test, line_of, rust_code

PURE = ('crates/kopf-object/src/', 'crates/kopf-reaction/src/')
IMPURE = re.compile(
    r'\bstd::(?:time::(?:SystemTime|Instant)|fs|net|thread|process|env)\b'
    r'|\bTimestamp::now\b|\bZoned::now\b|\basync\s+fn\b|\.await\b')

TIMED = ('crates/kopf-engine/src/',)
CLOCK = 'clock.rs'
TIME = re.compile(r'\bSystemTime::now\b|\bInstant::now\b|\bTimestamp::now\b|\btokio::time::(?:sleep|timeout)\b|\brand::')


def check() -> Report:
    pure = [name for name in files('.rs', under=PURE) if not is_rust_test(name)]
    timed = [name for name in files('.rs', under=TIMED) if not is_rust_test(name) and not name.endswith(f'/{CLOCK}')]
    problems = [f'{name}:{line_of(code, match.start())}: {match[0]}: {remedy}'
                for names, pattern, remedy in ((pure, IMPURE, 'pure code gets this as an argument'),
                                               (timed, TIME, f'take it from {CLOCK}'))
                for name in names
                for code in (rust_code(name),)
                for match in pattern.finditer(code)]
    return Report(f'purity: {len(pure)} pure files, {len(timed)} files without a clock, {len(problems)} violations', problems)
