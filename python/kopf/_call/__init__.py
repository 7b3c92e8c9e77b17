"""One call of a user's function: its kwargs, its thread, its result, and what it may use meanwhile.

`invoke` makes the call. `causes` makes the kwargs. `context` says which call is running, so that
`posting`, `hierarchies`, `subhandlers` and `loggers` know which object they are about.

Reading order: `context`, `causes`, `invoke`, `threads`, `stoppers`, `loggers`, then the rest.
"""
