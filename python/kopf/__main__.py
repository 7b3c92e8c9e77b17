"""`python -m kopf`: the same as the command `kopf`."""
from __future__ import annotations

from kopf._command import main

if __name__ == '__main__':
    main()
