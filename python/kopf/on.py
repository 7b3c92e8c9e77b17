"""The decorators: `@kopf.on.create(…)`, `@kopf.on.event(…)`, and all the others.

A decorator registers the function as a handler and returns it unchanged, so that it can be called,
tested and decorated again::

    @kopf.on.create('kopfexamples')
    @kopf.on.resume('kopfexamples')
    def handle(spec, **_): ...
"""
from __future__ import annotations

from kopf._call.subhandlers import register, subhandler
from kopf._declare.decorators.activities import cleanup, login, probe, startup
from kopf._declare.decorators.background import daemon, timer
from kopf._declare.decorators.changes import create, delete, field, resume, update
from kopf._declare.decorators.conditions import condition
from kopf._declare.decorators.events import event, index
from kopf._declare.decorators.webhooks import convert, mutate, validate

__all__ = [
    'cleanup',
    'condition',
    'convert',
    'create',
    'daemon',
    'delete',
    'event',
    'field',
    'index',
    'login',
    'mutate',
    'probe',
    'register',
    'resume',
    'startup',
    'subhandler',
    'timer',
    'update',
    'validate',
]
