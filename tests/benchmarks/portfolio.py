"""Measure portfolios: tiny ones against brute force, and a hundred jobs against their bound.

Run ``python tests/benchmarks/portfolio.py --tiny 0:200``, the same with ``--draw speed`` (most
work, least hours, fair shares), and ``--jobs 100 --seeds 0:5 --cpu-time``.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from portfolios import brute_force, slot_portfolio, speed_portfolio, tiny_portfolio

from placer.advice.portfolio.generation import Found, chosen
from placer.advice.portfolio.greedy import worth
from placer.advice.portfolio.question.jobs import Job, Portfolio
from placer.interface.advisor import Advisor
from placer.solving import allowance
from placer.solving.answer import SolveOptions

SAME = 1e-6
"""Relative difference up to which two optima are the same."""
MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("llama-3.1-8b", {"tokens": ("0.5B", "1B", "3B", "10B"), "deadline": ("1d", "2d", "4d")}),
    ("llama-3.2-1b", {"tokens": ("1B", "3B", "10B"), "deadline": ("1d", "2d", "3d")}),
    ("mistral-7b", {"tokens": ("0.5B", "1B", "2B"), "deadline": ("2d", "3d", "5d")}),
    ("gpt2-xl", {"tokens": ("1B", "4B"), "deadline": ("1d", "3d")}),
    ("roberta-xlm", {"min_throughput": (200, 400, 800, 1600)}),
    ("resnet50", {"min_throughput": (500, 1500, 4000)}),
    ("qwen2.5-7b", {"tokens": ("0.5B", "1B", "3B"), "deadline": ("1d", "2d", "4d")}),
    ("vit-l-16", {"min_throughput": (100, 300, 900)}),
)
"""Models of the drawn jobs and the words that are drawn for each."""


class CpuClock:
    """A clock of CPU seconds that is read once in a millisecond: a search looks at the clock some
    thousand times a second, and reading CPU time takes up to 70 us on some machines.
    """

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.monotonic()

    def seconds(self) -> float:
        """Return CPU seconds, at most a millisecond old."""
        now = time.monotonic()
        if now > self._wall + 1e-3:
            self._cpu, self._wall = time.process_time(), now
        return self._cpu


def count_cpu_seconds() -> None:
    """Make all limits of time those of CPU seconds."""
    clock = SimpleNamespace(monotonic=CpuClock().seconds)
    names = ("exact.branch_and_bound", "_target", "_drafts.construction")
    searches = (importlib.import_module(f"placer.solvers.{name}") for name in names)
    for module in (allowance, *searches):
        vars(module)["time"] = clock


def drawn_portfolio(seed: int, jobs: int) -> Portfolio:
    """Draw jobs on the default book: models, amounts and deadlines that differ from job to job, and
    an account with few GPUs of a kind in each region.
    """
    draw, advisor = random.Random(f"jobs {seed}"), Advisor()
    quota: dict[Any, int] = {
        ("*", "*", "*"): draw.choice((8, 16)),
        ("*", "*", "spot"): draw.choice((8, 16)),
        ("*", "H100", "*"): draw.choice((8, 16)),
        ("gcp/*", "H100", "*"): draw.choice((16, 32)),
    }
    made = []
    for number in range(jobs):
        model, choices = draw.choice(MODELS)
        words: dict[str, Any] = {name: draw.choice(values) for name, values in choices.items()}
        if "min_throughput" in words:
            words["min_throughput"] = round(words["min_throughput"] * draw.uniform(0.7, 1.4))
        else:
            words["deadline"] = f"{int(words['deadline'][:-1]) * draw.uniform(0.8, 1.5):.2f}d"
        if draw.random() < 0.3:
            words["market"] = draw.choice(("spot", "on-demand"))
        problem = advisor.problem(model, quota=quota, objective="cost", **words)
        made.append(Job(name=f"{model}-{number}", problem=problem))
    return Portfolio(jobs=tuple(made), quotas=made[0].problem.requirements.quotas)


def figures(found: Found) -> tuple[float, float, float, int]:
    """Return the value, the gap, the saving against one by one, and the jobs that run."""
    value = worth(found.columns, found.counts)[-1]
    greedy = worth(found.columns, found.greedy)[-1]
    gap = (value - (found.bound or 0.0)) / value if value else 0.0
    return value, gap, 1 - value / greedy if greedy else 0.0, sum(found.counts.values())


DRAWN: dict[str, Callable[[int], Portfolio]] = {
    "cost": tiny_portfolio,
    "alike": partial(tiny_portfolio, alike=True),
    "speed": speed_portfolio,
    "slots": slot_portfolio,
}
"""Tiny portfolios: for the least cost, with jobs of one model, where speed counts, in slots."""


def against_brute_force(first: int, last: int, draw: Callable[[int], Portfolio]) -> bool:
    """Compare tiny portfolios with brute force; tells whether all agree."""
    wrong = left = 0
    for seed in range(first, last):
        portfolio = draw(seed)
        best = brute_force(portfolio)
        found = chosen(portfolio, SolveOptions(gap=SAME, time_limit_s=60))
        *missed, value = worth(found.columns, found.counts)
        shares = [] if found.shares is None else [-found.shares[0]]
        key = (*missed, *shares, value)
        left += any(best[: len(missed)])
        same = all(abs(a - b) <= SAME * max(1.0, abs(b)) for a, b in zip(key, best, strict=True))
        bound = -inf if found.bound is None else found.bound
        if not same or bound > value + SAME * max(1.0, abs(value)):
            wrong += 1
            print(f"seed {seed}: brute force {best}, found {key}, bound {found.bound}")
    print(f"{last - first} tiny portfolios, {left} in which not all fit: {wrong} differ")
    return wrong == 0


def many_jobs(jobs: int, seeds: range, seconds: float, gap: float) -> None:
    """Print what is found for drawn portfolios, and how long it takes."""
    gaps, savings, cpu = [], [], []
    print("seed   USD/h  bound gap  against one by one  jobs  rounds  searches  CPU s  wall s")
    for seed in seeds:
        portfolio = drawn_portfolio(seed, jobs)
        began, clock = time.process_time(), time.perf_counter()
        found = chosen(portfolio, SolveOptions(gap=gap, time_limit_s=seconds))
        took, wall = time.process_time() - began, time.perf_counter() - clock
        usd, off, saving, ran = figures(found)
        gaps.append(off)
        savings.append(saving)
        cpu.append(took)
        print(
            f"{seed:4}  {usd:6.2f}  {off:9.2%}  {saving:18.2%}  {ran:4}  {found.rounds:6}  "
            f"{found.searches:8}  {took:5.1f}  {wall:6.1f}",
            flush=True,
        )
    print(
        f"median gap {median(gaps):.2%}, saving {median(savings):.2%}, {median(cpu):.1f} s of CPU"
    )


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", metavar="A:B", help="seeds of tiny portfolios")
    parser.add_argument("--draw", choices=DRAWN, default="cost", help="kind of tiny ones")
    parser.add_argument("--jobs", type=int, help="jobs of drawn portfolios")
    parser.add_argument("--seeds", default="0:5", metavar="A:B")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--gap", type=float, default=0.01)
    parser.add_argument(
        "--cpu-time", action="store_true", help="the limit counts CPU seconds: for a busy machine"
    )
    given = parser.parse_args()
    if given.cpu_time:
        count_cpu_seconds()
    agree = True
    if given.tiny:
        first, last = map(int, given.tiny.split(":"))
        agree = against_brute_force(first, last, DRAWN[given.draw])
    if given.jobs:
        seeds = range(*map(int, given.seeds.split(":")))
        many_jobs(given.jobs, seeds, given.time_limit, given.gap)
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
