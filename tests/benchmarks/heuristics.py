"""Measure how far `greedy` and `local_search` are from `exact`, and how long they take.

    python tests/benchmarks/heuristics.py [SECONDS [NUMBER ...]]

Numbers ask these questions alone, and print what each solver chose.
"""

from __future__ import annotations

import importlib
import random
import sys
import time
from collections.abc import Sequence
from math import isnan, nan

from ledger import FOLDER, Ledger, Record, markdown, percentile

from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.workload.profile import load_profile

MODELS = ("roberta-xlm", "resnet50", "convnext-large", "resnet18")
BUDGETS = (2.0, 5.0, 20.0, 50.0)
EXCHANGES: tuple[dict[str, object], ...] = (
    {"exchange": "auto"},
    {"exchange": "central"},
    {"exchange": "parameter-server"},
    {"exchange": "auto", "max_local_steps": 16},
    {"exchange": "model-averaging", "max_local_steps": 64},
)
SUBSETS = ((), (), ("T4",), ("A10", "T4"), ("A100-40", "L4", "V100"))
QUESTIONS = 40
SOLVERS = ("greedy", "local_search", "exact")


def question(number: int, books: dict[str, Catalog]) -> Problem:
    """Draw one question of each kind in turn."""
    draw = random.Random(number)
    book = ("default", "erben-2023")[number % 2]
    least = (1, 1, 2, 3)[number // 2 % 4]
    wishes: dict[str, object] = {
        **EXCHANGES[number // 4 % len(EXCHANGES)],
        "min_regions": least,
        "max_regions": draw.choice((least, 1_000)),
        "gpus": draw.choice(SUBSETS if book == "default" else ((), ("T4",), ("A10", "T4"))),
        "objective": draw.choice(("throughput", "throughput", "cost", "cost-per-sample")),
        "budget_usd_per_hour": draw.choice(BUDGETS),
        "min_workers": draw.choice((least, least, 2 * least)),
        "max_workers": draw.choice((16, 64)),
        "quota_gpus": 8,
    }
    if wishes["objective"] != "throughput":
        wishes |= {
            "budget_usd_per_hour": None,
            "min_samples_per_second": draw.choice((50.0, 200.0, 1000.0)),
        }
    return Problem(
        profile=load_profile(draw.choice(MODELS)),
        catalog=books[book],
        requirements=Requirements(**wishes),  # type: ignore[arg-type]
    )


def gaps_of(results: dict[str, Result]) -> dict[str, float]:
    """How much worse than the best answer known, in percent; infinite where only another solver
    found anything.
    """
    values = {solver: result.value for solver, result in results.items()}
    known = [value for value in values.values() if value is not None]
    if not known:
        return {}
    most = results["exact"].problem.requirements.objective == "throughput"
    best = max(known) if most else min(known)
    return {
        solver: float("inf")
        if value is None
        else 100 * (1 - value / best if most else value / best - 1)
        for solver, value in values.items()
    }


def timed(problem: Problem, solver: str, options: SolveOptions) -> tuple[Result, float]:
    """Solve a fresh copy of the question whose pools are known, and measure CPU milliseconds of the
    solver alone.
    """
    fresh = replace(problem)
    assert fresh.pools
    started = time.process_time()
    answer = importlib.import_module(f"placer.solvers.{solver}").solve(fresh, options)
    spent = 1e3 * (time.process_time() - started)
    estimated = None if answer.placement is None else estimate(answer.placement, problem)
    assert answer.placement is None or not violations(answer.placement, problem)
    result = Result(
        problem=problem,
        status=answer.status,
        placement=answer.placement,
        estimate=estimated,
        bound=answer.bound,
        solver=solver,
        seconds=spent / 1e3,
        candidates=answer.candidates,
    )
    return result, spent


def table(records: Sequence[Record]) -> list[str]:
    """Return a line for each solver: how far it is from the best known, and its CPU time."""
    rows = []
    for solver in SOLVERS:
        mine = [r for r in records if r["kind"] == "heuristic" and r["solver"] == solver]
        gaps = [r["gap_percent"] for r in mine if not isnan(r["gap_percent"])]
        cpu_s = [r["cpu_s"] for r in mine]
        row = [f"{percentile(gaps, share):.2f}" for share in (0.5, 0.95, 1)]
        rows.append((solver, len(gaps), *row, percentile(cpu_s, 0.5), percentile(cpu_s, 0.95)))
    heads = ("solver", "questions", "% off, p50", "p95", "worst", "CPU s p50", "p95")
    return markdown(heads, rows)


def asked(problem: Problem) -> str:
    """The question in one line."""
    wish = problem.requirements
    limits = (
        f"{wish.objective}, {wish.budget_usd_per_hour} USD/h, {wish.min_samples_per_second} "
        f"samples/s"
    )
    site_group = (
        f"{wish.min_workers}.. workers, {wish.min_regions}..{wish.max_regions} regions, "
        f"{','.join(wish.gpus) or 'any GPU'}"
    )
    return (
        f"{problem.catalog.name} {problem.profile.name}: {limits}, {wish.exchange} H "
        f"{wish.max_local_steps}, {site_group}"
    )


def main() -> None:
    """Print a line for each question and a summary."""
    limit, only = (
        float(sys.argv[1]) if len(sys.argv) > 1 else 20.0,
        {int(number) for number in sys.argv[2:]},
    )
    books = {name: load_catalog(name) for name in ("default", "erben-2023")}
    log = None if only else Ledger(FOLDER / "heuristics.jsonl", time_limit_s=limit)
    records: list[Record] = []
    for number in sorted(only or range(QUESTIONS)):
        problem = question(number, books)
        if not problem.pools:
            continue
        timed(problem, "local_search", SolveOptions())  # works out links and prices once
        found = {
            solver: timed(problem, solver, SolveOptions(time_limit_s=limit)) for solver in SOLVERS
        }
        far = gaps_of({solver: result for solver, (result, _) in found.items()})
        print(number, asked(problem))
        for solver, (result, ms) in found.items():
            gap = far.get(solver, nan)  # nan: nobody found an answer
            record = {"kind": "heuristic", "solver": solver, "gap_percent": gap, "cpu_s": ms / 1e3}
            records.append({**record, "number": number})
            if log is not None:
                log.write(records[-1])
            print(
                f"  {solver}: {result.status} {result.value} {gap:.2f} % "
                f"{ms:.0f} ms {result.candidates}",
                flush=True,
            )
            if only and result.placement is not None:
                print("   ", [g.spec for g in result.placement.groups], result.placement.exchange)
    if log is not None:
        log.close()
    print("\n".join(table(records)))


if __name__ == "__main__":
    main()
