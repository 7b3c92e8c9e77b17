#!/usr/bin/env python3
"""
The structs that a Kubernetes server keeps objects in, read from its Go sources.

Some refusals quote them: with the names of Go, and all of their fields. capture_api.py puts the
result into the archive of the embedded cluster, under the name `structs`:

    {"PodSpec": [["Volumes", "volumes", "[@Volume"], …], …}

The first item is the name in Go, empty for the fields of an embedded struct; the second the name in
objects. The third is the type: `s` text, `i` integer, `b` boolean, `d` float, `Q` quantity, `L` label selector,
`M` the metadata of an object, `J` what is shown as in objects, `@…` a struct, `[…` a list, `{…` a mapping,
`*…` a pointer.
"""
import pathlib
import re

from capture_protobuf import PLAIN, without_comments

ROOTS = ['PodTemplateSpec', 'PersistentVolumeClaimSpec', 'PersistentVolumeSource']
SPECIAL = {'resource.Quantity': 'Q', 'metav1.LabelSelector': 'L', 'metav1.ObjectMeta': 'M', 'types.UID': 's'}
STRUCT = re.compile(r'^type (\w+) struct \{\n(.*?)^\}', re.M | re.S)
ALIAS = re.compile(r'^type (\w+) ((?!struct|interface|func)[^\n{]+)$', re.M)
FIELD = re.compile(r'^\s*(?:(\w+)[ \t]+)?([^\s`]+)[ \t]*(?:`([^`]*)`)?[ \t]*$', re.M)


def structs(sources: pathlib.Path, version: str, api_version: str) -> dict[str, list]:
    """The structs of the core group that are quoted, and all that are in them."""
    internal = without_comments((sources / f'kubernetes@{version}/pkg/apis/core/types.go').read_text())
    external = without_comments((sources / f'api@{api_version}/core/v1/types.go').read_text())
    names = {
        (struct, field): tag.group(1)
        for struct, body in STRUCT.findall(external)
        for field, _, tags in FIELD.findall(body)
        if (tag := re.search(r'json:"([^",]+)', tags))
    }
    bodies, aliases = dict(STRUCT.findall(internal)), dict(ALIAS.findall(internal))
    result: dict[str, list] = {}
    waiting = list(ROOTS)
    while waiting:
        struct = waiting.pop()
        if struct in result:
            continue
        fields = [
            [field, names.get((struct, field), field[:1].lower() + field[1:]), resolve(go_type, aliases)]
            for field, go_type, _ in FIELD.findall(bodies[struct])
        ]
        result[struct] = fields
        waiting += [kind.rpartition('@')[2] for _, _, kind in fields if '@' in kind]
    return dict(sorted(result.items()))


def resolve(go_type: str, aliases: dict[str, str]) -> str:
    """The type of a field in the short notation."""
    if go_type.startswith('*'):
        return '*' + resolve(go_type[1:], aliases)
    if go_type.startswith('[]'):
        return '[' + resolve(go_type[2:], aliases)
    if match := re.match(r'map\[[^\]]+\](.*)', go_type):
        return '{' + resolve(match.group(1), aliases)
    if go_type in PLAIN:
        return PLAIN[go_type]
    if go_type in SPECIAL:
        return SPECIAL[go_type]
    if go_type in aliases:
        return resolve(aliases[go_type].strip(), aliases)
    return 'J' if '.' in go_type else '@' + go_type
