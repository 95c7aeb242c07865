"""What a start of placer costs: modules, which are compared exactly, and CPU, which varies."""

import subprocess
import sys
import tempfile

from main_job import cpu_seconds

from conftest import ROOT
from goldens.commands import environment

UNIT = "import numpy"
RUN = "from placer.cli import run; run({!r})"
STARTS = {
    "import": "import placer",
    "help": RUN.format(["--help"]),
    "main-job": RUN.format(["recommend", "--model", "roberta-xlm", "--budget", "5/h"]),
}
RUNS = 7
TOLERANCE = 0.15
"""Relative difference up to which a ratio counts as the same: on a busy machine the least of seven
runs still varies.
"""
LISTED = """
import atexit, sys
atexit.register(lambda: print("MODULES", *sys.modules))
"""


def modules(name: str) -> str:
    """List the modules of placer that a start imports, and the packages of others."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-c", LISTED + STARTS[name]],
            env=environment(PLACER_HOME=home, PYTHONPATH=str(ROOT)),
            capture_output=True,
            text=True,
            check=True,
        )
    loaded = {*done.stdout.rpartition("MODULES ")[2].split()}
    own = sorted(module for module in loaded if module.split(".")[0] == "placer")
    roots = {module.split(".")[0] for module in loaded} - {*sys.stdlib_module_names}
    others = sorted(root for root in roots - {"placer"} if root[0] != "_")
    return "\n".join([f"{len(own)} modules of placer", *own, "packages of others", *others, ""])


def cpu_ratios() -> dict[str, float]:
    """Measure the CPU of each start, in turn, as a multiple of that of ``import numpy``."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for _ in range(RUNS + 1):
            for name, code in {UNIT: UNIT, **STARTS}.items():
                took = cpu_seconds((sys.executable, "-c", code), ROOT, home)
                seconds.setdefault(name, []).append(took)
    least = {name: min(each[1:]) for name, each in seconds.items()}
    return {name: least[name] / least[UNIT] for name in STARTS}


def cpu(before: str) -> str:
    """Report the ratios, and return those that are frozen where they are about the same."""
    rows = (row.rpartition(": ") for row in before.splitlines())
    frozen = {name: float(ratio) for name, _, ratio in rows}
    lines = []
    for name, ratio in cpu_ratios().items():
        then = frozen.get(name, ratio)
        same = abs(ratio - then) <= TOLERANCE * then
        print(f"CPU of {name}: {ratio:.2f} x {UNIT}, frozen {then:.2f}")
        lines.append(f"{name}: {then if same else ratio:.2f}\n")
    return "".join(lines)
