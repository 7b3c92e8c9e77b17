"""Helpers for tests of operators: the command line in a thread, and an embedded cluster.

For pytest, there are the fixtures `kopf_cluster` and `kopf_runner` (see `kopf._pytest`).
"""
from __future__ import annotations

from kopf._embedded.async_cluster import AsyncCluster
from kopf._embedded.cluster import Cluster, ClusterError
from kopf._testing.runner import KopfRunner

__all__ = ['AsyncCluster', 'Cluster', 'ClusterError', 'KopfRunner']
