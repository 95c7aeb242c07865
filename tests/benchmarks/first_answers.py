"""Measure first answers where local steps are allowed: `exact` after 3 s of CPU against the best
known.

    python tests/benchmarks/first_answers.py [--questions 60] [--seconds 3]
    python tests/benchmarks/first_answers.py --search 20    look for better answers, and keep them

Sixty questions: five models on the default book, with no quota and with one of 8, and drawn markets
of three sizes; 5, 50 and 500 USD/h, local steps 1 to 64, all strategies. What is best known stands
in `first_answers.csv` with the digest of its question: the best of `exact` for some time, and of
the search by zones with much more work and several seeds. A question that has changed has no best
known; then its own first answer counts, and the table says so.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ledger import markdown, percentile, problem_digest
from markets import BUDGETS, MODELS, SIZES, Question

from placer.market.books.book_reader import load_catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve
from placer.workload.profile import load_profile

FILE = Path(__file__).with_name("first_answers.csv")
FIELDS = ("question", "digest", "value", "source")
QUOTAS = (None, 8)
MOST_LOCAL_STEPS = 64
LIMIT_S = 12.0
"""Time limit of a question: what a user waits; the clock of the machine ends it before."""
SEEDS = (0, 1)
"""Seeds of the long searches by zones."""
LONG = {"work": 5e8, "deepened": 12, "zones": 4, "vain": 60}
"""What the long searches may do: ten times the work of a first answer and more."""


@dataclass(frozen=True)
class Asked:
    """One question: where its machines come from, and what it asks."""

    book: str
    model: str
    budget: float
    seed: int = 0
    quota: int | None = None

    @property
    def name(self) -> str:
        """What tells it from the others."""
        if self.book == "default":
            return f"default {self.model} {self.budget:g} quota {self.quota or 'none'}"
        return f"{self.book} {self.budget:g} seed {self.seed}"

    def problem(self) -> Problem:
        """Build the question."""
        if self.book != "default":
            regions, types = SIZES[self.book]
            return Question(
                regions=regions,
                types=types,
                budget=self.budget,
                seed=self.seed,
                local_steps=MOST_LOCAL_STEPS,
            ).problem()
        return Problem(
            profile=load_profile(self.model),
            catalog=load_catalog("default"),
            requirements=Requirements(
                budget_usd_per_hour=self.budget,
                max_local_steps=MOST_LOCAL_STEPS,
                quota_gpus=self.quota,
            ),
        )


def questions() -> Iterator[Asked]:
    """List all questions."""
    for budget in BUDGETS:
        for model in MODELS:
            for quota in QUOTAS:
                yield Asked("default", model, budget, quota=quota)
    for budget in BUDGETS:
        for seed in range(10):
            yield Asked(list(SIZES)[seed % len(SIZES)], "", budget, seed=seed)


def first_answer(problem: Problem, seconds: float) -> tuple[float, float]:
    """Return the best value that `exact` has after some seconds of CPU, and the seconds it took."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGPROF, stop)
    started = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        result = solve(problem, "exact", SolveOptions(time_limit_s=4 * LIMIT_S))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return result.value or 0.0, time.process_time() - started


def long_runs(problem: Problem, seconds: float) -> dict[str, float]:
    """Return what long searches find: `exact`, and the search by zones with much work."""
    best = solve(problem, "exact", SolveOptions(time_limit_s=seconds))
    values = {"exact": best.value or 0.0}
    market = importlib.import_module("placer.solvers._market.market").Market.of(problem)
    zones = importlib.import_module("placer.solvers._drafts.zones")
    judge_of = importlib.import_module("placer.solvers._drafts.construction").judge_of
    stopped = importlib.import_module("placer.solvers._target").StoppedError
    for seed in SEEDS:
        judge = judge_of(market, SolveOptions(time_limit_s=10 * seconds, start=best.placement))
        with suppress(stopped):
            zones.ZoneSearch(judge, replace(zones.EFFORT, **LONG)).run(seed)
        values[f"zones, seed {seed}"] = judge.target.best_value
    return values


def known() -> dict[str, tuple[str, float, str]]:
    """Read the best known: digest, value and source by question."""
    if not FILE.exists():
        return {}
    with FILE.open(encoding="utf-8", newline="") as handle:
        return {
            row["question"]: (row["digest"], float(row["value"]), row["source"])
            for row in csv.DictReader(handle)
        }


def keep(name: str, digest: str, value: float, source: str) -> None:
    """Write a value if it is better than what is known of the same question."""
    rows = known()
    before = rows.get(name)
    if before is not None and before[0] == digest and before[1] >= value * (1 - 1e-12):
        return
    rows[name] = digest, value, source
    with FILE.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(FIELDS)
        order = [asked.name for asked in questions()]
        for key in sorted(rows, key=lambda key: (order.index(key) if key in order else -1, key)):
            writer.writerow((key, rows[key][0], repr(rows[key][1]), rows[key][2]))


def main() -> None:
    """Ask, or search, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=0, help="only so many, evenly spread")
    parser.add_argument("--seconds", type=float, default=3.0, help="CPU of a first answer")
    parser.add_argument(
        "--search", type=float, metavar="SECONDS", help="search long, keep the best"
    )
    parser.add_argument("--only", default="", help="only questions whose name has this word")
    given = parser.parse_args()
    asked = [each for each in questions() if given.only in each.name]
    if given.questions:
        asked = asked[:: max(1, len(asked) // given.questions)]
    ratios: dict[tuple[str, float], list[float]] = {}
    for each in asked:
        digest = problem_digest(each.problem())
        if given.search:
            for source, value in long_runs(each.problem(), given.search).items():
                keep(each.name, digest, value, source)
            print(each.name, *known()[each.name][1:], file=sys.stderr, flush=True)
            continue
        value, cpu = first_answer(each.problem(), given.seconds)
        row = known().get(each.name)
        same = row is not None and row[0] == digest
        best = max(value, row[1]) if row is not None and same else value
        book = "default" if each.book == "default" else "drawn"
        ratios.setdefault((book, each.budget), []).append(value / best if best else 1.0)
        told = f"{value / best:.4f}" if best else "nothing known"
        print(
            f"{each.name}: {value:.1f} after {cpu:.2f} s, {told} of the best known"
            f"{'' if same else ' (new question)'}",
            file=sys.stderr,
            flush=True,
        )
    if ratios:
        print("\n".join(table(ratios)))


def table(ratios: dict[tuple[str, float], list[float]]) -> list[str]:
    """Return the ratios by book and budget as lines of Markdown."""
    every = [ratio for values in ratios.values() for ratio in values]
    rows = [(book, f"{budget:g}", *summary(v)) for (book, budget), v in sorted(ratios.items())]
    heads = ("book", "USD/h", "questions", "p50", "p5", "worst", "within 2 %")
    return markdown(heads, [*rows, ("all", "", *summary(every))])


def summary(values: list[float]) -> tuple[object, ...]:
    """Return number, median, fifth percentile, least and how many are within 2 %."""
    near = sum(value >= 0.98 for value in values)
    return (
        len(values),
        f"{percentile(values, 0.5):.4f}",
        f"{percentile(values, 0.05):.4f}",
        f"{min(values):.4f}",
        f"{near} of {len(values)}",
    )


if __name__ == "__main__":
    main()
