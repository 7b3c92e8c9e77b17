"""Storages: where Kopf keeps the progress of handlers and the last handled essence on objects.

The engine reads and writes the standard storages itself; the classes here describe them to the
engine. Users subclass them: the engine calls the methods of such subclasses through `_run.front`.
So the standard methods also work in Python, with the same results.

Reading order: `keys`, `cleaning`, `progress`, `diffbase`, `describe`.
"""
