"""Makes answers of two servers comparable: what must differ is replaced by a word for it.

Those are uids, times of now, versions, generated names, addresses, certificates, tokens. Of a
version it is kept whether the object has the same as in its last answer: so it is seen who writes
although nothing has changed. Used by running.py, one normaliser for each scenario and server.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from .exchange import Answer

#: Which headers are compared. The others are of the connection, or differ with every answer.
HEADERS = (
    'content-type',
    'warning',
    'cache-control',
    'retry-after',
    'location',
    'allow',
    'vary',
    'www-authenticate',
    'x-content-type-options',
)
#: Bigger bodies are compared by their digests.
BIG_BODY_CHARACTERS = 200_000

UID = re.compile(r'\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b')
TIME = re.compile(r'\b(\d{4}-\d\d-\d\d)T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)')
REPLACED = (
    (re.compile(r'-----BEGIN [A-Z ]+-----[A-Za-z0-9+/=\s]+-----END [A-Z ]+-----\s*'), '<pem>'),
    (re.compile(r'\beyJ[\w-]+\.[\w-]+\.[\w-]+'), '<token>'),
    (re.compile(r'\b10\.0\.\d{1,3}\.\d{1,3}\b'), '<service address>'),
    (re.compile(r'\b10\.244\.\d{1,3}\.\d{1,3}\b'), '<pod address>'),
    (re.compile(r'\bkube-api-access-[a-z0-9]{5}\b'), 'kube-api-access-<generated>'),
    (re.compile(r'(?<=too old resource version: )\d+ \(\d+\)'), '<version> (<version>)'),
    (re.compile(r'(?<=Too large resource version: )\d+, current: \d+'), '<version>, <version>'),
    (re.compile(r'(?<=in record \()\d+'), '<version>'),
    (re.compile(r'(?<=ResourceVersion in object meta: )\d+'), '<version>'),
    # Objects inside of messages.
    (re.compile(r'("resourceVersion\\*":\\*")\d+'), r'\1<version>'),
    (re.compile(r'(?<=127\.0\.0\.1:)\d+'), '<port>'),
    (re.compile(r'https://localhost:\d+'), 'https://localhost:<port>'),
)
#: What workloads are made of gets its names from hashes and by chance.
MADE_NAMES = (
    (re.compile(r'-(?=[a-z]*\d)[bcdfghjklmnpqrstvwxz2456789]{8,10}\b'), '-<hash>'),
    (re.compile(r'-[bcdfghjklmnpqrstvwxz2456789]{5}\b'), '-<generated>'),
    (re.compile(r'\b(kwok-\d|kopf-node)\b'), '<node>'),
)
HASHES = (
    'pod-template-hash',
    'controller-revision-hash',
    'controller.kubernetes.io/hash',
    'pod-template-generation',
)
INITIAL = 'initial-events-end'
#: Objects inside of messages, quoted twice.
OBJECT_IN_MESSAGE = re.compile(r'(?<=Invalid value: )"\{.*\}"(?=: )')
AGE = re.compile(r'\d+[smhdy](\d+[smhd])?')


class Normaliser:
    """Remembers what was replaced, so that the same is replaced in later answers, too."""

    def __init__(self, names: Mapping[str, str], *, track_versions: bool) -> None:
        self._words: dict[str, str] = {word: f'<{name}>' for name, word in names.items()}
        self._versions: dict[str, str] = {}
        self._track_versions = track_versions
        now = datetime.datetime.now(datetime.timezone.utc).date()
        self._days = {str(now + datetime.timedelta(days=offset)) for offset in (-1, 0, 1)}

    def answer(self, answer: Answer) -> dict[str, Any]:
        headers: dict[str, Any] = {}
        for key, value in answer.headers:
            if key.lower() in HEADERS:
                headers.setdefault(key.lower(), []).append(self.text(value))
        kind = next(iter(headers.get('content-type', [])), '')
        return {'code': answer.code, 'headers': headers, 'body': self._body(answer.body, kind)}

    def _body(self, body: bytes, content_type: str) -> Any:
        if 'proto-openapi' in content_type:
            return {'digest': hashlib.sha256(body).hexdigest()}
        if 'protobuf' in content_type:
            # The length varies with the numbers in it.
            return '<binary>' if body else ''
        text = body.decode('utf-8', 'replace')
        if content_type.startswith('application/json'):
            value = self._json(text)
        else:
            value = self.text(re.sub(r'resourceVersion: "\d+"', 'resourceVersion: <version>', text))
        if len(text) > BIG_BODY_CHARACTERS:
            canonical = json.dumps(value, sort_keys=True)
            return {'digest': hashlib.sha256(canonical.encode()).hexdigest()}
        return value

    def _json(self, text: str) -> Any:
        try:
            value = loads(text)
            if not is_event(value):
                return self.value(value)
        except ValueError:
            pass
        try:
            events = [self.value(loads(line)) for line in text.splitlines()]
            # Bookmarks come at any time, but only one marks the end of the initial events.
            return [event for event in events if not is_bookmark(event) or INITIAL in str(event)]
        except ValueError:
            return self.text(text)

    def value(self, value: Any, key: str = '') -> Any:
        if isinstance(value, dict):
            self._learn(value)
            version = self._version(value) if key == 'metadata' else None
            made = {self.text(k): self.value(v, k) for k, v in value.items()}
            if version:
                made['resourceVersion'] = version
            return made
        if isinstance(value, list):
            made_items = [self.value(item, key) for item in value]
            # They are in the order of their times, which are gone.
            return sorted(made_items, key=entry_key) if key == 'managedFields' else made_items
        if isinstance(value, str):
            if value and key in ('resourceVersion', 'continue'):
                return '<version>' if key == 'resourceVersion' and value != '0' else f'<{key}>'
            if key in HASHES:
                return '<hash>'
            if key == 'cells' and AGE.fullmatch(value):
                return '<age>'
            return self.text(value)
        if key in ('nodePort', 'healthCheckNodePort') and value:
            return '<port>'
        return value

    def text(self, text: str) -> str:
        text = OBJECT_IN_MESSAGE.sub(sorted_object, text)
        for word, replacement in self._words.items():
            if word in text:
                text = text.replace(word, replacement)
        text = UID.sub('<uid>', text)
        text = TIME.sub(self._time, text)
        for pattern, replacement in REPLACED if self._track_versions else REPLACED + MADE_NAMES:
            text = pattern.sub(replacement, text)
        return text

    def _time(self, match: re.Match[str]) -> str:
        if match[1] not in self._days:
            return match[0]
        return '<microtime>' if match[2] and len(match[2]) == 7 else f'<time{match[2] or ""}>'

    def _learn(self, value: dict[str, Any]) -> None:
        """Generated names are found by the objects that have them."""
        prefix, name = value.get('generateName'), value.get('name')
        if prefix and isinstance(prefix, str) and isinstance(name, str):
            suffix = name.removeprefix(prefix)
            if name.startswith(prefix) and len(suffix) == 5:
                self._words[name] = self.text(prefix) + '<generated>'
        for label in HASHES:
            found = value.get(label)
            if isinstance(found, str) and len(found) > 3:
                self._words[found.rpartition('-')[2]] = '<hash>'

    def _version(self, metadata: dict[str, Any]) -> str | None:
        uid, version = metadata.get('uid'), metadata.get('resourceVersion')
        if not self._track_versions or not isinstance(uid, str) or not isinstance(version, str):
            return None
        if metadata.get('name') in self._words and 'namespace' not in metadata:
            return None  # the namespace itself, which controllers write at times of their own
        before = self._versions.get(uid)
        self._versions[uid] = version
        return '<the same version>' if before == version else '<version>'


def loads(text: str) -> Any:
    """JSON in which 1 and 1.0 stay different."""
    return json.loads(text, parse_float=lambda number: f'<number {number}>')


def entry_key(entry: Any) -> str:
    """Sort the managers of fields: the server does not define their order."""
    names = ('operation', 'manager', 'subresource', 'apiVersion')
    return str([entry.get(name) for name in names]) if isinstance(entry, dict) else ''


def is_event(value: Any) -> bool:
    """Whether it is a line of a watch."""
    return isinstance(value, dict) and value.keys() == {'type', 'object'}


def is_bookmark(event: Any) -> bool:
    return isinstance(event, dict) and event.get('type') == 'BOOKMARK'


def sorted_object(match: re.Match[str]) -> str:
    """The order of fields matters in messages no more than elsewhere."""
    try:
        value = json.loads(json.loads(match[0]))
        return json.dumps(json.dumps(value, sort_keys=True, separators=(',', ':')))
    except (ValueError, TypeError):
        return match[0]
