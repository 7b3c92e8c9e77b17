"""Handlers: what they get, when they are called, and what becomes of their results."""
