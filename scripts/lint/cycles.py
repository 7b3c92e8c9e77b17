"""No import cycles: in each crate, the modules directly in `src` form a directed acyclic graph, and so do the
folders inside of each folder. Only the files of one folder may use each other.

A module is a file `x.rs` together with its folder `x/`. Of each `use` and each path in the code, the rule finds
the module that it leads to, also through names that `lib.rs` or a parent module re-exports. The module that
contains others (`lib.rs`, `main.rs`, `x.rs` for `x/`) is no node itself: it only puts them together.
Tests are left out.
"""
from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Iterator

from scripts.lint.sources import Report, files, is_rust_test, rust_code, test_modules

#: The path of a module from the root of its crate: `('queue', 'state')` for `src/queue/state.rs`.
Module = tuple[str, ...]

USE = re.compile(r'\buse\s+([^;]+);')
PATH = re.compile(r'(?<![\w:])((?:crate|super|self)(?:\s*::\s*\w+)+)')


def check() -> Report:
    crates = [Crate(source) for source in find_crates()]
    folders, cycles, problems = 0, 0, []
    for crate in crates:
        for folder in crate.folders():
            folders += 1
            edges = crate.edges(folder)
            for cycle in find_cycles(edges):
                cycles += 1
                place = '/'.join((crate.source, *folder))
                problems.append(f'{place}: {describe(cycle.path, edges)}')
                if len(cycle.group) > len(cycle.path):
                    problems.append(f'{place}: these modules all reach each other: {", ".join(cycle.group)}')
    return Report(
        f'module cycles: {len(crates)} crates, {folders} folders, {sum(len(crate.modules) for crate in crates)} modules, '
        f'{cycles} cycles', problems)


def find_crates() -> list[str]:
    """The `src` folders of all crates of the workspace that have modules."""
    sources = {name.partition('/src/')[0] + '/src' for name in files('.rs', under=('crates/',)) if '/src/' in name}
    return sorted(source for source in sources if source.count('/') == 2)


@dataclasses.dataclass(frozen=True)
class Edge:
    """One reference from a module to a sibling."""

    source: str
    target: str
    #: The file with the reference, from the root of the repository, and what it refers to.
    file: str
    path: str


class Crate:
    def __init__(self, source: str) -> None:
        self.source = source
        self.modules: dict[Module, str] = {}
        names = [name for name in files('.rs', under=(f'{source}/',)) if not is_rust_test(name)]
        only_tests = {(*module_of(name, source), child) for name in names for child in test_modules(name)}
        for name in names:
            module = module_of(name, source)
            if not any(module[:length] in only_tests for length in range(1, len(module) + 1)):
                self.modules[module] = name

    def folders(self) -> list[Module]:
        """The modules with at least two others directly in them; the crate itself is the first."""
        parents = [module[:-1] for module in self.modules if module]
        return sorted({parent for parent in parents if parents.count(parent) > 1})

    def is_folder(self, module: Module) -> bool:
        return any(len(other) > len(module) and other[:len(module)] == module for other in self.modules)

    def edges(self, folder: Module) -> list[Edge]:
        depth, found = len(folder), []
        for module, name in self.modules.items():
            if len(module) <= depth or module[:depth] != folder:
                continue
            for path in self.references(module):
                target = self.resolve(path)
                if len(target) <= depth or target[:depth] != folder or target[depth] == module[depth]:
                    continue
                if not folder or (self.is_folder(module[:depth + 1]) and self.is_folder(target[:depth + 1])):
                    found.append(Edge(module[depth], target[depth], name, '::'.join(path)))
        return found

    @functools.cache  # noqa: B019 -- a crate lives as long as the process
    def references(self, module: Module) -> list[Module]:
        """All paths of a module's code that lead into its crate, from the root of the crate."""
        code = rust_code(self.modules[module])
        uses = [path for tree in USE.findall(code) for path, _ in expand(tree)]
        paths = uses + [re.sub(r'\s', '', path) for path in PATH.findall(USE.sub('', code))]
        return [absolute for path in paths if (absolute := self.absolute(path.split('::'), module)) is not None]

    def absolute(self, path: list[str], module: Module) -> Module | None:
        if path[0] == 'crate':
            return tuple(path[1:])
        if path[0] == 'self':
            return (*module, *path[1:])
        if path[0] == 'super':
            ups = next((index for index, part in enumerate(path) if part != 'super'), len(path))
            return (*module[:len(module) - ups], *path[ups:]) if ups <= len(module) else None
        # `use child::Name` in a module that contains others.
        return (*module, *path) if (*module, path[0]) in self.modules else None

    def resolve(self, path: Module, remaining: int = 8) -> Module:
        """The deepest module that a path leads to, through re-exports."""
        for length in range(len(path)):
            module, name = path[:length], path[length]
            if (*module, name) in self.modules:
                continue
            target = self.names(module).get(name) if module in self.modules else None
            if target is None or target == path or remaining == 0:
                return module
            return self.resolve((*target, *path[length + 1:]), remaining - 1)
        return path

    @functools.cache  # noqa: B019
    def names(self, module: Module) -> dict[str, Module]:
        """What a module has imported or re-exported, by name."""
        found = {}
        for tree in USE.findall(rust_code(self.modules[module])):
            for path, alias in expand(tree):
                absolute = self.absolute(path.split('::'), module)
                if absolute is not None:
                    found[alias or path.rpartition('::')[2]] = absolute
        return found


