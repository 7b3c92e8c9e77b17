"""The decorators of `kopf.on`, grouped by what they are for.

Every decorator spells out its parameters and describes them in its docstring, so that editors can
show them. It passes them on as `locals()`, so that none can be forgotten.

Reading order: `building` (how a handler is made and registered), then any other.
"""
