"""Objects of the core API: ConfigMaps and Pods; the ones have no spec, the others have no status
but their own.
"""

import kopf
from tests.parity.recorder import record, sentinel

ALSO = ['configmaps']
sentinel()


@kopf.on.create('configmaps')
def config_fn(spec, body, **kwargs):
    record('config_fn', kwargs, spec=spec, data=body['data'])
    return {'lost': 'as there is no status'}


@kopf.on.create('v1', 'pods')
def pod_fn(**kwargs):
    record('pod_fn', {'name': kwargs['name'], 'retry': kwargs['retry']}, 'labels')


@kopf.on.delete('pods')
def deleted_fn(**kwargs):
    record('deleted_fn', {'name': kwargs['name']})


def story(world):
    world.start()
    world.create('obj', plural='configmaps', data={'key': 'value'})
    world.wait(
        'obj',
        lambda body: world.last_handled in body['metadata']['annotations'],
        plural='configmaps',
    )
    # The gate keeps it from being scheduled, so that nobody else changes it meanwhile.
    spec = {
        'containers': [{'name': 'main', 'image': 'example.com/image'}],
        'schedulingGates': [{'name': 'example.com/wait'}],
    }
    world.create('pod', spec, plural='pods', labels={'a': 'b'})
    world.wait_record('pod_fn')
    world.wait(
        'pod', lambda body: world.last_handled in body['metadata']['annotations'], plural='pods'
    )
    world.delete('pod', plural='pods')
    world.wait_gone('pod', plural='pods')
    world.wait_record('deleted_fn')
    world.sentinel()
