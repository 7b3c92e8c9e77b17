"""The life of an operator in a Python process: settings, logging, threads, the native module."""
