"""The command line, `kopf dev`, and `kopf.testing`."""
