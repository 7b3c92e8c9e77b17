"""What users declare before an operator starts: handlers, their filters, and settings.

`kopf.on` makes handlers and puts them into a registry. The modules `describe_…` turn them and the
settings into data for the engine.

Reading order: `handlers`, `registries`, `decorators`, `filters`, `backoff`, `signatures`,
`visible_kwargs`, `settings`, `describe_handlers`, `describe_settings`.
"""
