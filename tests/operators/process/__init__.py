"""The process: command line, settings, probes, crashes, exit, embedding into other programs."""
