"""The audit log of kube-apiserver: what it records, and how the tests read it.

The tests count the requests of an operator by this log, as a cluster administrator would. See
:meth:`tests.controlplane.plane.ControlPlane.requests`.
"""

from __future__ import annotations

import dataclasses
import json

AUDIT_POLICY = {
    'apiVersion': 'audit.k8s.io/v1',
    'kind': 'Policy',
    'omitStages': ['RequestReceived'],
    'omitManagedFields': True,
    'rules': [
        {'level': 'Metadata', 'userGroups': ['kopf:operators', 'system:serviceaccounts']},
        {'level': 'None'},
    ],
}


@dataclasses.dataclass(frozen=True)
class Request:
    """One request as the audit log has it."""

    user: str
    verb: str
    #: The plural, with the subresource if there is one: ``kopfexamples/status``. Empty for
    #: non-resource URLs.
    resource: str
    namespace: str | None
    name: str | None
    code: int
    uri: str


def parse_request(line: str) -> Request | None:
    """Parse a line of the audit log. None if it is incomplete, or if another line stands for the
    same request.
    """
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    # A watch has two lines, and the one of its end comes too late. The other long requests are not
    # used here.
    if entry['verb'] == 'watch' and entry['stage'] != 'ResponseStarted':
        return None
    reference = entry.get('objectRef') or {}
    return Request(
        user=entry['user']['username'],
        verb=entry['verb'],
        resource='/'.join(filter(None, [reference.get('resource'), reference.get('subresource')])),
        namespace=reference.get('namespace'),
        name=reference.get('name'),
        code=(entry.get('responseStatus') or {}).get('code', 0),
        uri=entry['requestURI'],
    )
