"""A webhook for the scenarios that need one. Both servers call it, and the path tells what it does.

It is started with the first scenario that names it as ``$(hook)``; ``$(ca)`` is the certificate
that it is trusted by. Used by running.py.
"""

from __future__ import annotations

import base64
import functools
import http.server
import json
import pathlib
import ssl
import subprocess
import tempfile
import threading
from typing import Any

OPENSSL_CONFIG = """
[req]
distinguished_name = dn
prompt = no
x509_extensions = own
[dn]
CN = 127.0.0.1
[own]
basicConstraints = critical,CA:TRUE
subjectAltName = IP:127.0.0.1
"""


@functools.cache
def values() -> dict[str, str]:
    """What the scenarios know of the webhook, which the first call starts for the whole process."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / 'config').write_text(OPENSSL_CONFIG)
        command = (
            'openssl req -x509 -newkey rsa:2048 -nodes -days 2 -config config -keyout key -out cert'
        )
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True, timeout=60)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / 'cert', folder / 'key')
        certificate = base64.b64encode((folder / 'cert').read_bytes()).decode()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return {'hook': f'https://127.0.0.1:{server.server_address[1]}', 'ca': certificate}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers reviews of admissions and conversions."""

    protocol_version = 'HTTP/1.1'

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        action = self.path.split('?')[0].strip('/')
        if action == 'error':
            self.send(500, b'something is wrong')
        elif action == 'nonsense':
            self.send(200, b'nonsense')
        else:
            decide = converted if review['kind'] == 'ConversionReview' else admitted
            response = decide(action, review['request'])
            head = {'apiVersion': review['apiVersion'], 'kind': review['kind']}
            self.send(200, json.dumps({**head, 'response': response}).encode())

    def send(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def admitted(action: str, request: dict[str, Any]) -> dict[str, Any]:
    response: dict[str, Any] = {'uid': request['uid'], 'allowed': True}
    if action == 'deny':
        response |= {'allowed': False}
    elif action == 'deny-with-reason':
        response |= {
            'allowed': False,
            'status': {'code': 418, 'message': 'not today', 'reason': 'Teapot'},
        }
    elif action == 'echo':
        # How the user is known depends on the server, not on the request.
        request['userInfo'].pop('uid', None)
        message = json.dumps(request, sort_keys=True, separators=(',', ':'))
        response |= {'allowed': False, 'status': {'message': message}}
    elif action == 'warn':
        response |= {'warnings': ['be careful', 'be very careful']}
    elif action == 'label':
        patch = [{'op': 'add', 'path': '/metadata/labels', 'value': {'hooked': 'yes'}}]
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response |= {'patchType': 'JSONPatch', 'patch': encoded}
    elif action == 'bad-patch':
        patch = [{'op': 'remove', 'path': '/nothing/there'}]
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response |= {'patchType': 'JSONPatch', 'patch': encoded}
    elif action == 'other-uid':
        response |= {'uid': 'other'}
    return response


def converted(action: str, request: dict[str, Any]) -> dict[str, Any]:
    """In v2, the size is called the width."""
    if action == 'refuse':
        failure = {'status': 'Failure', 'message': 'it cannot be converted'}
        return {'uid': request['uid'], 'result': failure}
    objects = []
    for item in request['objects']:
        spec = dict(item.get('spec', {}))
        names = (
            ('size', 'width') if request['desiredAPIVersion'].endswith('/v2') else ('width', 'size')
        )
        if names[0] in spec:
            spec[names[1]] = spec.pop(names[0])
        objects.append({**item, 'apiVersion': request['desiredAPIVersion'], 'spec': spec})
    return {'uid': request['uid'], 'result': {'status': 'Success'}, 'convertedObjects': objects}
