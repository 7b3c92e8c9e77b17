"""A running operator in the user's event loop.

`operator` starts and stops it (`kopf.run` and its family). `front` takes the engine's jobs and
dispatches them: `configuration`, `callbacks`, `storage` and `sub_batches` do those that are not
calls of handlers. The other modules are about the process: signals, stop flags, and the operator's
name among its peers.
"""
