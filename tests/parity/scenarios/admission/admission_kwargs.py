"""What handlers of webhooks get: of creations, updates, deletions, dry runs."""

import kopf
from tests.parity.recorder import record
from tests.parity.webhooks import LABELS, serve

serve()


@kopf.on.validate('kopfexamples', labels=LABELS, param='p')
def validate_fn(userinfo, headers, sslpeer, memo, warnings, uid, **kwargs):
    record(
        'validate', kwargs, 'param', 'operation', 'subresource', 'dryrun', 'spec', 'labels',
        'status', 'retry', 'runtime', 'started', 'resource',
        user=sorted(userinfo), content_type=headers.get('Content-Type'), peer=dict(sslpeer),
        warnings=warnings, memo=type(memo).__name__, given=sorted(kwargs),
    )


def story(world):
    world.start()
    world.wait_configured(by='validate_fn')
    world.create_asked('obj', {'field': 'one'})
    world.patch('obj', spec={'field': 'two'})
    world.client.patch(world.path('obj') + '?dryRun=All', {'spec': {'field': 'three'}})
    world.delete('obj')
    world.wait_gone('obj')
