"""Helpers for the tests of operators: the command line in a thread, and a cluster to test on.

For pytest, the package brings the fixtures of `kopf._pytest`: `kopf_cluster`, `kopf_runner`.
"""
from __future__ import annotations

from kopf._embedded.cluster import AsyncCluster, Cluster, ClusterError
from kopf._testing.runner import KopfRunner

__all__ = ['AsyncCluster', 'Cluster', 'ClusterError', 'KopfRunner']
