"""The patch of a timer fails. Upstream never calls the timer again; ours goes on."""

import kopf


@kopf.on.startup()
def configure(settings, **_):
    settings.networking.error_backoffs = []


@kopf.timer('kopfexamples', interval=0.5)
async def timer_fn(memo, patch, **kwargs):
    memo.ticks = memo.get('ticks', 0) + 1
    patch.status['ticks'] = memo.ticks


def story(world):
    api_proxy = world.proxy()
    refusals = api_proxy.inject(
        lambda request: (
            request.method == 'PATCH' and bool(world.get('obj')['metadata'].get('finalizers'))
        ),
        code=500,
        times=1,
    )
    world.start()
    world.create('obj')
    world.wait_until('the refusal', lambda: refusals.met)
    ticks = world.get('obj').get('status', {}).get('ticks', 0)
    goes_on = world.happens(
        lambda: world.get('obj').get('status', {}).get('ticks', 0) > ticks, within_seconds=5
    )
    world.note('goes on', goes_on)
    world.kill()
    world.patch('obj', status=None, metadata={'finalizers': None})
