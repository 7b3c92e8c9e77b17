"""The users' own storages, and the transformations of bodies (`patch.fns`).

The engine has the standard storages itself, and asks here only for those that users have written or
configured in Python. The front hands these jobs over to here.
"""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kopf._call.causes import CycleContext
from kopf._objects import encoding
from kopf._webhooks.reviews import ReviewContext

if TYPE_CHECKING:
    from kopf import _native
    from kopf._objects.patches import Patch
    from kopf._run.front import Front


class Storage:
    """The storages of one operator."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def on_read(self, job: _native.ReadStorage) -> None:
        question = json.loads(job.question)
        body = CycleContext.of(self._front, job.cycle).body
        progress = self._front.settings.persistence.progress_storage
        diffbase = self._front.settings.persistence.diffbase_storage
        content: dict[str, Any] = {}
        if question.get('diffbase'):
            fields = [tuple(field) for field in question.get('extra_fields') or ()]
            old = diffbase.fetch(body=body)
            new = diffbase.build(body=body, extra_fields=fields)
            content['old'] = progress.clear(essence=old) if old is not None else None
            content['new'] = progress.clear(essence=new) if new is not None else None
        if question.get('progress'):
            records = ((key, progress.fetch(key=key, body=body)) for key in question['ids'])
            content['records'] = {key: record for key, record in records if record is not None}
        job.answer(encoding.encode(content))

    def on_write(self, job: _native.WriteStorage) -> None:
        context = CycleContext.of(self._front, job.cycle)
        body, patch = context.body, context.patch
        progress = self._front.settings.persistence.progress_storage
        diffbase = self._front.settings.persistence.diffbase_storage
        operations = json.loads(job.operations)
        for item in operations:
            if item['op'] == 'store':
                progress.store(key=item['id'], record=item['record'], body=body, patch=patch)
            elif item['op'] == 'purge':
                progress.purge(key=item['id'], body=body, patch=patch)
            elif item['op'] == 'touch':
                progress.touch(body=body, patch=patch, value=item['value'])
            elif item['op'] == 'diffbase':
                diffbase.store(body=body, patch=patch, essence=item['essence'])
        if any(item['op'] in ('store', 'purge') for item in operations):
            progress.flush()
        context.patch_json = encoding.encode(patch) if len(patch) else None
        job.answer(context.patch_json)

    def on_transform(self, job: _native.TransformBody) -> None:
        context = CycleContext.of(self._front, job.cycle)
        job.answer(_transform(context.patch, job.body))

    def on_transform_reviewed(self, job: _native.TransformReviewed) -> None:
        context = ReviewContext.of(self._front, job.review)
        job.answer(_transform(context.patch, job.body))


def _transform(patch: Patch, content: bytes) -> str:
    body = json.loads(content)
    for fn in patch.fns:
        fn(body)
    return encoding.encode_or_blame(body, lambda: "The body after the transformations")
