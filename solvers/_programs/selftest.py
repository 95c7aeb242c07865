"""Does an installed solver tell the truth? Tiny random programs against plain enumeration, in a
process of its own.
"""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from itertools import product

from .linear import Engine, Model

PROGRAMS = 60
"""A build that lies in 1 of 5 programs, as HiGHS 1.14.0 did, passes all with a chance of 1 in
600,000. HiGHS 1.16.0, which lies in 1 of 500 larger ones, passes.
"""
SECONDS = 60.0
TOLERANCE = 1e-5


def wrong_answers(engine: Engine, programs: int = PROGRAMS) -> int:
    """Count tiny programs whose status or optimum plain enumeration contradicts."""
    wrong = 0
    for seed in range(programs):
        draw = random.Random(seed)  # noqa: S311 - no secret
        model = Model()
        names = [
            model.variable(0, draw.randint(1, 4), whole=True) for _ in range(draw.randint(2, 4))
        ]
        for _ in range(draw.randint(1, 4)):
            model.at_most(
                {n: float(draw.randint(-9, 9)) for n in names}, float(draw.randint(-6, 20))
            )
        model.goal = {n: draw.randint(-90, 90) / 10 for n in names}
        points = product(*(range(int(model.high[n]) + 1) for n in names))
        kept = [
            p
            for p in points
            if all(sum(c * p[n] for n, c in terms.items()) <= limit for terms, limit in model.rows)
        ]
        best = min((sum(model.goal[n] * p[n] for n in names) for p in kept), default=None)
        solved = engine(model, 10.0)
        if best is None:
            wrong += solved.status != "infeasible"
        else:
            goal = sum(model.goal[n] * v for n, v in zip(names, solved.values, strict=False))
            wrong += solved.status != "optimal" or abs(goal - best) > TOLERANCE * max(
                1.0, abs(best)
            )
    return wrong


def check_in_child(name: str) -> str:
    """Run the self-test in a process of its own; empty if it passes."""
    run = f"from placer.solvers._programs.selftest import complain; complain({name!r})"
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", run],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the self-test did not end in {SECONDS:.0f} s"
    said = done.stderr.strip().splitlines() or [f"the process ended with code {done.returncode}"]
    return said[-1] if done.returncode else ""


def complain(name: str) -> None:
    """Body of the child: end it with a complaint if answers of a solver are wrong."""
    wrong = wrong_answers(importlib.import_module(f"placer.solvers.{name}").engine)
    if wrong:
        sys.exit(f"{wrong} of {PROGRAMS} tiny programs got a wrong answer: do not use this build")
