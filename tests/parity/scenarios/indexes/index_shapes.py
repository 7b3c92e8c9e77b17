"""What index functions return: mappings by their keys, anything else under the key None."""

import kopf
from tests.parity.recorder import record, sentinel

sentinel()


@kopf.index('kopfexamples', labels={'sentinel': kopf.ABSENT, 'reader': kopf.ABSENT})
def by_field(spec, name, **kwargs):
    return {spec['field']: name}


@kopf.index('kopfexamples', labels={'sentinel': kopf.ABSENT, 'reader': kopf.ABSENT})
async def by_pair(spec, name, namespace, **kwargs):
    return {(spec['field'], len(name)): {'name': name}, 'fixed': [name]}


@kopf.index('kopfexamples', labels={'sentinel': kopf.ABSENT, 'reader': kopf.ABSENT})
def plain(name, **kwargs):
    return name


@kopf.index('kopfexamples', id='renamed')
def nothing(**kwargs):
    return None


@kopf.on.create('kopfexamples', labels={'reader': 'yes'})
def reader_fn(by_field, by_pair, plain, renamed, **kwargs):
    record(
        'reader_fn',
        kwargs,
        by_field={key: sorted(store) for key, store in by_field.items()},
        by_pair={str(key): sorted(store, key=str) for key, store in by_pair.items()},
        keys=sorted(str(key) for key in by_pair),
        plain=sorted(plain[None]),
        renamed=dict(renamed),
        lengths=[len(by_field), len(by_pair), len(plain), len(renamed), len(by_field['x'])],
        truths=[bool(by_field), bool(renamed), bool(by_field['x'])],
        contained=[
            'x' in by_field,
            'z' in by_field,
            'one' in by_field['x'],
            'zzz' in by_field['x'],
        ],
        missing=[by_field.get('z'), by_field.get('z', 'default')],
        texts=[repr(by_field['y']), str(renamed)],
    )


def story(world):
    world.start()
    world.create('one', spec={'field': 'x'})
    world.create('two', spec={'field': 'x'})
    world.create('three', spec={'field': 'y'})
    world.sentinel()
    world.create('reader', labels={'reader': 'yes'})
    world.wait_record('reader_fn')
    world.wait_handled('reader')
