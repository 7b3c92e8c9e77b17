"""Helpers for tests of operators that are neither the cluster nor the pytest fixtures."""
