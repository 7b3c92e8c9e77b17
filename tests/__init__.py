"""All suites in Python. CONTRIBUTING.md says which of them proves what."""
