"""Start and stop a real, throw-away Kubernetes control plane on this machine, without root.

    python -m tests.controlplane up DIR [--workloads | --controllers NAME,NAME,…]
    python -m tests.controlplane status DIR
    python -m tests.controlplane down DIR

``up`` starts etcd and kube-apiserver, and with ``--workloads`` also kube-controller-manager,
kube-scheduler and kwok with fake nodes, so that pods become Running without any kubelet. It takes
about 5 seconds. The folder then has:

* ``kubeconfig`` of an administrator;
* ``cluster.json``: the address, and the tokens of the users ``operator-000``, ``operator-001``, …,
  who may do everything;
* ``audit.log``: each request of those users and of all service accounts, so that the tests can
  count requests.

The processes live until ``down``, which ends exactly what ``up`` has started. Inside of a test
session, :class:`tests.controlplane.plane.ControlPlane` ends them with the session, even if the
session is killed.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

from tests.controlplane.plane import ControlPlane, PlaneError
from tests.support.client import ApiError


def main() -> None:
    parser = argparse.ArgumentParser(
        prog='python -m tests.controlplane', description=(__doc__ or '').splitlines()[0]
    )
    parser.add_argument('command', choices=['up', 'status', 'down'])
    parser.add_argument('folder', type=pathlib.Path, metavar='DIR')
    parser.add_argument(
        '--workloads',
        action='store_true',
        help='run the controllers, the scheduler and fake nodes, too',
    )
    parser.add_argument('--controllers', help='run only these controllers, and nothing else')
    args = parser.parse_args()
    plane = ControlPlane(args.folder)
    if args.command == 'up':
        started = time.monotonic()
        try:
            plane.up(workloads=args.workloads, controllers=args.controllers)
        except (PlaneError, ApiError) as e:
            sys.exit(str(e))
        print(f'Up in {time.monotonic() - started:.1f} s.')
        print(f'export KUBECONFIG={plane.kubeconfig}')
    elif args.command == 'down':
        plane.down()
    else:
        for entry in plane.alive():
            print(entry['name'], entry['pid'])
        sys.exit(0 if plane.alive() else 1)


if __name__ == '__main__':
    main()
