"""Resources that the cluster has (`Resource`), and that handlers select (`Selector`).

The engine matches selectors with the resources that it discovers. This module parses selectors from
the arguments of decorators, describes them to the engine, and evaluates those with a callback.
"""
from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

NamespacePattern = str | re.Pattern[str]
NamespaceName = str
Namespace = str | None

# 'plural.version' or 'plural.version.group', where the version looks like those of Kubernetes.
_VERSIONED_NAME = re.compile(r'(?P<name>[^.]*)\.(?P<version>v\d+(?:(?:alpha|beta)\d+)?)'
                             r'(?:\.(?P<group>.*))?')


class Resource:
    """One resource of the API, such as `pods`. Two resources with the same API path are equal."""

    __slots__ = ('categories', 'group', 'kind', 'namespaced', 'plural', 'preferred', 'shortcuts',
                 'singular', 'subresources', 'verbs', 'version')

    def __init__(
            self,
            group: str,
            version: str,
            plural: str,
            kind: str | None = None,
            singular: str | None = None,
            shortcuts: frozenset[str] = frozenset(),
            categories: frozenset[str] = frozenset(),
            subresources: frozenset[str] = frozenset(),
            namespaced: bool | None = None,
            preferred: bool = True,
            verbs: frozenset[str] = frozenset(),
    ) -> None:
        self.group = group
        self.version = version
        self.plural = plural
        self.kind = kind
        self.singular = singular
        self.shortcuts = shortcuts
        self.categories = categories
        self.subresources = subresources
        self.namespaced = namespaced
        self.preferred = preferred
        self.verbs = verbs

    @classmethod
    def _from_json(cls, data: dict[str, Any]) -> Resource:
        sets = {'shortcuts', 'categories', 'subresources', 'verbs'}
        fields: dict[str, Any] = {name: data[name] for name in cls.__slots__ if name in data}
        fields.update((name, frozenset(fields.get(name) or ())) for name in sets)
        return cls(**fields)

    @property
    def name(self) -> str:
        return f'{self.plural}.{self.group}'.strip('.')

    @property
    def api_version(self) -> str:
        return f'{self.group}/{self.version}'.strip('/')

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resource):
            return tuple(self) == tuple(other)
        return NotImplemented

    def __iter__(self) -> Iterator[str]:
        return iter((self.group, self.version, self.plural))

    def __repr__(self) -> str:
        plural, *rest = self.plural.split('/')
        return '/'.join([f'{plural}.{self.version}.{self.group}'.strip('.'), *rest])

    def get_url(
            self,
            *,
            server: str | None = None,
            namespace: Namespace = None,
            name: str | None = None,
            subresource: str | None = None,
            params: dict[str, str] | None = None,
    ) -> str:
        """The URL of the resource, or of one object of it, in the API."""
        if subresource is not None and name is None:
            raise ValueError("A subresource is a part of one object: its name is needed.")
        if namespace is not None and not self.namespaced:
            raise ValueError("A cluster-scoped resource has no namespaces.")
        if namespace is None and name is not None and self.namespaced:
            raise ValueError("An object of a namespaced resource needs its namespace.")
        root = '/api' if (self.group, self.version) == ('', 'v1') else '/apis'
        place = ('namespaces', namespace) if namespace is not None else ()
        parts = (root, self.group, self.version, *place, self.plural, name, subresource)
        url = '/'.join(part for part in parts if part)
        if params:
            import urllib.parse
            url += '?' + urllib.parse.urlencode(params, encoding='utf-8')
        return url if server is None else f'{server.rstrip("/")}{url}'


class Marker(enum.Enum):
    """Special values in place of the names of resources."""

    EVERYTHING = enum.auto()


EVERYTHING = Marker.EVERYTHING


