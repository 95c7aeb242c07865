"""How often an estimate that was calibrated on one run holds for the next: the loop of
`tests/closed_loop.py` in fresh folders, each with a second run that nothing has seen.

    python tests/benchmarks/loop_intervals.py --turns 10

The machine should be quiet: nine of ten intervals of 90 % should hold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from closed_loop import turn  # noqa: E402


def main() -> None:
    """Print a line for each turn, then the count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    held = 0
    for number in range(given.turns):
        with TemporaryDirectory() as folder:
            got = turn(Path(folder), steps=given.steps, profile_steps=30, runs=2)
        inside = got.low <= got.runs[1] <= got.high
        held += inside
        print(
            f"{number + 1:3}  planned {got.planned:9,.0f}  run {got.runs[0]:9,.0f}  "
            f"estimate {got.value:9,.0f} ({got.low:,.0f} to {got.high:,.0f})  "
            f"next run {got.runs[1]:9,.0f}  {'held' if inside else 'missed'}",
            flush=True,
        )
    print(f"{held} of {given.turns} held")


if __name__ == "__main__":
    main()
