"""A running operator in the user's event loop.

`operator` starts and stops it (`kopf.run` and its family). `front` takes the jobs of the engine and
has them done. The other modules are about the process: signals, stop flags, and the operator's
name among its peers.
"""
