"""Where the state of handlers and the last handled essence are kept on the objects.

The engine reads and writes the standard storages itself. The classes here describe them to
it, and are what users subclass: the methods of such subclasses are called by the engine
through `_run.front`. So the standard methods work in Python too, with the same results.

Reading order: `keys`, `cleaning`, `progress`, `diffbase`, `describe`.
"""
