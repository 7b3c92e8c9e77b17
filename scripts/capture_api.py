#!/usr/bin/env python3
"""
Capture what a real kube-apiserver publishes about itself: discovery, OpenAPI v2 and v3, the version.

The embedded cluster (crates/kopf-cluster) serves these documents as they are, and lets its schema
machine run over them; so they are facts, never edited by hand. Only the groups that are built into
Kubernetes are captured: whatever comes from CRDs or aggregated servers is left out.

    python3 -m tests.controlplane up target/plane
    scripts/capture_api.py --kubeconfig target/plane/kubeconfig crates/kopf-cluster/data/kubernetes.capture

The file is a 4-byte little-endian length, then that many bytes of JSON (`{name: [offset, length]}`),
then gzip members back to back, so that each document is unpacked only when somebody asks for it.

Most of an OpenAPI document is paths and descriptions, which nobody needs who checks objects. So the
definitions of each are there once more without them, as `schemas/…`: a cluster starts by reading
these. To make them again from an existing capture, without a server:

    scripts/capture_api.py --captured OLD.capture NEW.capture

Newer clients send built-in kinds as protobuf, and no server publishes its field numbers. They are
read from the Go sources of the same version (`--sources`, a Go module cache), by capture_protobuf.py; and so
are the structs that refusals quote, by capture_structs.py.
"""
import argparse
import base64
import gzip
import json
import pathlib
import ssl
import struct
import tempfile
import urllib.request

import capture_protobuf
import capture_structs

AGGREGATED = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io'
PROTOBUF_V2 = 'application/com.github.proto-openapi.spec.v2@v1.0+protobuf'
NOTICE = """\
The file `{file}` contains the API discovery and OpenAPI documents that
kube-apiserver {version} publishes, and the numbers of protobuf fields and some structs from its sources,
captured by scripts/capture_api.py.

They are taken or generated from the sources of Kubernetes (https://github.com/kubernetes/kubernetes),
Copyright The Kubernetes Authors, licensed under the Apache License, Version 2.0
(http://www.apache.org/licenses/LICENSE-2.0).
"""


