"""Measure the CPU of whole processes: the main job of the README and its neighbours, in one run.

    python tests/benchmarks/main_job.py
    python tests/benchmarks/main_job.py --runs 9 --checkout ../other

Prints the median CPU (user and system) of each command and its ratio to that of `import numpy`,
which the same machine does at the same time. Byte code is warm: every command runs once before it
is measured. Commands take turns, so that a busy minute falls on all of them.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PLACER = (sys.executable, "-m", "placer")
MAIN = (*PLACER, "recommend", "--model", "roberta-xlm", "--budget", "5/h")
LARGE = (*PLACER, "recommend", "--model", "llama-3.1-8b", "--tokens", "10B", "--budget", "100/h")
COMMANDS = {
    "import numpy": (sys.executable, "-c", "import numpy"),
    "placer --help": (*PLACER, "--help"),
    "main job, no cache": MAIN,
    "main job": MAIN,
    "llama-3.1-8b, 100 USD/h": LARGE,
}
COLD = "main job, no cache"
"""Runs with a cache that nothing was written to before."""


def cpu_seconds(command: tuple[str, ...], checkout: Path, home: str) -> float:
    """Run a command and return the CPU seconds of its process.

    Raises
    ------
    subprocess.CalledProcessError
        If it fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PLACER_HOME": home}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(seconds: Mapping[str, list[float]]) -> list[str]:
    """Return a line for each command: median, least, and the ratio of the medians."""
    unit = statistics.median(seconds["import numpy"])
    lines = [f"{'command':26}{'median':>9}{'least':>9}{'ratio':>8}"]
    for name, each in seconds.items():
        median = statistics.median(each)
        lines.append(f"{name:26}{median:7.3f} s{min(each):7.3f} s{median / unit:8.1f}")
    return lines


def main() -> None:
    """Measure and print."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--runs", type=int, default=5, help="of each command")
    words.add_argument("--checkout", type=Path, default=ROOT, help="whose code is measured")
    given = words.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as warm:
        for run in range(given.runs + 1):
            for name, command in COMMANDS.items():
                with tempfile.TemporaryDirectory() as cold:
                    home = cold if name == COLD else warm
                    took = cpu_seconds(command, given.checkout.resolve(), home)
                if run:
                    seconds[name].append(took)
    print("\n".join(table(seconds)))


if __name__ == "__main__":
    main()
