"""The embedded Kubernetes cluster as a Python object, for `kopf.testing` and `kopf dev`."""
