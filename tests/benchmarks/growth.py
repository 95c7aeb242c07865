"""Measure how the time of `exact` grows with regions and with types of machines.

    python tests/benchmarks/growth.py --seeds 0:3 --time-limit 2

For each number the median of CPU seconds over some seeds; the slope is that of a straight line
through the logarithms (least squares), so 1 is linear and 2 quadratic. A question that was stopped
counts with its time so far: slopes are too small then, and the table says how many were. The copy
of the default book has 130 regions with machines of the three large clouds, so regions end there.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from drawing import drawn
from ledger import FOLDER, ROOT, Ledger, Record, markdown, read
from markets import Question
from solving import measured, seeds

from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

REGIONS = (10, 20, 40, 80, 130)
TYPES = (5, 10, 20, 40, 56)
FIXED_TYPES, FIXED_REGIONS = 20, 40
BUDGET = 50.0
PLOT = ROOT / "docs" / "benchmarks" / "growth.svg"


def questions(seed_range: range, budget: float) -> list[tuple[str, int, Question]]:
    """What is varied, its number and the question."""
    by_regions = [("regions", n, n, FIXED_TYPES) for n in REGIONS]
    by_types = [("types", n, FIXED_REGIONS, n) for n in TYPES]
    return [
        (what, n, Question(regions=regions, types=types, budget=budget, seed=seed))
        for what, n, regions, types in by_regions + by_types
        for seed in seed_range
    ]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Slope of the least-squares line through the logarithms.

    Examples
    --------
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
            fixed = f"{FIXED_TYPES} types" if what == "regions" else f"{FIXED_REGIONS} regions"
            stopped = sum(r["status"] == "time_limit" for r in own)
            rows.append(
                [
                    f"{n:g} {what}, {fixed}",
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


def plot(records: Sequence[Record], path: Path = PLOT) -> None:
    """Draw the curves."""
    found = curves(records)
    named = {
        f"{what} (slope {slope(points):.2f})": points
        for what, points in found.items()
        if len(points) > 1
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        drawn(named, "regions or types", "CPU seconds of exact, median"), encoding="utf-8"
    )


def main() -> None:
    """Measure, write, print and draw."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--seeds", default="0:10", help="FIRST:END")
    words.add_argument("--budget", type=float, default=BUDGET, help="USD/h")
    words.add_argument("--time-limit", type=float, default=60.0)
    words.add_argument("-o", "--output", type=Path, default=FOLDER / "growth.jsonl")
    words.add_argument(
        "--plot", type=Path, help="file of the drawing (report.py draws docs/benchmarks/growth.svg)"
    )
    given = words.parse_args()
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
    records = read(given.output)[1]
    print("\n".join(table(records)))
    if given.plot is not None:
        plot(records, given.plot)


if __name__ == "__main__":
    main()
