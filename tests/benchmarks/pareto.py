"""A whole frontier against its budgets solved one by one: python tests/benchmarks/pareto.py [POINTS [SECONDS]].

For each question: CPU seconds of the frontier, of a search of its own for each of its points (the same budgets, solved as `recommend`
solves them, with ties broken), and of as many budgets on a geometric grid between the same ends, which is what one would do without it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from markets import Question

from placer.book import load_catalog
from placer.frontier import LEAST_USD_PER_HOUR, Frontier
from placer.frontier_search import frontier
from placer.problem import Problem
from placer.profile import load_profile
from placer.requirements import Requirements
from placer.result import Result, SolveOptions
from placer.solve import solve

MODELS = ("roberta-xlm", "convnext-large", "resnet18")
"""On the default book."""
MARKETS = (("small", 20, 20, (0, 1, 2)), ("medium", 40, 30, (0, 1)))


def questions() -> Iterator[tuple[str, Problem]]:
    """Name and question."""
    book = load_catalog("default")
    for model in MODELS:
        yield f"default {model}", Problem(profile=load_profile(model), catalog=book, requirements=Requirements())
    yield (
        "default roberta-xlm, two regions",
        Problem(
            profile=load_profile("roberta-xlm"),
            catalog=book,
            requirements=Requirements(min_regions=2, max_regions=2, budget_usd_per_hour=20.0),
        ),
    )
    for size, regions, types, seeds in MARKETS:
        for seed in seeds:
            yield f"{size} market {seed}", Question(regions=regions, types=types, budget=50.0, seed=seed).problem()


def cold(problem: Problem, budget: float, seconds: float) -> Result:
    """Solve one budget anew."""
    wish = replace(problem.requirements, objective="throughput", budget_usd_per_hour=max(budget, LEAST_USD_PER_HOUR))
    return solve(replace(problem, requirements=wish), "exact", SolveOptions(time_limit_s=seconds))


def timed(call: Callable[[], object]) -> tuple[object, float]:
    """Result and CPU seconds."""
    started = time.process_time()
    return call(), time.process_time() - started


def grid(found: Frontier) -> list[float]:
    """As many budgets as there are points, between the same ends, evenly on a log scale."""
    number, low, high = len(found.points), found.points[0].usd_per_hour, found.points[-1].usd_per_hour
    low = max(low, LEAST_USD_PER_HOUR)
    return [low * (high / low) ** (k / max(1, number - 1)) for k in range(number)]


def main() -> None:
    """Print a line for each question, and the sums."""
    points, seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 12, float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    sums = [0.0, 0.0, 0.0]
    for name, problem in questions():
        cold(problem, 1.0, 0.2)  # links and prices of the book are worked out once
        found, whole = timed(lambda problem=problem: frontier(problem, "exact", SolveOptions(time_limit_s=seconds), points))  # type: ignore[misc]
        assert isinstance(found, Frontier)
        budgets = [point.usd_per_hour for point in found.points]
        same, alone = timed(lambda: [cold(problem, budget, seconds / points) for budget in budgets])  # noqa: B023
        others, even = timed(lambda: [cold(problem, budget, seconds / points) for budget in grid(found)])  # noqa: B023
        assert isinstance(same, list)
        assert isinstance(others, list)
        distinct = len({result.placement for result in others})
        agree = sum(result.placement == point.placement for result, point in zip(same, found.points, strict=True))
        proved = sum(point.status == "optimal" for point in found.points)
        sums = [a + b for a, b in zip(sums, (whole, alone, even), strict=True)]
        print(
            f"{name}: {len(found.points)} points ({proved} proved, {found.ending}), {found.solves} searches, {whole:.2f} s; its budgets one by "
            f"one {alone:.2f} s ({alone / whole:.1f} x, {agree} the same); even budgets {even:.2f} s for {distinct} points "
            f"({even / distinct / (whole / len(found.points)):.1f} x a point)",
            flush=True,
        )
    whole, alone, even = sums
    print(f"sums: {whole:.2f} s; one by one {alone:.2f} s ({alone / whole:.1f} x); even budgets {even:.2f} s")


if __name__ == "__main__":
    main()
