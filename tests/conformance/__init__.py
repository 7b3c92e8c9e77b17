"""Shows how far the embedded cluster answers as a real kube-apiserver does.

One corpus of requests (``corpus/``) is sent to both; the answers are compared field by field.
``python -m tests.conformance`` writes the report ``docs/conformance.md``. The answers of the real
server are recorded, too, so that they can be compared with ours where no control plane is at hand.

Read in this order: scenario.py, exchange.py, normalise.py, comparison.py, running.py, report.py.
"""
