"""CBC, which the package cbcbox carries: programs of their own (`_programs/crew.py`) cross-check
`exact`.

PuLP's reading of CBC is not used: it says "Optimal" of runs that timed out, leaves values after
"Infeasible" and makes one name of ``us-east-1`` and ``us_east_1``. Programs go to CBC as MPS files
with numbers for names, and CBC's own first line is read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from placer.errors import PlacerError
from placer.files.whole_files import temporary_folder
from placer.problem.problem import Problem
from placer.solving.answer import Answer, SolveOptions
from placer.version import install_line

from ._programs.child_process import die_with_parent, solve_in_child
from ._programs.linear import Model, Solved

NEEDS = (
    "pulp" if find_spec("pulp") and not find_spec("cbcbox") else "cbcbox",
    "cbcbox",
    install_line("milp"),
)
"""Module, package and the line that installs it. PuLP 3 carries a CBC as well, PuLP 4 none."""
GRACE_S = 1.0
"""CBC overruns its own time limit by seconds; after this long it is killed."""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Find the best placement and prove it with mixed-integer programs, in a child process.

    Raises
    ------
    PlacerError
        If there is no CBC.
    """
    return solve_in_child("milp", NEEDS, problem, options)


def cbc_path() -> str:
    """Return the program file of CBC: of the package cbcbox if it is installed, else PuLP's own,
    else the one on the path.

    Raises
    ------
    PlacerError
        If there is none.
    """
    if find_spec("cbcbox"):
        import cbcbox

        return str(cbcbox.cbc_bin_path())
    import pulp

    name = "cbc.exe" if os.name == "nt" else "cbc"
    folder = {"linux": "linux", "darwin": "osx", "win32": "win"}.get(sys.platform, sys.platform)
    machine = "arm64" if os.uname().machine in ("aarch64", "arm64") else "i64"
    shipped = Path(pulp.__file__).parent / "solverdir" / "cbc" / folder / machine / name
    path = str(shipped) if shipped.exists() else shutil.which("cbc")
    if path is None:
        raise PlacerError(
            "PuLP carries no CBC for this machine", "pip install cbcbox, or use --solver highs"
        )
    return path


def engine(model: Model, seconds: float) -> Solved:
    """Minimise with CBC; "Optimal" and "Infeasible" alone are proofs."""
    with temporary_folder("cbc") as folder:
        program, answer = Path(folder, "m.mps"), Path(folder, "m.sol")
        unit = write_mps(model, program)
        words = [
            "-sec",
            f"{max(0.05, seconds):.3f}",
            "-timeMode",
            "elapsed",
            "-ratioGap",
            "0",
            "-allowableGap",
            "0",
            "-threads",
            "0",
        ]
        call = [
            cbc_path(),
            str(program),
            *words,
            "-solve",
            "-printingOptions",
            "all",
            "-solution",
            str(answer),
            "-quit",
        ]
        try:
            subprocess.run(  # noqa: S603
                call,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=max(0.05, seconds) + GRACE_S,
                check=False,
                preexec_fn=die_with_parent,
            )
        except subprocess.TimeoutExpired:
            return Solved(status="stopped")
        if not answer.exists():
            return Solved(status="stopped")
        return read_solution(answer.read_text(encoding="ascii", errors="replace"), model, unit)


def write_mps(model: Model, path: Path) -> float:
    """Write a model in free MPS with numbers for names; returns the unit that its goal was divided
    by.
    """
    unit = max((abs(v) for n, v in model.goal.items() if n >= 0), default=1.0) or 1.0
    columns: list[list[str]] = [[] for _ in model.low]
    limits = []
    for i, (terms, limit) in enumerate(model.rows):
        if not terms:
            continue
        scale = max(abs(v) for v in terms.values())
        for name, value in terms.items():
            columns[name].append(f" C{name} R{i} {value / scale!r}")
        limits.append(f" RHS R{i} {limit / scale!r}")
    lines = [
        "NAME placer FREE",
        "ROWS",
        " N COST",
        *(f" L R{i}" for i, (terms, _) in enumerate(model.rows) if terms),
        "COLUMNS",
    ]
    for name, column in enumerate(columns):
        whole = model.whole[name]
        if whole:
            lines.append(" MARKER 'MARKER' 'INTORG'")
        lines.append(f" C{name} COST {model.goal.get(name, 0.0) / unit!r}")
        lines += column
        if whole:
            lines.append(" MARKER 'MARKER' 'INTEND'")
    lines += ["RHS", *limits, "BOUNDS"]
    for name, (low, high) in enumerate(zip(model.low, model.high, strict=True)):
        lines += [f" LO BND C{name} {low!r}", f" UP BND C{name} {high!r}"]
    path.write_text("\n".join([*lines, "ENDATA", ""]), encoding="ascii")
    return unit


def read_solution(text: str, model: Model, unit: float) -> Solved:
    """Read what CBC wrote: only its own words "Optimal" and "Infeasible" are proofs, values of
    other runs are left alone.
    """
    first, *rest = text.splitlines() or [""]
    if first.startswith(("Infeasible", "Integer infeasible")):
        return Solved(status="infeasible")
    if not first.startswith("Optimal"):
        return Solved(status="stopped")
    values = list(model.low)
    for line in rest:
        words = [word for word in line.split() if word != "**"]
        if len(words) >= 3 and words[1].startswith("C"):
            values[int(words[1][1:])] = float(words[2])
    goal = sum(v * (1.0 if n < 0 else values[n]) for n, v in model.goal.items())
    return Solved(
        status="optimal", bound=goal - 1e-7 * (abs(goal) + unit * 1e-3), values=tuple(values)
    )
