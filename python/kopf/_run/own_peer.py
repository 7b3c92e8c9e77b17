"""The name of an operator among its peers."""
from __future__ import annotations

import datetime
import os
import socket
import string


def detect_own_id(*, manual: bool = False) -> str:
    """The name of the pod, or of the user and the host; a different one in each run, unless manual.

    People freeze and resume operators with separate commands: these need the same name.
    """
    pod = os.environ.get('POD_ID')
    if pod is not None:
        return pod
    import getpass  # it imports the modules of terminals
    person = f'{getpass.getuser()}@{get_hostname()}'
    if manual:
        return person
    now = datetime.datetime.now(datetime.timezone.utc).strftime('%Y%m%d%H%M%S')
    alphabet = string.ascii_lowercase + string.digits
    letters = ''.join(alphabet[byte % len(alphabet)] for byte in os.urandom(3))
    return f'{person}/{now}/{letters}'


def get_hostname() -> str:
    """The most informative name of this host: with its domain, and never an address."""
    own = socket.gethostname()
    try:
        name, aliases, addresses = socket.gethostbyaddr(own)
    except OSError:
        names = []
    else:
        names = [name for name in (name, *aliases, *addresses)
                 if not name.endswith('.arpa') and not _is_address(name)]
    dotted = [name for name in names if '.' in name]
    plain = [name for name in names if name != 'localhost']
    chosen = next(iter([*dotted, *plain, own]))
    while chosen.endswith(('.local', '.localdomain')):
        chosen = chosen.rpartition('.')[0]
    return chosen


def _is_address(name: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, name.partition('%')[0])
        except OSError:
            continue
        return True
    return False
