"""A server of the user: an async generator that wraps the usual one, and changes the answers."""

import os

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import CERTIFICATE, LABELS


async def tunnel(fn):
    async def through(request, *, webhook=None, headers=None, sslpeer=None):
        response = await fn(request, webhook=webhook, headers={'X': 'tunnel'}, sslpeer={'a': 'b'})
        if response['response'].get('status'):
            response['response']['status']['message'] += ' (by the tunnel)'
        return response

    server = kopf.WebhookServer(addr='127.0.0.1', **CERTIFICATE)
    async for client_config in server(through):
        yield client_config


@kopf.on.startup()
def configure(settings, **_):
    settings.admission.managed = f"{os.environ['PARITY_WORLD']}.kopf.dev"
    settings.admission.server = tunnel


@kopf.on.validate('kopfexamples', labels=LABELS)
def validate_fn(spec, headers, sslpeer, **kwargs):
    record('validate', kwargs, headers=headers, sslpeer=sslpeer)
    if spec.get('bad'):
        raise kopf.AdmissionError('Bad.', code=400)


def story(world):
    world.start()
    world.wait_configured(by='validate_fn')
    world.attempt('good', world.create_asked, 'good', {'x': 1})
    world.attempt('bad', world.create_asked, 'bad', {'bad': True})
