"""No broken links in the documents: files, folders and headings that they link to, and paths in backticks, exist.

Links to other sites are not followed. `cargo doc` checks the links between the items of the crates.
"""
from __future__ import annotations

import functools
import pathlib
import re
import urllib.parse

from scripts.lint.sources import ROOT, Report, files, line_of, read

LINK = re.compile(r'(?<!!)\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|!\[[^\]]*\]\(([^)\s]+)\)')
REFERENCE = re.compile(r'(?m)^\[[^\]]+\]:\s*(\S+)')
PATH = re.compile(r'`((?:crates|python|tests|examples|scripts|docs|benches|\.github)/[\w./-]+)`')
FENCE = re.compile(r'(?ms)^( *)(```|~~~).*?^\1\2[ \t]*$')
HEADING = re.compile(r'(?m)^#{1,6} +(.+?)(?: +#+)?$')
ANCHOR = re.compile(r'<a (?:id|name)="([^"]+)"')


def check() -> Report:
    documents = files('.md')
    links = paths = 0
    problems = []
    for name in documents:
        text = without_fences(read(name))
        for match in [*LINK.finditer(text), *REFERENCE.finditer(text)]:
            target = next(group for group in match.groups() if group)
            if urllib.parse.urlsplit(target).scheme:
                continue
            links += 1
            if problem := broken(name, target):
                problems.append(f'{name}:{line_of(text, match.start())}: {problem}')
        for match in PATH.finditer(text):
            paths += 1
            # What stands for a name is in capitals, as in benches/results/DATE.
            if not (ROOT / match[1]).exists() and not match[1].rpartition('/')[2].isupper():
                problems.append(f'{name}:{line_of(text, match.start())}: `{match[1]}` does not exist')
    return Report(
        f'documentation links: {len(documents)} documents, {links} links, {paths} paths, {len(problems)} broken',
        problems)


def broken(document: str, target: str) -> str | None:
    path, _, anchor = target.partition('#')
    found = ROOT / document
    if path:
        base = ROOT if path.startswith('/') else found.parent
        found = base / urllib.parse.unquote(path.lstrip('/'))
        if not found.exists():
            return f'the link to {target} leads nowhere'
    if anchor and found.suffix == '.md' and anchor not in anchors(found):
        return f'{found.name} has no heading for #{anchor}'
    return None


@functools.cache
def anchors(document: pathlib.Path) -> set[str]:
    """The anchors that GitHub makes of the headings, and those that are written out."""
    text = document.read_text(encoding='utf-8')
    found: dict[str, int] = {}
    slugs = set(ANCHOR.findall(text))
    for heading in HEADING.findall(without_fences(text)):
        slug = slug_of(heading)
        count = found.get(slug, 0)
        found[slug] = count + 1
        slugs.add(f'{slug}-{count}' if count else slug)
    return slugs


def slug_of(heading: str) -> str:
    heading = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading)
    return re.sub(r'[^\w\- ]', '', heading.strip().lower()).replace(' ', '-')


def without_fences(text: str) -> str:
    """The same text with examples blanked; the lines stay where they were."""
    return FENCE.sub(lambda match: '\n' * match[0].count('\n'), text)
