"""One word per concept: the words that this project has given up, with those that it uses instead.

A word counts wherever it stands: in prose, in names of files, in strings, and as a part of an identifier
(`spy` in `spy_handler` and `SpyHandler`, but not in `crispy`). Kubernetes' words come first, then those of
kopf 1.45, then those of Rust; the glossary in ARCHITECTURE.md has the ones to use.
"""
from __future__ import annotations

import dataclasses
import re

from scripts.lint.sources import Report, line_of, read, tracked


@dataclasses.dataclass(frozen=True)
class Word:
    #: What to say instead.
    instead: str
    #: The files (by the beginnings of their paths) where the word is legitimate; say why in a comment.
    except_in: tuple[str, ...] = ()


#: Words and phrases. The words of a phrase may be on two lines, or parts of one identifier (`head_start`).
WORDS: dict[str, Word] = {
    'spy': Word('event handler'),
    'spies': Word('event handlers'),
    'companion': Word('object tasks'),
    'companions': Word('object tasks'),
    'accompany': Word('object tasks'),
    'nudge': Word('requeue'),
    'nudged': Word('requeued'),
    'nudges': Word('requeues'),
    'glimpse': Word('parse_partial'),
    'head start': Word('prefetch'),
    'foresee': Word('prefetch'),
    'whereabouts': Word('location'),
    'surroundings': Word('context, dependencies'),
    'anew': Word('again'),
    'oneself': Word('own peer'),
    'seat': Word('permit'),
    'seats': Word('permits'),
    'lane': Word('FIFO, queue'),
    'lanes': Word('FIFOs, queues'),
    # The value of a label on the metrics page, which dashboards know.
    # The reason `SchedulingGated` is Kubernetes'.
    'gated': Word('blocked', except_in=(
        'crates/kopf-engine/src/metrics/page.rs', 'docs/monitoring.md', 'crates/kopf-cluster/src/builtin/kinds/pods.rs')),
    'praise': Word('mark_healthy'),
    'littered': Word('stale'),
    'relieved': Word('has capacity'),
    'theatre': Word('simulation'),
    'switchboard': Word('say what it is'),
    'ledger': Word('say what it is'),
    'shelf': Word('say what it is'),
    'agenda': Word('schedule, pending calls'),
    'judge': Word('SelectorCallbacks, decision'),
    'verdict': Word('decision'),
    'gatekeeper': Word('API proxy'),
    'brake': Word('delay of own updates'),
    'braked': Word('delayed'),
    'ghost': Word('object that is gone'),
    'whoever': Word('name the actor'),
    'so many': Word('this many, the number'),
    'is told': Word('name who logs or reports it'),
    'are told': Word('name who logs or reports it'),
    'what came of it': Word('the outcome'),
    'what has come of it': Word('the outcome'),
    'gives whether': Word('returns whether'),
    'by text': Word('by comparing raw JSON'),
    'carry out': Word('do, execute'),
    'scene': Word('change, cause'),
    'scenes': Word('changes, causes'),
    'settle': Word('finish, classify, normalize'),
    'settles': Word('finishes'),
    'settled': Word('up to date, finished'),
    'settling': Word('finishing'),
    'news': Word('pending event'),
    'pulse': Word('ping'),
    'crowd': Word('saturated, many'),
    'spill': Word('compressed or shortened essence'),
    'keeper': Word('say what it keeps'),
    'odd': Word('unsupported'),
    'told': Word('logged, reported, notified'),
    'tries': Word('attempts'),
    'waiting room': Word('queue'),
    'bars': Word('targets'),
    'accompanied': Word('has object tasks'),
    'resting': Word('idle'),
    'rests': Word('is idle'),
    'at rest': Word('idle'),
    'of its own': Word('its own, separate'),
    'as it is': Word('unchanged'),
    'there is nothing to': Word('name what is not there'),
    'is asked': Word('name who asks'),
}


#: Data that others have written, or that must stay as it was recorded.
DATA = (
    'crates/kopf-cluster/data/',
    'tests/conformance/corpus/',
    'tests/conformance/recorded/',
    'benches/results/',
    'Cargo.lock',
    'benches/peers/kube-rs/Cargo.lock',
)
#: This file has them all, and its test plants some.
THIS = ('scripts/lint/words.py', 'tests/scripts/test_lint.py')
TEXTS = ('.rs', '.py', '.pyi', '.md', '.toml', '.yml', '.yaml', '.sh', '.txt', 'Makefile', 'run')

#: The parts of identifiers and the words of prose: `HTTPServer_name` is http, server, name.
PART = re.compile(r'[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+')
#: Between the words of a phrase: blanks, or the end of a line with the comment sign of the next one; or nothing but
#: an underscore, in identifiers.
GAP = r'(?:_?|\s+(?:(?://[/!]?|#:?|\*)\s+)?)'


def check() -> Report:
    texts = [name for name in tracked() if name.endswith(TEXTS) and not name.startswith(DATA) and name not in THIS]
    phrases = {word: re.compile(rf'(?<![A-Za-z]){GAP.join(word.split())}(?![a-z])', re.IGNORECASE) for word in WORDS if ' ' in word}
    problems = []
    for name in texts:
        text = read(name)
        found = [(position, word) for position, word in single_words(f'{text}\n{name}')]
        found += [(match.start(), word) for word, pattern in phrases.items() for match in pattern.finditer(text)]
        for position, word in sorted(found):
            if name.startswith(WORDS[word].except_in or ('\n',)):
                continue
            line = line_of(text, position) if position < len(text) else 'its name'
            problems.append(f'{name}:{line}: "{word}"; say: {WORDS[word].instead}')
    return Report(f'forbidden words: {len(texts)} files, {len(WORDS)} words, {len(problems)} uses', problems)


def single_words(text: str) -> list[tuple[int, str]]:
    return [(match.start(), word) for match in PART.finditer(text) if (word := match[0].lower()) in WORDS]