class Server:
    """A real kube-apiserver, as a kubeconfig in JSON describes it."""

    def __init__(self, kubeconfig: pathlib.Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config['clusters'][0]['cluster']
        user = config['users'][0]['user']
        self.url: str = cluster['server']
        self.headers = {'Authorization': f"Bearer {user['token']}"} if 'token' in user else {}
        if 'certificate-authority-data' in cluster:
            data = base64.b64decode(cluster['certificate-authority-data']).decode()
            self.tls = ssl.create_default_context(cadata=data)
        else:
            self.tls = ssl.create_default_context(cafile=cluster['certificate-authority'])
        if 'client-certificate-data' in user:
            with tempfile.NamedTemporaryFile(suffix='.pem') as pem:
                pem.write(base64.b64decode(user['client-certificate-data']))
                pem.write(base64.b64decode(user['client-key-data']))
                pem.flush()
                self.tls.load_cert_chain(pem.name)

    def read(self, path: str, accept: str = 'application/json') -> bytes:
        request = urllib.request.Request(self.url + path, headers={**self.headers, 'Accept': accept})
        with urllib.request.urlopen(request, context=self.tls, timeout=60) as response:
            return response.read()

    def json(self, path: str, accept: str = 'application/json') -> dict:
        return json.loads(self.read(path, accept))


def capture(server: Server) -> dict[str, bytes]:
    """All documents by their names in the archive."""
    crds = server.json('/apis/apiextensions.k8s.io/v1/customresourcedefinitions')
    foreign = {crd['spec']['group'] for crd in crds['items']}
    services = server.json('/apis/apiregistration.k8s.io/v1/apiservices')
    foreign |= {item['spec']['group'] for item in services['items'] if item['spec'].get('service')}

    def builtin(group: str) -> bool:
        return group not in foreign and ('.' not in group or group.endswith('.k8s.io'))

    core = server.json('/api')
    core['serverAddressByClientCIDRs'] = []
    groups = server.json('/apis')
    groups['groups'] = [group for group in groups['groups'] if builtin(group['name'])]
    resources = {'v1': server.json('/api/v1')}
    for group in groups['groups']:
        for version in group['versions']:
            resources[version['groupVersion']] = server.json('/apis/' + version['groupVersion'])
    aggregated_core = server.json('/api', AGGREGATED)
    aggregated = server.json('/apis', AGGREGATED)
    aggregated['items'] = [item for item in aggregated['items'] if builtin(item['metadata']['name'])]
    root = server.json('/')
    root['paths'] = [path for path in root['paths'] if group_of(path) is None or builtin(group_of(path))]
    version = server.json('/version')

    openapi_v2 = server.json('/openapi/v2')
    openapi_v2['paths'] = {
        path: item for path, item in openapi_v2['paths'].items() if group_of(path) is None or builtin(group_of(path))
    }
    openapi_v2['definitions'] = {
        name: definition
        for name, definition in openapi_v2['definitions'].items()
        if name.startswith('io.k8s.') and all(
            builtin(gvk['group']) for gvk in definition.get('x-kubernetes-group-version-kind', []))
    }
    openapi_v3 = server.json('/openapi/v3')
    openapi_v3['paths'] = {
        path: item for path, item in openapi_v3['paths'].items()
        if group_of('/' + path) is None or builtin(group_of('/' + path))
    }
    tables = {
        f'{version}/{resource["name"]}': columns(server, version, resource['name'])
        for version, listing in resources.items()
        for resource in listing['resources']
        if '/' not in resource['name'] and 'list' in resource['verbs']
    }
    discovery = {
        'version': version, 'root': root, 'api': core, 'apis': groups, 'resources': resources,
        'aggregatedApi': aggregated_core, 'aggregatedApis': aggregated, 'openapiV3': openapi_v3,
    }
    documents = {'discovery': compact(discovery), 'tables': compact(tables), 'openapi/v2': compact(openapi_v2)}
    if not foreign:
        # It cannot be filtered without its schema, so only a server without CRDs can give it.
        documents['openapi/v2.protobuf'] = server.read('/openapi/v2', PROTOBUF_V2)
    for path, item in sorted(openapi_v3['paths'].items()):
        documents['openapi/v3/' + path] = compact(server.json(item['serverRelativeURL']))
    return documents


def columns(server: Server, version: str, resource: str) -> list:
    """The columns in which the server prints a resource."""
    prefix = '/apis/' if '/' in version else '/api/'
    return server.json(f'{prefix}{version}/{resource}?limit=1', TABLE)['columnDefinitions']


def group_of(path: str) -> str | None:
    """The API group of a path of the server, if it is below a group."""
    parts = path.strip('/').split('/')
    return parts[1] if parts[0] == 'apis' and len(parts) > 1 else None


def compact(document: dict) -> bytes:
    return json.dumps(document, separators=(',', ':'), ensure_ascii=False).encode()


def with_schemas(documents: dict[str, bytes]) -> dict[str, bytes]:
    """The documents, and the bare definitions of those of OpenAPI v3."""
    schemas = {
        'schemas/' + name.removeprefix('openapi/v3/'): compact({'components': {'schemas': {
            name: bare(definition) for name, definition in json.loads(document)['components']['schemas'].items()
        }}})
        for name, document in documents.items()
        if name.startswith('openapi/v3/') and 'schemas' in json.loads(document).get('components', {})
    }
    return {**{name: text for name, text in documents.items() if not name.startswith('schemas/')}, **schemas}


def bare(schema: object) -> object:
    """A schema without descriptions; a field of that name is a schema, not a text."""
    if isinstance(schema, dict):
        return {
            name: bare(value) for name, value in schema.items()
            if not (name == 'description' and isinstance(value, str))
        }
    return [bare(item) for item in schema] if isinstance(schema, list) else schema


def unarchive(data: bytes) -> dict[str, bytes]:
    (length,) = struct.unpack_from('<I', data)
    index, members = json.loads(data[4:4 + length]), data[4 + length:]
    return {name: gzip.decompress(members[offset:offset + size]) for name, (offset, size) in index.items()}


def archive(documents: dict[str, bytes]) -> bytes:
    members, index, offset = [], {}, 0
    for name, document in documents.items():
        member = gzip.compress(document, compresslevel=9, mtime=0)
        members.append(member)
        index[name] = [offset, len(member)]
        offset += len(member)
    head = compact(index)
    return struct.pack('<I', len(head)) + head + b''.join(members)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    origin = parser.add_mutually_exclusive_group(required=True)
    origin.add_argument('--kubeconfig', type=pathlib.Path, help='of a real server, as JSON')
    origin.add_argument('--captured', type=pathlib.Path, help='a file that was captured before, instead of a server')
    parser.add_argument('--sources', type=pathlib.Path, default=pathlib.Path.home() / 'go/pkg/mod/k8s.io',
                        help='Go modules of the same version, for what no server publishes')
    parser.add_argument('output', type=pathlib.Path)
    options = parser.parse_args()
    if options.captured:
        documents = unarchive(options.captured.read_bytes())
    else:
        documents = capture(Server(options.kubeconfig))
    version = json.loads(documents['discovery'])['version']['gitVersion']
    api_version = 'v0' + version.removeprefix('v1')
    documents['protobuf'] = compact(capture_protobuf.messages(options.sources, api_version))
    documents['structs'] = compact(capture_structs.structs(options.sources, version, api_version))
    documents = with_schemas(documents)
    data = archive(documents)
    options.output.write_bytes(data)
    (options.output.parent / 'NOTICE').write_text(NOTICE.format(file=options.output.name, version=version))
    print(f'{options.output}: {version}, {len(documents)} documents, {len(data)} bytes')


if __name__ == '__main__':
    main()
