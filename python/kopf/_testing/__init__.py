"""`KopfRunner` of `kopf.testing`, in a layer above the command line that it runs."""
