"""Compare all proving solvers of placer on small instances of the frozen set.

    python tests/benchmarks/side_by_side.py [--instances N]

Each solver gets the whole question (every strategy), the same gap and the same seconds; its answer
is checked against the frozen optimum. CPU seconds include the child processes in which `milp`,
`highs` and `cpsat` run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from frozen import WRONG, Frozen, rows, verdict
from ledger import (
    FOLDER,
    Ledger,
    Record,
    children_cpu_s,
    markdown,
    percentile,
    problem_digest,
    read,
)

from placer.errors import PlacerError
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

SOLVERS = ("exact", "milp", "highs", "cpsat")


def chosen(frozen: Sequence[Frozen], most: int, regions: int) -> list[Frozen]:
    """Some instances of a size, spread over budgets and seeds: those with many workers as well as
    single machines.
    """
    able = sorted(
        (
            row
            for row in frozen
            if row.regions == regions and row.local_steps is None and not row.huge
        ),
        key=lambda row: (row.seed, row.budget),
    )
    several = [row for row in able if row.strategy != "none"]
    mixed = [
        row
        for pair in zip(several, [row for row in able if row.strategy == "none"], strict=False)
        for row in pair
    ]
    return [*mixed, *(row for row in able if row not in mixed)][:most]


def answered(row: Frozen, solver: str, options: SolveOptions) -> Record:
    """Solve a frozen instance and compare."""
    problem = row.question.problem()
    digest = problem_digest(problem)
    problem = replace(row.question.problem())
    wall, cpu = time.perf_counter(), time.process_time() + children_cpu_s()
    try:
        result = solve(problem, solver, options)
    except PlacerError as error:
        return {
            "kind": "answer",
            **asdict(row.question),
            "solver": solver,
            "status": "failed",
            "error": error.message,
            "verdict": "failed",
        }
    record: Record = {
        "kind": "answer",
        **asdict(row.question),
        "solver": solver,
        "digest": digest,
        "status": str(result.status),
        "value": result.value,
        "bound": result.bound,
        "gap": result.gap,
        "cpu_s": round(time.process_time() + children_cpu_s() - cpu, 3),
        "wall_s": round(time.perf_counter() - wall, 3),
        "optimum": row.optimum,
    }
    return {**record, "verdict": verdict(row, record)}


def table(records: Sequence[Record]) -> list[str]:
    """Summarise by solver."""
    lines = []
    for solver in dict.fromkeys(r["solver"] for r in records if r["kind"] == "answer"):
        own = [r for r in records if r["kind"] == "answer" and r["solver"] == solver]
        timed = [r for r in own if "cpu_s" in r]
        short = [100 * (1 - r["value"] / r["optimum"]) if r["value"] else 100.0 for r in timed]
        gaps = [float("inf") if r["gap"] is None else 100 * r["gap"] for r in timed]
        lines.append([
            solver,
            len(own),
            sum(r["status"] == "optimal" for r in own),
            sum(r["verdict"] in (*WRONG, "failed") for r in own),
            median(gaps) if gaps else None,
            max(0.0, *short) if short else None,
            *(percentile([r["cpu_s"] for r in timed], share) for share in (0.5, 1.0)),
        ])  # fmt: skip
    heads = [
        "solver",
        "instances",
        "proved",
        "contradict the frozen optimum",
        "gap % p50",
        "answer below the optimum %, most",
    ]
    return markdown([*heads, "CPU s p50", "max"], lines)


def main() -> None:
    """Run each solver on each instance."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--instances", type=int, default=12)
    words.add_argument("--regions", type=int, default=20, help="size of the instances")
    words.add_argument("--solvers", default=",".join(SOLVERS))
    words.add_argument("--time-limit", type=float, default=30.0)
    words.add_argument("--gap", type=float, default=0.001)
    words.add_argument("-o", "--output", type=Path, default=FOLDER / "side_by_side.jsonl")
    given = words.parse_args()
    instances = chosen(rows(), given.instances, given.regions)
    if not instances:
        raise SystemExit(
            f"error: frozen.csv has no instances of {given.regions} regions\n  tip: run solving.py "
            f"--freeze"
        )
    options = SolveOptions(gap=given.gap, time_limit_s=given.time_limit)
    ledger = Ledger(
        given.output, instances=len(instances), time_limit_s=given.time_limit, gap=given.gap
    )
    for row in instances:
        for solver in given.solvers.split(","):
            ledger.write(answered(row, solver, options))
    ledger.close()
    print("\n".join(table(read(given.output)[1])))


if __name__ == "__main__":
    main()
