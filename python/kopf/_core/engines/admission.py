"""Admission errors. Existing operators import this address; the code is elsewhere."""
from __future__ import annotations

from kopf._errors import AdmissionError

__all__ = [
    'AdmissionError',
]
