"""What the suites share: a client of the API, clusters, operators as processes, certificates."""
