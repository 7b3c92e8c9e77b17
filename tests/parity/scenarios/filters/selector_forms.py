"""All ways to name a resource lead to the same resource."""

import kopf
from tests.parity.recorder import record, sentinel

UNORDERED = True
FORMS = 17
sentinel()

kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)


def make(id, *args, **kwargs):
    @kopf.on.create(*args, id=id, labels={'sentinel': kopf.ABSENT}, **kwargs)
    def fn(resource, **kwargs):
        record(id, kwargs, resource=repr(resource))


make('plural', 'kopfexamples')
make('singular', 'kopfexample')
make('kind', 'KopfExample')
make('short', 'kex')
make('plural-group', 'kopfexamples.kopf.dev')
make('plural-version-group', 'kopfexamples.v1.kopf.dev')
make('group-plural', 'kopf.dev', 'kopfexamples')
make('groupversion-plural', 'kopf.dev/v1', 'kopfexamples')
make('group-version-plural', 'kopf.dev', 'v1', 'kopfexamples')
make('group-version-kind', 'kopf.dev', 'v1', 'KopfExample')
make('by-kind', kind='KopfExample')
make('by-plural', plural='kopfexamples')
make('by-singular', singular='kopfexample', group='kopf.dev')
make('by-shortcut', shortcut='kopfex')
make('everything-of-group', 'kopf.dev', 'v1', kopf.EVERYTHING)
make('any', 'kopf.dev', kopf.EVERYTHING)
make('function', lambda resource: resource.plural == 'kopfexamples')


def story(world):
    world.start()
    world.create('obj')
    world.wait_handled('obj')
    world.note('called', len(world.records(name='obj')) == FORMS)
    world.sentinel()
