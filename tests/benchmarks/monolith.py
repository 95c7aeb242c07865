"""Compare `exact` with one mixed-integer program of a whole market, as in a textbook.

    python tests/benchmarks/monolith.py --instances 1 --time-limit 15

Both answer the same question: the fastest all-reduce placement of two workers or more within a
budget. The program (`one_program.py`) is a relaxation, so its bound is valid: it is compared with
the answer of `exact`. HiGHS and CP-SAT get the same rows, one thread and the same seconds, each in
a child process; "closed" says that the solver proved the optimum of the program, not of the
question.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from ledger import FOLDER, Ledger, Record, markdown, peak_mib, read
from markets import SIZES, Question

from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

ENGINES = ("milp", "cpsat")
NAMES = {"milp": "HiGHS (PuLP)", "cpsat": "CP-SAT", "exact": "exact"}
START_S = 120.0
"""What a child may take beside its limit, to build the program and to stop."""
BUDGET = 50.0
SLACK = 1e-6
"""Relative error that a solver of floating point is forgiven."""


def asked(question: Question) -> Problem:
    """The benchmark question, with all-reduce among two workers or more only."""
    problem = question.problem()
    return replace(
        problem, requirements=replace(problem.requirements, exchange="all-reduce", min_workers=2)
    )


def run_engine(engine: str, question: Question, seconds: float) -> Record:
    """Run one engine on the program of a question in a child process, with a watchdog."""
    words = [
        sys.executable,
        __file__,
        "--child",
        engine,
        "--question",
        json.dumps(asdict(question)),
        "--time-limit",
        str(seconds),
    ]
    started = time.perf_counter()
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, text=True, timeout=seconds + START_S, check=False
        )
        record: Record = (
            json.loads(done.stdout.splitlines()[-1])
            if done.returncode == 0
            else {"status": f"ended with {done.returncode}"}
        )
    except subprocess.TimeoutExpired:
        record = {"status": "killed"}
    return {
        "kind": "engine",
        **asdict(question),
        "engine": engine,
        **record,
        "wall_s": round(time.perf_counter() - started, 3),
    }


def child(engine: str, question: Question, seconds: float) -> None:
    """Body of the child: build, solve, say bound and status."""
    from one_program import program_of, samples_per_second

    problem = asked(question)
    started = time.process_time()
    built = program_of(problem)
    build_s = time.process_time() - started
    started = time.process_time()
    solved = importlib.import_module(f"placer.solvers.{engine}").engine(built.model, seconds)
    spent = time.process_time() - started
    infeasible = solved.status == "infeasible"
    record = {
        "status": solved.status,
        "bound": None if infeasible else samples_per_second(solved.bound, built),
        "rows": len(built.model.rows),
        "columns": len(built.model.low),
        "build_s": round(build_s, 3),
        "cpu_s": round(spent, 3),
        "peak_mib": round(peak_mib(), 1),
    }
    print(json.dumps(record))


def run_exact(question: Question, seconds: float, gap: float) -> Record:
    """Answer the same question with `exact`."""
    problem = asked(question)
    started, wall = time.process_time(), time.perf_counter()
    result = solve(problem, "exact", SolveOptions(gap=gap, time_limit_s=seconds))
    return {
        "kind": "engine",
        **asdict(question),
        "engine": "exact",
        "status": str(result.status),
        "value": result.value,
        "bound": result.bound,
        "cpu_s": round(time.process_time() - started, 3),
        "wall_s": round(time.perf_counter() - wall, 3),
        "peak_mib": round(peak_mib(), 1),
    }


def wrong(record: Record, known: float) -> bool:
    """Whether a solver says that there is no answer, or none as good as one that is known."""
    return record["status"] == "infeasible" or (
        record.get("bound") is not None and record["bound"] < known * (1 - SLACK)
    )


def table(records: Sequence[Record]) -> list[str]:
    """Summarise by size and engine; a gap is an engine's bound against the answer of `exact`."""
    rows = []
    for size, key in SIZES.items():
        own = [r for r in records if r["kind"] == "engine" and (r["regions"], r["types"]) == key]
        best = {
            r["seed"]: r["value"] for r in own if r["engine"] == "exact" and r["value"] is not None
        }
        for engine in ("exact", *ENGINES):
            these = [r for r in own if r["engine"] == engine and r["seed"] in best]
            if not these:
                continue
            gaps = [
                100 * (r["bound"] / best[r["seed"]] - 1)
                if r.get("bound") is not None
                else float("inf")
                for r in these
            ]
            rows.append([
                f"{size} {key[0]} x {key[1]}, {NAMES[engine]}",
                len(these),
                sum(r["status"] == "optimal" for r in these),
                sum(wrong(r, best[r["seed"]]) for r in these),
                median(gaps),
                max(gaps),
                max((float(r["cpu_s"]) for r in these if "cpu_s" in r), default=float("nan")),
                max((float(r["peak_mib"]) for r in these if "peak_mib" in r), default=float("nan")),
                max((r.get("rows", 0) for r in these), default=0) or None,
            ])  # fmt: skip
    heads = (
        "size, solver|instances|closed|wrong|bound above the answer %, p50|most|CPU s "
        "max|peak MiB|rows"
    )
    return markdown(heads.split("|"), rows)


def main() -> None:
    """Run all engines and `exact` on the same instances."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--instances", type=int, default=2, help="of each size")
    words.add_argument("--sizes", default=",".join(SIZES))
    words.add_argument("--time-limit", type=float, default=60.0, help="seconds for each engine")
    words.add_argument(
        "--gap", type=float, default=0.001, help="of exact; the engines are asked for 0"
    )
    words.add_argument("-o", "--output", type=Path, default=FOLDER / "monolith.jsonl")
    words.add_argument("--child", help=argparse.SUPPRESS)
    words.add_argument("--question", help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.child:
        child(given.child, Question(**json.loads(given.question)), given.time_limit)
        return
    ledger = Ledger(
        given.output,
        instances=given.instances,
        time_limit_s=given.time_limit,
        budget_usd_per_hour=BUDGET,
    )
    for size in given.sizes.split(","):
        regions, types = SIZES[size]
        for seed in range(given.instances):
            question = Question(regions=regions, types=types, budget=BUDGET, seed=seed)
            ledger.write(run_exact(question, given.time_limit, given.gap))
            for engine in ENGINES:
                ledger.write(run_engine(engine, question, given.time_limit))
    ledger.close()
    print("\n".join(table(read(given.output)[1])))


if __name__ == "__main__":
    main()
