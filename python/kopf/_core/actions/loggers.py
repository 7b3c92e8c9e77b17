"""Logging. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._call.loggers import (
    DEFAULT_JSON_REFKEY,
    LocalObjectLogger,
    LogFormat,
    ObjectFormatter,
    ObjectJsonFormatter,
    ObjectLogger,
    ObjectPrefixingJsonFormatter,
    ObjectPrefixingMixin,
    ObjectPrefixingTextFormatter,
    ObjectTextFormatter,
    TerseObjectLogger,
    configure,
    logger,
    make_formatter,
)

__all__ = [
    'DEFAULT_JSON_REFKEY', 'LocalObjectLogger', 'LogFormat', 'ObjectFormatter',
    'ObjectJsonFormatter', 'ObjectLogger', 'ObjectPrefixingJsonFormatter', 'ObjectPrefixingMixin',
    'ObjectPrefixingTextFormatter', 'ObjectTextFormatter', 'TerseObjectLogger', 'configure',
    'logger', 'make_formatter',
]
