"""The public behaviour of the Python package that needs no cluster."""
