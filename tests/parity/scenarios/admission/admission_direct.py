"""Requests to the webhook server that no managed configuration leads to: of other operations than
the handlers want, and to the root. Upstream looks only at the path, ours at the operation, too; to
the root, upstream asks nobody, ours asks all handlers that match.
"""

import os

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import serve

serve(port=int(os.environ.get('PORT', '0')))


@kopf.on.startup(id='unmanaged')
def configure(settings, **_):
    settings.admission.managed = None


@kopf.on.validate('kopfexamples', operations=['CREATE'])
def creation(name, operation, **_):
    record('creation', {'name': name}, operation=operation)


@kopf.on.validate('kopfexamples')
def anything(name, operation, **_):
    record('anything', {'name': name}, operation=operation)


def story(world):
    port = world.free_port()
    world.start(env={'PORT': str(port)})
    for path in 'creation', 'anything', '':
        for operation in 'CREATE', 'UPDATE':
            name = f'{operation.lower()}-{path or "root"}'
            answer = world.review(f'https://127.0.0.1:{port}/{path}', name, operation)
            world.note(name, answer)
