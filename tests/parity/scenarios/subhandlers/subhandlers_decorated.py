"""Sub-handlers by the decorator: the ids, the results, the subrefs of the parent, the order."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(spec, **kwargs):
    record('create_fn', kwargs)

    @kopf.subhandler()
    def plain_fn(**kwargs):
        record('create_fn/plain_fn', kwargs)
        return 'plain'

    for item in spec['items']:

        @kopf.subhandler(id=f'item-{item}')
        async def item_fn(item=item, **kwargs):
            record(f'create_fn/item-{item}', kwargs, 'status')
            return {'item': item}

    return 'parent'


def story(world):
    world.start()
    world.create('obj', spec={'items': ['b', 'a']})
    world.wait_handled('obj')
    world.sentinel()
