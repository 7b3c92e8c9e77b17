"""Cleanup handlers may be declared while the operator runs: by its startup, and by its handlers."""

import kopf
from tests.parity.recorder import record


@kopf.on.startup()
def start_fn(**_):
    @kopf.on.cleanup()
    def declared_by_startup(**kwargs):
        record('declared_by_startup', {'retry': kwargs['retry']})


@kopf.on.create('kopfexamples')
def create_fn(**_):
    @kopf.on.cleanup()
    def declared_by_handler(**kwargs):
        record('declared_by_handler', {'retry': kwargs['retry']})


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.stop()
