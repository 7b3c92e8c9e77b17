"""The public behavior of the Python package that needs no cluster."""
