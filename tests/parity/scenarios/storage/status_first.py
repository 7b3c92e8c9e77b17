"""The order of the patches of an object with a status subresource. Upstream records first that the
change is handled, and then writes the status; a crash in between loses the result. Ours writes the
status first; a crash in between repeats the handler.
"""

import kopf
from tests.parity.recorder import record


@kopf.on.create('kopfstatuses')
def create_fn(**kwargs):
    record('create_fn', kwargs)
    return 'result'


def story(world):
    api_proxy = world.proxy()
    world.start()
    world.create('obj', plural='kopfstatuses')
    world.wait(
        'obj',
        lambda body: (
            body['status']['create_fn'] and body['metadata']['annotations'][world.last_handled]
        ),
        plural='kopfstatuses',
    )
    world.stop()
    paths = [request.path for request in api_proxy.requests if request.method == 'PATCH']
    world.note('patches', [path.rsplit('/obj', 1)[1] or 'object' for path in paths])