def module_of(name: str, source: str) -> Module:
    parts = pathlib.PurePosixPath(name).relative_to(source).with_suffix('').parts
    if parts[-1] == 'mod' or parts in (('lib',), ('main',)):
        return parts[:-1]
    return parts


def expand(tree: str) -> Iterator[tuple[str, str | None]]:
    """`crate::{a::X, b as c}` as `crate::a::X` and (`crate::b`, `c`)."""
    tree = re.sub(r'\s+as\s+', '@', tree.strip())
    tree = re.sub(r'\s', '', tree)
    head, brace, rest = tree.partition('{')
    if not brace:
        path, _, alias = tree.partition('@')
        yield path.removesuffix('::self').removesuffix('::*'), alias or None
        return
    for part in split_commas(rest.rpartition('}')[0]):
        for path, alias in expand(part.replace('@', ' as ')):
            yield f'{head}{path}'.removesuffix('::self'), alias


def split_commas(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += {'{': 1, '}': -1}.get(character, 0)
        if character == ',' and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part for part in [*parts, text[start:]] if part]


@dataclasses.dataclass(frozen=True)
class Cycle:
    """Modules that can all reach each other."""

    group: list[str]
    #: The shortest way from the first of them back to itself.
    path: list[str]


def find_cycles(edges: list[Edge]) -> list[Cycle]:
    targets: dict[str, set[str]] = {}
    for edge in edges:
        targets.setdefault(edge.source, set()).add(edge.target)
    cycles: list[Cycle] = []
    for start in sorted(targets):
        if any(start in cycle.group for cycle in cycles):
            continue
        if path := shortest_cycle(start, targets):
            group = [node for node in sorted(targets)
                     if is_reachable(start, node, targets) and is_reachable(node, start, targets)]
            cycles.append(Cycle(group, path))
    return cycles


def shortest_cycle(start: str, targets: dict[str, set[str]]) -> list[str] | None:
    paths, seen = [[start]], {start}
    for path in paths:
        for target in sorted(targets.get(path[-1], ())):
            if target == start:
                return [*path, start]
            if target not in seen:
                seen.add(target)
                paths.append([*path, target])
    return None


def is_reachable(start: str, end: str, targets: dict[str, set[str]]) -> bool:
    seen, waiting = set(), [start]
    while waiting:
        node = waiting.pop()
        for target in targets.get(node, ()):
            if target == end:
                return True
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return False


def describe(cycle: list[str], edges: list[Edge]) -> str:
    steps = []
    for source, target in itertools.pairwise(cycle):
        edge = next(edge for edge in edges if (edge.source, edge.target) == (source, target))
        steps.append(f'{source} -> {target} ({edge.file} uses {edge.path})')
    return ', '.join(steps)
