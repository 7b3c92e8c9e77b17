"""Validation: accepted, and refused by all kinds of errors, with their codes and messages."""

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import LABELS, serve

serve()


@kopf.on.validate('kopfexamples', labels=LABELS)
def validate_fn(spec, **kwargs):
    record('validate', kwargs, 'operation', 'subresource', 'dryrun', 'spec')
    errors = {
        'admission': kopf.AdmissionError('Not so.', code=418),
        'nameless': kopf.AdmissionError(),
        'codeless': kopf.AdmissionError('No code.', code=None),
        'permanent': kopf.PermanentError('Never.'),
        'temporary': kopf.TemporaryError('Not now.', delay=1),
        'arbitrary': ValueError('Boo!'),
        'empty': ValueError(),
    }
    if spec.get('field') in errors:
        raise errors[spec['field']]


def story(world):
    world.start()
    world.wait_configured(by='validate_fn')
    for field in ('good', 'admission', 'nameless', 'codeless', 'permanent', 'temporary',
                  'arbitrary', 'empty'):
        world.attempt(field, world.create_asked, field, {'field': field})
    world.attempt('patch', world.patch, 'good', spec={'field': 'permanent'})
    world.attempt('deletion', world.delete, 'good')
