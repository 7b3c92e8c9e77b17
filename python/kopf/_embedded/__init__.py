"""The embedded Kubernetes cluster as a Python object, for `kopf.testing` and `kopf dev`.

Reading order: `cluster`, `async_cluster`, `manifests`, `polling`.
"""
