"""Webhooks of the status, and of everything."""

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import LABELS, serve

serve()
UNORDERED = True


@kopf.on.validate('kopfstatuses', labels=LABELS, subresource='status')
def status_fn(status, **kwargs):
    record('status', kwargs, 'operation', 'subresource')
    if status.get('bad'):
        raise kopf.AdmissionError('A bad status.', code=409)


@kopf.on.validate('kopfstatuses', labels=LABELS)
def main_fn(**kwargs):
    record('main', kwargs, 'operation', 'subresource')


def story(world):
    world.start()
    world.wait_configured(count=2, by='main_fn', plural='kopfstatuses')
    world.wait_asked_about('status', by='status_fn', plural='kopfstatuses')
    world.create_asked('obj', {'x': 1}, plural='kopfstatuses')
    world.patch('obj', {'status': {'good': 1}}, plural='kopfstatuses', subresource='status')
    world.attempt('bad', world.patch, 'obj', {'status': {'bad': 1}}, plural='kopfstatuses',
                  subresource='status')
    world.patch('obj', {'spec': {'x': 2}}, plural='kopfstatuses')
