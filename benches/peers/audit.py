"""Counts the requests of each user exactly, from the audit log of the API server.

Used by phases.py.
"""

from __future__ import annotations

import collections
import json
import pathlib
from typing import Any


class Audit:
    """The counts so far; each look reads only the new lines of the log."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._offset = 0
        self._watches: set[str] = set()
        self._counts: dict[str, collections.Counter[str]] = {}

    def size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def of(self, user: str) -> collections.Counter[str]:
        self._read()
        return collections.Counter(self._counts.get(user, {}))

    def _read(self) -> None:
        if not self._path.exists():
            return
        with open(self._path, 'rb') as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b'\n'):
                    break
                self._offset += len(line)
                self._count(json.loads(line))

    def _count(self, entry: dict[str, Any]) -> None:
        if entry['verb'] == 'watch':  # one line when it starts, one when it ends
            if entry['auditID'] in self._watches:
                return
            self._watches.add(entry['auditID'])
        reference = entry.get('objectRef') or {}
        what = '/'.join(filter(None, [reference.get('resource'), reference.get('subresource')]))
        code = entry.get('responseStatus', {}).get('code', 0)
        key = f'{entry["verb"]} {what or "discovery"}' + (f' → {code}' if code >= 400 else '')
        self._counts.setdefault(entry['user']['username'], collections.Counter())[key] += 1
