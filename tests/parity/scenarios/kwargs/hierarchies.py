"""Adoption of children inside of a handler, where the owner is implied."""

import copy

import kopf
from tests.parity.recorder import record, sentinel

sentinel()

CHILD = {
    'apiVersion': 'v1',
    'kind': 'ConfigMap',
    'metadata': {},
    'spec': {'template': {'metadata': {'labels': {'own': 'x'}}}},
}


def made(function, *args, child=CHILD, **kwargs):
    children = copy.deepcopy(child)
    function(children, *args, **kwargs)
    return children


@kopf.on.create('kopfexamples', labels={'sentinel': kopf.ABSENT})
def create_fn(body, **kwargs):
    named = {
        **CHILD,
        'metadata': {'name': 'given', 'namespace': 'elsewhere', 'labels': {'a': 'mine'}},
    }
    record(
        'create_fn',
        kwargs,
        adopted=made(kopf.adopt),
        adopted_named=made(kopf.adopt, child=named),
        adopted_forced=made(kopf.adopt, child=named, forced=True),
        adopted_strict=made(kopf.adopt, strict=True),
        adopted_nested=made(kopf.adopt, nested='spec.template'),
        adopted_list=made(kopf.adopt, child=[CHILD, named]),
        adopted_explicit=made(kopf.adopt, owner=body),
        labelled=made(kopf.label, {'a': 'b'}, child=named),
        labelled_forced=made(kopf.label, {'a': 'b'}, child=named, forced=True),
        labelled_nested=made(kopf.label, {'a': 'b', 'own': 'y'}, nested=['spec.template']),
        labelled_implied=made(kopf.label),
        named=made(kopf.harmonize_naming),
        named_strictly=made(kopf.harmonize_naming, strict=True),
        named_explicitly=made(kopf.harmonize_naming, name='explicit', forced=True, child=named),
        placed=made(kopf.adjust_namespace),
        placed_elsewhere=made(kopf.adjust_namespace, namespace='there', forced=True, child=named),
        owned=made(kopf.append_owner_reference),
        owned_not_controlled=made(
            kopf.append_owner_reference, controller=False, block_owner_deletion=False
        ),
        owned_twice=made(
            lambda child: (kopf.append_owner_reference(child), kopf.append_owner_reference(child))
        ),
        disowned=made(
            lambda child: (kopf.append_owner_reference(child), kopf.remove_owner_reference(child))
        ),
        object_reference=kopf.build_object_reference(body),
        owner_reference=kopf.build_owner_reference(body),
        free_owner_reference=kopf.build_owner_reference(
            body, controller=False, block_owner_deletion=None
        ),
    )


def story(world):
    world.start()
    world.create('obj', labels={'owner': 'label'})
    world.wait_handled('obj')
    world.sentinel()
