"""Faults of the API: after a cut, the watches are answered by 500, 429, 503; what has changed
meanwhile is handled, and nothing is handled twice.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def configure(settings, **_):
    settings.networking.error_backoffs = [0.2, 0.2, 0.2, 0.2]


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
@kopf.on.update('kopfexamples', labels={'sentinel': kopf.ABSENT})
def change_fn(spec, **kwargs):
    record('change_fn', kwargs, field=spec['field'])


@kopf.on.resume('kopfexamples', labels={'sentinel': kopf.ABSENT})
def resume_fn(**kwargs):
    record('resume_fn', kwargs)


def story(world):
    api_proxy = world.proxy()
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    for code in 500, 429, 503:
        refusals = api_proxy.inject(
            world.is_watch(), code=code, times=1, headers={'Retry-After': '1'}
        )
        world.wait_until('a watch to be cut', lambda: api_proxy.cut(world.is_watch()))
        world.patch('obj', spec={'field': f'at {code}'})
        world.wait_until('the refusal', lambda refusals=refusals: refusals.met)
        world.wait_record('change_fn', field=f'at {code}')
        world.wait_handled('obj')
    world.sentinel()
