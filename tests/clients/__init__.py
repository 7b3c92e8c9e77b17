"""Clients and frameworks of others on the embedded cluster, and on a real one for comparison."""
