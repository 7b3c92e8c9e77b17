"""Runs the rules, and exits with 1 if any of them finds a violation."""
from __future__ import annotations

import argparse
import sys

from scripts.lint import (
    cycles,
    dependencies,
    links,
    parameters,
    purity,
    queues,
    sizes,
    versions,
    words,
)

RULES = {module.__name__.rpartition('.')[2]: module.check
         for module in (dependencies, cycles, purity, queues, parameters, sizes, words, links, versions)}


def main() -> int:
    parser = argparse.ArgumentParser(prog='python3 -m scripts.lint', description=__doc__)
    parser.add_argument('rules', nargs='*', metavar='RULE', help=f'of {", ".join(RULES)}; by default, all')
    chosen = parser.parse_args().rules or list(RULES)
    if unknown := [name for name in chosen if name not in RULES]:
        parser.error(f'unknown rules: {", ".join(unknown)}; there are {", ".join(RULES)}')
    failed = False
    for name in chosen:
        report = RULES[name]()
        print(report.summary)
        for problem in report.problems:
            print(f'  {problem}')
        failed = failed or bool(report.problems)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
