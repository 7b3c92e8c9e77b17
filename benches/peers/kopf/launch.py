"""The ``kopf`` command, with a switch for the event loop.

``kopf run`` uses uvloop whenever it is importable; ``BENCH_UVLOOP=0`` hides it,
so that one virtualenv serves both variants.
"""

import os
import sys

if os.environ.get('BENCH_UVLOOP', '1') == '0':
    sys.modules['uvloop'] = None  # type: ignore[assignment]

from kopf.cli import main

if __name__ == '__main__':
    main(prog_name='kopf')
