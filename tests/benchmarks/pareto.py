"""Compare a whole frontier with its budgets solved one by one.

    python tests/benchmarks/pareto.py [POINTS [SECONDS]]

For each question: CPU seconds of the frontier, of a fresh search for each budget that it asked
(ties broken, as `recommend` does), and of one for each budget of its points, as if somebody had
known where they lie; the latter proves nothing about what lies between.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from markets import Question

from placer.advice.frontier.points import LEAST_USD_PER_HOUR
from placer.advice.frontier.trace import Trace
from placer.market.books.book_reader import load_catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.solving.solve import solve
from placer.workload.profile import load_profile

MODELS = ("roberta-xlm", "convnext-large", "resnet18")
"""On the default book."""
MARKETS = (("small", 20, 20, (0, 1, 2)), ("medium", 40, 30, (0, 1)))


def questions() -> Iterator[tuple[str, Problem]]:
    """Name and question."""
    book = load_catalog("default")
    for model in MODELS:
        yield (
            f"default {model}",
            Problem(
                profile=load_profile(model), catalog=book, requirements=Requirements(quota_gpus=8)
            ),
        )
    yield (
        "default roberta-xlm, two regions",
        Problem(
            profile=load_profile("roberta-xlm"),
            catalog=book,
            requirements=Requirements(
                min_regions=2, max_regions=2, budget_usd_per_hour=20.0, quota_gpus=8
            ),
        ),
    )
    for size, regions, types, seeds in MARKETS:
        for seed in seeds:
            yield (
                f"{size} market {seed}",
                Question(regions=regions, types=types, budget=50.0, seed=seed).problem(),
            )


def cold(problem: Problem, budget: float, seconds: float) -> Result:
    """Solve one budget anew."""
    wish = replace(problem.requirements, objective="throughput", budget_usd_per_hour=None)
    if budget < float("inf"):
        wish = replace(wish, budget_usd_per_hour=max(budget, LEAST_USD_PER_HOUR))
    return solve(replace(problem, requirements=wish), "exact", SolveOptions(time_limit_s=seconds))


def timed(problem: Problem, budgets: list[float], seconds: float) -> tuple[list[Result], float]:
    """Results and CPU seconds of budgets solved one by one."""
    started = time.process_time()
    results = [cold(problem, budget, seconds) for budget in budgets]
    return results, time.process_time() - started


def main() -> None:
    """Print a line for each question, and the sums."""
    points, seconds = (
        int(sys.argv[1]) if len(sys.argv) > 1 else 12,
        float(sys.argv[2]) if len(sys.argv) > 2 else 60.0,
    )
    sums = [0.0, 0.0, 0.0]
    for name, problem in questions():
        cold(problem, 1.0, 0.2)  # links and prices of the book are worked out once
        started = time.process_time()
        trace = Trace(problem, "exact", SolveOptions(time_limit_s=seconds), points)
        ending, found = trace.run(), list(trace.proved_points())
        whole = time.process_time() - started
        same, alone = timed(problem, [point.usd_per_hour for point in found], seconds / points)
        _, asked = timed(problem, [budget for budget, _ in trace.caps], seconds / points)
        agree = sum(
            result.placement == point.placement for result, point in zip(same, found, strict=True)
        )
        proved = sum(point.status == "optimal" for point in found)
        sums = [a + b for a, b in zip(sums, (whole, alone, asked), strict=True)]
        print(
            f"{name}: {len(found)} points, {proved} proved, {ending}, {trace.solves} searches, "
            f"{whole:.2f} s CPU"
        )
        print(f"  {len(trace.caps)} asked budgets one by one {asked:.2f} s, {asked / whole:.1f} x")
        print(
            f"  {len(found)} budgets of its points, had they been known, {alone:.2f} s, "
            f"{alone / whole:.1f} x; {agree} the same",
            flush=True,
        )
    whole, alone, asked = sums
    print(
        f"sums: {whole:.2f} s; asked {asked:.2f} s, {asked / whole:.1f} x; points {alone:.2f} "
        f"s, {alone / whole:.1f} x"
    )


if __name__ == "__main__":
    main()
