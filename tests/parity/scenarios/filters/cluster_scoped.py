"""Cluster-scoped objects: there is no namespace in anything."""

import kopf
from tests.parity.recorder import record

ALONE = True
ALSO = ['kopfclusters']


@kopf.on.create('kopfclusters')
def create_fn(**kwargs):
    record('create_fn', kwargs, 'namespace', 'meta.namespace', 'resource.namespaced')
    return {'namespace': kwargs['namespace']}


@kopf.on.update('kopfclusters')
def update_fn(**kwargs):
    record('update_fn', kwargs)


@kopf.on.delete('kopfclusters')
def delete_fn(**kwargs):
    record('delete_fn', kwargs, 'namespace')


def story(world):
    world.start('-A')
    world.create('obj', plural='kopfclusters')
    world.wait_handled('obj', plural='kopfclusters')
    world.patch('obj', spec={'field': 'changed'}, plural='kopfclusters')
    world.wait_record('update_fn')
    world.wait_handled('obj', plural='kopfclusters')
    world.note(
        'obj',
        {
            key: value
            for key, value in world.get('obj', plural='kopfclusters').items()
            if key != 'metadata'
        },
    )
    world.delete('obj', plural='kopfclusters')
    world.wait_gone('obj', plural='kopfclusters')
    world.note('calls', len(world.records()))
