"""The house rules that no ready-made linter knows, one module per rule. `make lint` runs them all.

    python3 -m scripts.lint            # all rules
    python3 -m scripts.lint cycles     # only these, by the names of their modules

Each rule prints one line that says what it has looked at, and then one line per violation.
"""
