"""Handlers are added while the operator runs: at its startup."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.on.startup()
def start_fn(registry=None, **kwargs):
    @kopf.on.create('kopfexamples', id='late')
    def late_fn(**kwargs):
        record('late', kwargs)


@kopf.on.create('kopfexamples')
def early_fn(**kwargs):
    record('early_fn', kwargs)


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.sentinel()
