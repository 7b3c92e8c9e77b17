#!/usr/bin/env python3
"""
The protobuf encoding of built-in kinds, read from the Go sources of Kubernetes.

The struct tags there hold everything that is needed to turn a message into JSON: the number of a
field, its name, whether it is inlined, a pointer, or left out when empty. capture_api.py puts the
result into the archive of the embedded cluster, under the name `protobuf`:

    {"core/v1.Pod": [[1, "metadata", "o", "@meta.ObjectMeta"], …], …}

The third item has flags: `p` a pointer, `i` inlined, `o` left out when empty. The fourth is the type:
`s` text, `i` integer, `b` boolean, `B` bytes, `d` float, `T` time, `U` time with microseconds, `D` duration,
`Q` quantity, `I` integer or text, `R` raw JSON, `V` a message with a list of texts, `@…` a message,
`[…` a list, `{…` a mapping; and three unions of the schemas of CRDs.
"""
import pathlib
import re

SPECIAL = {
    'meta.Time': 'T', 'meta.MicroTime': 'U', 'meta.Duration': 'D', 'resource.Quantity': 'Q', 'intstr.IntOrString': 'I',
    'runtime.RawExtension': 'R', 'meta.FieldsV1': 'R', 'apiextensions/v1.JSON': 'R', 'types.UID': 's', 'types.NodeName': 's',
    'apiextensions/v1.JSONSchemaPropsOrBool': '@apiextensions/v1.JSONSchemaPropsOrBool',
    'apiextensions/v1.JSONSchemaPropsOrArray': '@apiextensions/v1.JSONSchemaPropsOrArray',
    'apiextensions/v1.JSONSchemaPropsOrStringArray': '@apiextensions/v1.JSONSchemaPropsOrStringArray',
}
PLAIN = {
    'string': 's', 'bool': 'b', 'int': 'i', 'int32': 'i', 'int64': 'i', 'uint32': 'i', 'uint8': 'i', 'uint64': 'i',
    'float64': 'd', 'float32': 'd', '[]byte': 'B',
}
FIELD = re.compile(r'^\s*(?:(\w+)\s+)?(\S.*?)\s+`([^`]*)`', re.M)


def messages(sources: pathlib.Path, version: str) -> dict[str, list]:
    """All messages of the packages of a version."""
    packages = {f'{path.parent.parent.name}/{path.parent.name}': path.parent
                for path in sorted((sources / f'api@{version}').glob('*/v*/types.go'))}
    packages['meta'] = sources / f'apimachinery@{version}' / 'pkg/apis/meta/v1'
    packages['apiextensions/v1'] = sources / f'apiextensions-apiserver@{version}' / 'pkg/apis/apiextensions/v1'
    structs: dict[str, tuple[str, dict[str, str]]] = {}
    aliases: dict[str, tuple[str, dict[str, str]]] = {}
    for package, folder in packages.items():
        for file in sorted(folder.glob('*.go')):
            if not file.name.startswith('types') and not file.name.startswith('generated.pb'):
                continue
            if file.name.startswith('types'):
                read(package, file.read_text(), structs, aliases)
    result = {}
    for name, (body, imports) in structs.items():
        package = name.rsplit('.', 1)[0]
        fields = []
        for _, go_type, tags in FIELD.findall(without_comments(body)):
            number = re.search(r'protobuf:"\w+,(\d+),', tags)
            json_tag = re.search(r'json:"([^"]*)"', tags)
            if not number or not json_tag:
                continue
            json_name, *options = json_tag.group(1).split(',')
            flags = ('p' if go_type.startswith('*') else '') + ('i' if 'inline' in options else '')
            flags += 'o' if 'omitempty' in options or 'omitzero' in options else ''
            fields.append([int(number.group(1)), json_name, flags, resolve(go_type, package, imports, aliases)])
        result[name] = fields
    for union, fields in {
        'JSONSchemaPropsOrBool': [[1, 'allows', '', 'b'], [2, 'schema', 'p', '@apiextensions/v1.JSONSchemaProps']],
        'JSONSchemaPropsOrArray': [[1, 'schema', 'p', '@apiextensions/v1.JSONSchemaProps'],
                                   [2, 'jSONSchemas', '', '[@apiextensions/v1.JSONSchemaProps']],
        'JSONSchemaPropsOrStringArray': [[1, 'schema', 'p', '@apiextensions/v1.JSONSchemaProps'], [2, 'property', '', '[s']],
    }.items():
        result['apiextensions/v1.' + union] = fields
    return result


def read(package: str, text: str, structs: dict, aliases: dict) -> None:
    imports = {}
    for alias, path in re.findall(r'^\s*(?:(\w+)\s+)?"(k8s\.io/[^"]+)"', text, re.M):
        parts = path.split('/')
        if path == 'k8s.io/apimachinery/pkg/apis/meta/v1':
            prefix = 'meta'
        elif path.startswith('k8s.io/api/'):
            prefix = '/'.join(parts[-2:])
        else:
            prefix = parts[-1]
        imports[alias or parts[-1]] = prefix
    for match in re.finditer(r'^type (\w+) struct \{\n(.*?)^\}', text, re.M | re.S):
        structs[f'{package}.{match.group(1)}'] = (match.group(2), imports)
    for name, target in re.findall(r'^type (\w+) ((?!struct|interface|func)[^\n{]+)$', text, re.M):
        aliases[f'{package}.{name}'] = (target.strip(), imports)


def without_comments(text: str) -> str:
    return re.sub(r'//[^\n]*', '', re.sub(r'/\*.*?\*/', '', text, flags=re.S))


def resolve(go_type: str, package: str, imports: dict[str, str], aliases: dict) -> str:
    """The type of a field in the short notation."""
    go_type = go_type.strip().removeprefix('*')
    if go_type in PLAIN:
        return PLAIN[go_type]
    if go_type.startswith('[]'):
        return '[' + resolve(go_type[2:], package, imports, aliases)
    if match := re.match(r'map\[[^\]]+\](.*)', go_type):
        return '{' + resolve(match.group(1), package, imports, aliases)
    prefix, _, name = go_type.rpartition('.')
    full = f'{imports.get(prefix, prefix)}.{name}' if prefix else f'{package}.{name}'
    if full in SPECIAL:
        return SPECIAL[full]
    if full in aliases:
        target, target_imports = aliases[full]
        if target.startswith('[]') and target != '[]byte':
            return 'V'
        return resolve(target, full.rsplit('.', 1)[0], target_imports, aliases)
    return '@' + full
