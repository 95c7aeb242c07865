"""Compare all proving solvers of placer, and simpler planners, on instances of the frozen set.

    python tests/benchmarks/side_by_side.py [--instances N]

Instances are drawn markets with synchronous strategies, drawn markets with local steps, and the
copy of the default book, so many of each. Each solver gets the whole question (every strategy), the
same gap and the same seconds; its answer is checked against the frozen optimum. CPU seconds include
the child processes in which `milp` and `cpsat` run.

Two planners stand beside them: one that stays in the best single region, and one that knows no
egress prices. What they choose is priced in truth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
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

from placer.advice.recommendation.recommend import recommend
from placer.errors import PlacerError
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

SOLVERS = ("exact", "milp", "cpsat")
KINDS = ("synchronous", "local steps", "default book")
PLANNERS = {"single-region": "one region only", "egress-blind": "without egress prices"}
"""Labels of baselines, and what such a planner is called in the table."""


def kind_of(row: Frozen) -> str:
    """Return which of `KINDS` an instance is."""
    if row.book_model is not None:
        return "default book"
    return "synchronous" if row.local_steps is None else "local steps"


def chosen(frozen: Sequence[Frozen], kind: str, most: int, regions: int) -> list[Frozen]:
    """Some instances of a kind, drawn ones of a size, spread over budgets and seeds: those with
    many workers as well as single machines.
    """
    able = sorted(
        (
            row
            for row in frozen
            if kind_of(row) == kind
            and not row.huge
            and (row.book_model is not None or row.regions == regions)
        ),
        key=lambda row: (row.seed, row.budget, row.quota or 0, row.book_model or ""),
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


def planned(row: Frozen, options: SolveOptions) -> list[Record]:
    """Ask what the planners would choose."""
    result = recommend(row.question.problem(), "exact", options, 1)
    return [
        {
            "kind": "planner",
            **asdict(row.question),
            "planner": option.label,
            "value": option.estimate.samples_per_second.value,
            "optimum": row.optimum,
            "breaks": "" if option.same else option.note,
        }
        for option in result.baselines
        if option.label in PLANNERS
    ]


def table(records: Sequence[Record]) -> list[str]:
    """Summarise solvers by kind of instance, and planners."""
    lines: list[list[object]] = []
    answers = [r for r in records if r["kind"] == "answer"]
    for kind, solver in dict.fromkeys((r["instances"], r["solver"]) for r in answers):
        own = [r for r in answers if (r["instances"], r["solver"]) == (kind, solver)]
        timed = [r for r in own if "cpu_s" in r]
        short = [100 * (1 - r["value"] / r["optimum"]) if r["value"] else 100.0 for r in timed]
        gaps = [float("inf") if r["gap"] is None else 100 * r["gap"] for r in timed]
        lines.append([
            f"{kind}, {solver}",
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
    return [*markdown([*heads, "CPU s p50", "max"], lines), "", *planner_table(records)]


def planner_table(records: Sequence[Record]) -> list[str]:
    """Summarise what simpler planners lose against the optimum."""
    lines: list[list[object]] = []
    planners = [r for r in records if r["kind"] == "planner"]
    for kind, name in dict.fromkeys((r["instances"], r["planner"]) for r in planners):
        own = [r for r in planners if (r["instances"], r["planner"]) == (kind, name)]
        kept = [r for r in own if not r["breaks"]]
        short = [100 * (1 - r["value"] / r["optimum"]) for r in kept]
        lines.append([
            f"{kind}, {PLANNERS[name]}",
            len(own),
            len(own) - len(kept),
            sum(loss > 0.1 for loss in short),
            median(short) if short else None,
            max(short, default=None),
        ])  # fmt: skip
    heads = ["planner", "instances", "breaks a limit", "slower than the optimum"]
    return markdown([*heads, "slower by % p50", "most"], lines)


def main() -> None:
    """Run each solver on each instance."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--instances", type=int, default=6, help="of each kind")
    words.add_argument("--kinds", default=",".join(KINDS))
    words.add_argument("--regions", type=int, default=20, help="size of the drawn instances")
    words.add_argument("--solvers", default=",".join(SOLVERS))
    words.add_argument("--time-limit", type=float, default=30.0)
    words.add_argument("--gap", type=float, default=0.001)
    words.add_argument("-o", "--output", type=Path, default=FOLDER / "side_by_side.jsonl")
    given = words.parse_args()
    frozen = rows()
    instances = [
        row
        for kind in given.kinds.split(",")
        for row in chosen(frozen, kind, given.instances, given.regions)
    ]
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
        found = [answered(row, solver, options) for solver in given.solvers.split(",")]
        for record in [*found, *planned(row, options)]:
            ledger.write({**record, "instances": kind_of(row)})
    ledger.close()
    print("\n".join(table(read(given.output)[1])))


if __name__ == "__main__":
    main()
