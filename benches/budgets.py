"""``python -m benches.budgets``: counts the instructions of each step of an operator.

    python -m benches.budgets                  # fails if a step costs over 5 % more than its budget
    python -m benches.budgets --only watch-event,patch-request
    python -m benches.budgets --write          # writes the measured figures as the budgets

Times depend on the machine and on its load; instruction counts do not. Each step runs under
valgrind with a small and with a large count. The difference is the cost of the step itself,
without the start of the process. ``make bench-budgets`` builds the programs, then calls this.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef]

HERE = pathlib.Path(__file__).parent
BUDGETS = HERE / 'budgets.toml'

#: How far a step may exceed its budget.
TOLERANCE = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--only', help='names of steps, separated by commas')
    parser.add_argument('--write', action='store_true', help='write the figures as the budgets')
    options = parser.parse_args()
    if shutil.which('valgrind') is None:
        parser.error('valgrind is needed (in Debian: apt install valgrind)')
    steps: dict[str, Any] = tomllib.loads(BUDGETS.read_text())
    names = options.only.split(',') if options.only else list(steps)
    if unknown := [name for name in names if name not in steps]:
        parser.error(f'no such steps: {", ".join(unknown)}')
    exceeded = []
    for name in names:
        budget, cost = steps[name]['instructions'], measure(name, **steps[name])
        share = cost / budget - 1 if budget else float('inf')
        result = 'EXCEEDED' if share > TOLERANCE and not options.write else 'ok'
        print(f'{name:20} {cost:>12,} of {budget:>12,} {share:+8.1%}  {result}', flush=True)
        if options.write:
            write(name, cost)
        elif share > TOLERANCE:
            exceeded.append(name)
    if exceeded:
        print(
            f'Over the budget by more than {TOLERANCE:.0%}: {", ".join(exceeded)}. '
            'Make it cheaper; or, if the cost is worth it, say why and raise the budget.',
            file=sys.stderr,
        )
    return 1 if exceeded else 0


def measure(
    name: str, counts: list[int], program: str = 'rust', times: int = 1, **_: Any
) -> int:
    """Return the cost of one step, which runs ``times`` times per count."""
    few, many = counts
    return round((run(name, program, many) - run(name, program, few)) / (many - few) / times)


def run(name: str, program: str, count: int) -> int:
    """Return the instructions of a whole process."""
    target = pathlib.Path(os.environ.get('CARGO_TARGET_DIR', HERE.parent / 'target'))
    command = {
        'rust': [str(target / 'release' / 'kopf-bench-instructions')],
        'python': [sys.executable, str(HERE / 'instructions' / 'calls.py')],
    }[program]
    with tempfile.TemporaryDirectory() as folder:
        counting = ['valgrind', '--tool=cachegrind', '--cache-sim=no',
                    f'--cachegrind-out-file={folder}/out', *command, name, str(count)]
        # Hashes must not differ from run to run, or the order of sets would.
        env = {**os.environ, 'PYTHONHASHSEED': '0', 'PYTHONDONTWRITEBYTECODE': '1'}
        done = subprocess.run(counting, capture_output=True, text=True, env=env)
    found = re.search(r'I\s+refs:\s+([\d,]+)', done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f'{" ".join(command)} {name} {count} failed:\n{done.stderr[-3000:]}')
    return int(found[1].replace(',', ''))


def write(name: str, cost: int) -> None:
    """Replace one figure and keep the rest of the file."""
    text = BUDGETS.read_text()
    pattern = rf'(?s)(\n\[{re.escape(name)}\]\n.*?\ninstructions = )[\d_]+'
    BUDGETS.write_text(re.sub(pattern, rf'\g<1>{cost:_}', text, count=1))


if __name__ == '__main__':
    sys.exit(main())
