"""Measure how the time of `exact` grows with regions, offers and islands.

    python tests/benchmarks/growth.py --seeds 0:3 --time-limit 2

For each number the median of CPU seconds over some seeds; the slope is that of a straight line
through the logarithms (least squares), so 1 is linear and 2 quadratic. A question that was stopped
counts with its time so far: slopes are too small then, and the table says how many were. Regions
end with the 180 that sell machines. Offers come from more types of machines and hosts in 80
regions. For islands the default book is asked for MPT-7B, on islands of one machine and up to so
many.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ledger import FOLDER, Ledger, Record, markdown, read
from markets import PRESENT, Question, book_problem
from solving import limit_cpu_seconds, measured, seeds

from placer.problem.problem import Problem
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

REGIONS = (10, 20, 40, 80, 180)
OFFERS = (200, 1_000, 5_000, 20_000, 100_000)
ISLANDS = (1, 2, 4, 8, 16, 32)
FIXED_TYPES, FIXED_REGIONS = 20, 80
ISLAND_MODEL = "mpt-7b"
VARIED = {
    "regions": f"regions, {FIXED_TYPES} types",
    "offers": f"offers asked for, {FIXED_REGIONS} regions",
    "islands": f"machines of an island at most, default book, {ISLAND_MODEL}",
}
BUDGET = 50.0


@dataclass(frozen=True, kw_only=True, slots=True)
class IslandQuestion(Question):
    """The default book asked for `ISLAND_MODEL`, with so many machines of an island at most."""

    machines: int

    def problem(self) -> Problem:
        """Build the question."""
        return book_problem(ISLAND_MODEL, self.budget, machines_per_island=f"1..{self.machines}")


def questions(seed_range: range, budget: float) -> list[tuple[str, int, Question]]:
    """What is varied, its number and the question."""
    by_regions = [("regions", n, n, FIXED_TYPES) for n in REGIONS]
    by_offers = [
        ("offers", n, FIXED_REGIONS, max(1, round(n / (FIXED_REGIONS * 2 * PRESENT))))
        for n in OFFERS
    ]
    drawn_ = [
        (what, n, Question(regions=regions, types=types, budget=budget, seed=seed))
        for what, n, regions, types in by_regions + by_offers
        for seed in seed_range
    ]
    return drawn_ + [
        ("islands", n, IslandQuestion(regions=0, types=0, budget=budget, seed=0, machines=n))
        for n in ISLANDS
    ]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Slope of the least-squares line through the logarithms.

    >>> round(slope([(1, 3), (2, 12), (4, 48)]), 6)
    2.0
    """
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    spread = math.fsum((x - mean_x) ** 2 for x in xs)
    return (
        math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
        if spread
        else math.nan
    )


def curves(records: Sequence[Record]) -> dict[str, list[tuple[float, float]]]:
    """Points (number, median CPU seconds) by what is varied."""
    found: dict[str, dict[int, list[float]]] = {}
    for r in records:
        if r["kind"] == "question":
            found.setdefault(r["varied"], {}).setdefault(r["number"], []).append(r["cpu_s"])
    return {
        what: [(n, max(median(times), 1e-4)) for n, times in sorted(by.items())]
        for what, by in found.items()
    }


def table(records: Sequence[Record]) -> list[str]:
    """Summarise by what is varied, with the slopes."""
    rows = []
    for what, points in curves(records).items():
        for n, seconds in points:
            own = [
                r
                for r in records
                if r["kind"] == "question" and (r["varied"], r["number"]) == (what, n)
            ]
            stopped = sum(r["status"] == "time_limit" for r in own)
            rows.append(
                [
                    f"{n:,} {VARIED[what]}",
                    median(r["pools"] for r in own),
                    seconds,
                    max(r["cpu_s"] for r in own),
                    stopped,
                    len(own),
                ]
            )
    lines = markdown(["market", "offers p50", "CPU s p50", "max", "stopped", "questions"], rows)
    slopes = [
        f"{what} {slope(points):.2f}" for what, points in curves(records).items() if len(points) > 1
    ]
    return (
        [*lines, "", f"Slope of log seconds against log number: {', '.join(slopes)}."]
        if slopes
        else lines
    )


def main() -> None:
    """Measure, write and print."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--seeds", default="0:10", help="FIRST:END")
    words.add_argument("--budget", type=float, default=BUDGET, help="USD/h")
    words.add_argument("--time-limit", type=float, default=60.0)
    words.add_argument("-o", "--output", type=Path, default=FOLDER / "growth.jsonl")
    given = words.parse_args()
    limit_cpu_seconds()
    options = SolveOptions(time_limit_s=given.time_limit)
    solve(
        Question(regions=4, types=4, budget=5.0, seed=0).problem()
    )  # modules are loaded outside the first time
    ledger = Ledger(
        given.output,
        seeds=given.seeds,
        time_limit_s=given.time_limit,
        budget_usd_per_hour=given.budget,
    )
    for what, n, question in questions(seeds(given.seeds), given.budget):
        ledger.write({**measured(question, options), "varied": what, "number": n})
    ledger.close()
    print("\n".join(table(read(given.output)[1])))


if __name__ == "__main__":
    main()
