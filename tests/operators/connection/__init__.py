"""Connections: how operators log in, and how they notice each other."""
