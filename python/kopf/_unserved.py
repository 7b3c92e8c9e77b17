"""Handlers of the kinds that the engine does not serve yet: said once, then left out."""
from __future__ import annotations

import logging
from collections.abc import Iterable

from kopf._handlers import Handler

logger = logging.getLogger('kopf')

_UNSERVED_KINDS = frozenset({'daemon', 'timer', 'spawning'})


def leave_out_unserved(handlers: Iterable[Handler], *, warn: bool = True) -> list[Handler]:
    """Those of the handlers that are served; one warning names all the others."""
    served: list[Handler] = []
    unserved: list[Handler] = []
    for handler in handlers:
        (unserved if handler.kind in _UNSERVED_KINDS else served).append(handler)
    if unserved and warn:
        names = ', '.join(sorted({str(handler).lower() for handler in unserved}))
        logger.warning(f"Daemons and timers are not served yet. "
                       f"These handlers are not called: {names}")
    return served