class Selector:
    """The resources that a handler is interested in.

    Positional arguments are those of the decorators: a name; a group and a name; a group,
    a version and a name; or a function that decides about each resource.
    """

    __slots__ = ('any_name', 'category', 'fn', 'group', 'kind', 'plural', 'shortcut', 'singular',
                 'version')

    def __init__(
            self,
            arg1: str | Marker | Callable[[Resource], bool] | None = None,
            arg2: str | Marker | None = None,
            arg3: str | Marker | None = None,
            argN: None = None,  # noqa: N803
            *,
            group: str | None = None,
            version: str | None = None,
            kind: str | None = None,
            plural: str | None = None,
            singular: str | None = None,
            shortcut: str | None = None,
            category: str | None = None,
            any_name: str | Marker | None = None,
            fn: Callable[[Resource], bool] | None = None,
    ) -> None:
        self.group = group
        self.version = version
        self.kind = kind
        self.plural = plural
        self.singular = singular
        self.shortcut = shortcut
        self.category = category
        self.any_name = any_name
        self.fn = fn
        self._parse([arg for arg in (arg1, arg2, arg3, argN) if arg is not None])
        self._verify()

    def _parse(self, args: list[Any]) -> None:
        if args and callable(args[0]):
            if len(args) > 1:
                raise TypeError("A callable selects the resources alone, with no other arguments.")
            self.fn = args[0]
        elif len(args) > 3:
            raise TypeError("A resource is specified by at most three positional arguments.")
        elif len(args) == 3:
            self.group, self.version, self.any_name = args
        elif len(args) == 2:
            first, self.any_name = args
            if isinstance(first, str) and '/' in first:
                self.group, self.version = first.rsplit('/', 1)
            elif first == 'v1':
                self.group, self.version = '', first
            else:
                self.group = first
        elif len(args) == 1:
            self.any_name = args[0]
            if isinstance(args[0], str):
                versioned = _VERSIONED_NAME.fullmatch(args[0])
                if versioned is not None:
                    self.any_name, self.version = versioned['name'], versioned['version']
                    if versioned['group'] is not None:
                        self.group = versioned['group']
                elif '.' in args[0]:
                    self.any_name, self.group = args[0].split('.', 1)

    def _verify(self) -> None:
        names = [self.kind, self.plural, self.singular, self.shortcut, self.category,
                 self.any_name, self.fn]
        given = [name for name in names if name is not None]
        if '' in given:
            raise TypeError("The name of a resource must not be an empty string.")
        if len(given) > 1:
            raise TypeError(f"Ambiguous resource specification with {given}: one name is enough.")
        if not given:
            raise TypeError("Unspecific resource: no name is given.")

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in (
            'group', 'version', 'kind', 'plural', 'singular', 'shortcut', 'category', 'any_name',
            'fn'))
        text = ', '.join(f'{name}={value!r}' for name, value in given if value is not None)
        return f'Selector({text})'

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Selector):
            return self._key() == other._key()
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def is_specific(self) -> bool:
        """Whether it names one resource, rather than a group of them."""
        names = (self.kind, self.plural, self.singular, self.shortcut)
        named = any(name is not None for name in names)
        return named or isinstance(self.any_name, str)

    def check(self, resource: Resource) -> bool:
        """Whether it selects the resource."""
        if self.group is not None and self.group != resource.group:
            return False
        if self.version is not None and self.version != resource.version:
            return False
        if self.version is None and self.fn is None and not resource.preferred:
            return False
        if self.fn is not None:
            return not _is_event(resource) and bool(self.fn(resource))
        if self.any_name is Marker.EVERYTHING:
            return not _is_event(resource)
        return (
            (self.kind is None or self.kind == resource.kind) and
            (self.plural is None or self.plural == resource.plural) and
            (self.singular is None or self.singular == resource.singular) and
            (self.category is None or self.category in resource.categories) and
            (self.shortcut is None or self.shortcut in resource.shortcuts) and
            (self.any_name is None or
             self.any_name in (resource.kind, resource.plural, resource.singular) or
             self.any_name in resource.shortcuts)
        )

    def select(self, resources: Collection[Resource]) -> Collection[Resource]:
        """The selected resources; the core ones win if several have the same specific name."""
        selected = {resource for resource in resources if self.check(resource)}
        if self.is_specific:
            return {resource for resource in selected if resource.group == ''} or selected
        return selected


def describe(selector: Selector | None) -> dict[str, Any] | None:
    """The form of a selector in handler declarations."""
    if selector is None:
        return None
    everything = selector.any_name is Marker.EVERYTHING
    return {
        'group': selector.group,
        'version': selector.version,
        'kind': selector.kind,
        'plural': selector.plural,
        'singular': selector.singular,
        'shortcut': selector.shortcut,
        'category': selector.category,
        'any_name': None if everything else selector.any_name,
        'everything': everything,
        'callback': selector.fn is not None,
    }


def describe_namespace(pattern: NamespacePattern) -> str | dict[str, str]:
    """The form of a namespace pattern in the configuration of the engine."""
    return {'regex': pattern.pattern} if isinstance(pattern, re.Pattern) else pattern


def match_namespace(name: str, pattern: NamespacePattern) -> bool:
    """Whether the namespace matches the pattern: globs, joined by commas, negated by `!`."""
    if isinstance(pattern, re.Pattern):
        return pattern.fullmatch(name) is not None
    import fnmatch
    globs = [glob.strip() for glob in pattern.split(',')]
    if globs[0].startswith('!'):
        globs.insert(0, '*')
    included = matches = fnmatch.fnmatch(name, globs[0])
    for glob in globs[1:]:
        if glob.startswith('!'):
            matches = matches and not fnmatch.fnmatch(name, glob.lstrip('!'))
        else:
            matches = matches or (included and fnmatch.fnmatch(name, glob))
    return matches


def select_specific_namespaces(patterns: Iterable[NamespacePattern]) -> Collection[str]:
    """Those of the patterns that are names of namespaces."""
    return {
        pattern for pattern in patterns
        if isinstance(pattern, str) and not set(pattern) & set('!*?,')
    }


def _is_event(resource: Resource) -> bool:
    # Posting an event about an event would never end.
    return resource.plural == 'events' and resource.group in ('', 'events.k8s.io')
