"""Faults of the API: the first listings are answered by 500, 429 and 503; then all objects are
handled.
"""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def configure(settings, **_):
    settings.networking.error_backoffs = [0.2, 0.2, 0.2, 0.2]


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(**kwargs):
    record('create_fn', kwargs)


@kopf.on.resume('kopfexamples', labels={'sentinel': kopf.ABSENT})
def resume_fn(**kwargs):
    record('resume_fn', kwargs)


def story(world):
    api_proxy = world.proxy()

    def is_list(request):
        return request.path == world.path() and 'watch' not in request.query

    world.create('before')
    world.start()
    world.wait_handled('before')
    world.stop()
    refusals = [
        api_proxy.inject(is_list, code=code, times=1, headers={'Retry-After': '1'})
        for code in (500, 429, 503)
    ]
    world.create('between')
    world.start()
    world.wait_until('all refusals', lambda: all(len(one.met) == 1 for one in refusals))
    world.wait_handled('between')
    world.wait_record('resume_fn', name='before')
    world.sentinel()
