"""Storages written by the user: their methods are called for reading and writing."""

import json

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


class Progress(kopf.StatusProgressStorage):
    def __init__(self):
        super().__init__(field='status.custom.progress')

    def store(self, *, key, record, body, patch):
        super().store(key=f'x-{key}', record=record, body=body, patch=patch)

    def fetch(self, *, key, body):
        return super().fetch(key=f'x-{key}', body=body)

    def purge(self, *, key, body, patch):
        super().purge(key=f'x-{key}', body=body, patch=patch)


class DiffBase(kopf.DiffBaseStorage):
    def fetch(self, *, body):
        text = body.metadata.annotations.get('example.com/seen')
        return json.loads(text) if text else None

    def store(self, *, body, patch, essence):
        patch.metadata.annotations['example.com/seen'] = json.dumps(essence, sort_keys=True)

    def build(self, *, body, extra_fields=None):
        essence = super().build(body=body, extra_fields=extra_fields)
        essence.get('metadata', {}).get('annotations', {}).pop('example.com/seen', None)
        essence.get('spec', {}).pop('ignored', None)
        if not essence.get('metadata', {}).get('annotations'):
            essence.get('metadata', {}).pop('annotations', None)
        if not essence.get('metadata'):
            essence.pop('metadata', None)
        return essence


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = Progress()
    settings.persistence.diffbase_storage = DiffBase()


@kopf.on.create('kopfexamples')
def create_fn(retry, **kwargs):
    record('create_fn', dict(kwargs, retry=retry))
    if not retry:
        raise kopf.TemporaryError('later', delay=0.2)


@kopf.on.update('kopfexamples')
def update_fn(**kwargs):
    record('update_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait('obj', lambda body: body['metadata']['annotations']['example.com/seen'])
    world.patch('obj', spec={'ignored': 1})
    world.sentinel()
    world.patch('obj', spec={'field': 'changed'})
    world.wait_record('update_fn')
    world.wait('obj', lambda body: 'changed' in body['metadata']['annotations']['example.com/seen'])
    world.sentinel()
