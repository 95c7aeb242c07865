"""All-reduce over a whole market as one mixed-integer program with big-M rows.

`monolith.py` gives it to HiGHS and CP-SAT.

Whole numbers: machines of each offer (quotas), one choice for the number of workers N. Binaries:
used regions, host classes. Least seconds of a step T are sought:

* T >= tangents of B / V + averaging + slowest pair; V the summed speed. Tangents lie below the
  convex 1 / V, by 0.06 % at most.
* averaging >= what a host class takes with N workers, if the class is used (big-M); linear in the
  choice of N.
* slowest pair >= kappa 2 S / N / bandwidth of each pair of regions that are both used (big-M).
* pairs of workers across two regions >= the McCormick envelope of n_i n_j, given that both are
  used.
* budget: (budget - machines) T >= 3600 x egress of one exchange; the product is replaced by its
  McCormick envelope.

Each of these, and leaving out what the busiest machine can send, only lets more in: the program is
a relaxation, every placement keeps its rows with its own T, and its bound is a bound on all-reduce
placements. Coefficients come from `placer.cost_model.timing`, `placer.problem.exchange` and
`placer.market.network.graph`. What `greedy` finds bounds T from above, as a user would start the
solver.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from placer.cost_model.convergence import multiplier_of
from placer.cost_model.timing.transfers import averaging_seconds, transfer_seconds
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import pair_bytes
from placer.problem.problem import Problem
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve
from placer.units import SECONDS_PER_HOUR

_linear = importlib.import_module("placer.solvers._programs.linear")
plus, times = _linear.plus, _linear.times
TANGENT_RATIO = 1.05
"""Between two points where tangents touch; they are wrong by ((r - 1) / (r + 1))**2 at most."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """The model, the number of its variable for seconds of a step, machines by offer, and samples
    that count in a step.
    """

    model: Any
    seconds: int
    counts: tuple[int, ...]
    samples: float


@dataclass
class Draft:
    """What the rows share while the program is built."""

    problem: Problem
    model: Any
    counts: list[int]
    workers: dict[int, int]
    regions: dict[str, int]
    at: dict[str, dict[int, float]]
    most: dict[str, int]
    low_s: float
    high_s: float


def program_of(problem: Problem) -> Program:
    """Build the program of the fastest all-reduce placement within the budget of a problem."""
    model, wish = _linear.Model(), problem.requirements
    counts = [model.variable(0, pool.max_count, whole=True) for pool in problem.pools]
    sizes = range(max(2, wish.min_workers), min(wish.max_workers, problem.batch) + 1)
    workers = {n: model.variable(0, 1, whole=True) for n in sizes}
    places = sorted({pool.offer.place for pool in problem.pools})
    at = {
        place: {
            c: 1.0
            for c, pool in zip(counts, problem.pools, strict=True)
            if pool.offer.place == place
        }
        for place in places
    }
    most = {place: min(max(sizes), sum(int(model.high[c]) for c in at[place])) for place in places}
    regions = {place: model.variable(0, 1, whole=True) for place in places}
    low_s, high_s = _ends(problem, max(sizes))
    draft = Draft(problem, model, counts, workers, regions, at, most, low_s, high_s)
    seconds = model.variable(low_s, high_s)
    model.goal = {seconds: 1.0}
    _count_rows(draft)
    _seconds_rows(draft, seconds)
    _budget_rows(draft, seconds)
    factor = multiplier_of(exchange_for("all-reduce", 2, problem), problem).value
    return Program(
        model=model, seconds=seconds, counts=tuple(counts), samples=problem.batch / factor
    )


def samples_per_second(seconds: float, built: Program) -> float | None:
    """Samples/s that count at some seconds of a step: a lower bound on one is an upper bound on the
    other; None without a bound.
    """
    least = max(seconds, built.model.low[built.seconds])
    return built.samples / least if math.isfinite(least) else None


def _ends(problem: Problem, most: int) -> tuple[float, float]:
    """Least seconds of any step, and those of a known answer (or of the slowest two machines over
    the slowest pair).
    """
    speeds = sorted(pool.shared.value for pool in problem.pools)
    low = problem.batch / sum(speeds[-1] for _ in range(most))
    known = solve(problem, "greedy", SolveOptions()).estimate
    if known is not None:
        return low, known.step.total * (1 + 1e-9)
    wan = max(
        (
            _pair_seconds(problem, a, b)
            for a, b in combinations(sorted({p.offer.place for p in problem.pools}), 2)
        ),
        default=0.0,
    )
    return low, problem.batch / (2 * speeds[0]) + max(
        _averaging(problem, host, most) for host in _hosts(problem)
    ) + wan


def _hosts(problem: Problem) -> list[str]:
    return sorted({problem.catalog.gpu(pool.offer.gpu).host for pool in problem.pools})


def _averaging(problem: Problem, host: str, workers: int) -> float:
    calibration = problem.calibration
    own = averaging_seconds(
        [host], problem.gradient_bytes, workers, problem.profile.tensors, calibration
    )
    return calibration.spread([host], 0) * own


def _pair_seconds(problem: Problem, a: str, b: str) -> float:
    """N times the seconds that the slower direction of a pair adds to a step of N workers."""
    streams, network = problem.requirements.streams, problem.network
    both = (
        transfer_seconds(pair_bytes(problem.gradient_bytes, 1), network.link(*ends), streams)
        for ends in ((a, b), (b, a))
    )
    return problem.calibration.kappa[0] * max(both)


def _count_rows(draft: Draft) -> None:
    """One number of workers; machines only in used regions and within quotas."""
    model, problem = draft.model, draft.problem
    model.equal(dict.fromkeys(draft.workers.values(), 1.0), 1.0)
    model.equal(
        plus(dict.fromkeys(draft.counts, 1.0), {d: -float(n) for n, d in draft.workers.items()})
    )
    buckets: dict[tuple[str, ...], tuple[dict[int, float], int]] = {}
    for c, pool in zip(draft.counts, problem.pools, strict=True):
        model.at_most({c: 1.0, draft.regions[pool.offer.place]: -model.high[c]})
        buckets.setdefault(pool.bucket, ({}, pool.gpu_quota))[0][c] = float(pool.offer.gpu_count)
    for terms, quota in buckets.values():
        if len(terms) > 1:
            model.at_most(terms, float(quota))


def _seconds_rows(draft: Draft, seconds: int) -> None:
    """Tangents of B / V, averaging of each host class, slowest pair of used regions."""
    model, problem = draft.model, draft.problem
    rates = {c: pool.shared.value for c, pool in zip(draft.counts, problem.pools, strict=True)}
    averaging, wan = model.variable(0.0, draft.high_s), model.variable(0.0, draft.high_s)
    least_v, most_v = problem.batch / draft.high_s, max(rates.values()) * max(draft.workers)
    speed = model.variable(least_v, most_v)
    model.equal(plus(rates, {speed: -1.0}))
    at = least_v
    while at < most_v * TANGENT_RATIO:
        slope = problem.batch / at**2
        model.at_least(
            plus({seconds: 1.0, averaging: -1.0, wan: -1.0}, {speed: slope}), 2 * problem.batch / at
        )
        at *= TANGENT_RATIO
    for host in _hosts(problem):
        used = model.variable(0, 1, whole=True)
        own = {d: _averaging(problem, host, n) for n, d in draft.workers.items()}
        big = max(own.values())
        model.at_least(plus({averaging: 1.0, used: -big}, times(-1.0, own)), -big)
        for c, pool in zip(draft.counts, problem.pools, strict=True):
            if problem.catalog.gpu(pool.offer.gpu).host == host:
                model.at_most({c: 1.0, used: -model.high[c]})
    for a, b in combinations(draft.regions, 2):
        once = _pair_seconds(problem, a, b)
        part, big = {d: once / n for n, d in draft.workers.items()}, once / min(draft.workers)
        both = {draft.regions[a]: -big, draft.regions[b]: -big}
        model.at_least(plus({wan: 1.0}, both, times(-1.0, part)), -2 * big)


def _budget_rows(draft: Draft, seconds: int) -> None:
    """Money left over machines pays egress; envelopes of n_i n_j and of money times seconds."""
    model, problem = draft.model, draft.problem
    budget = problem.requirements.budget_usd_per_hour
    if budget is None:
        return
    usd = {c: pool.offer.usd_per_hour for c, pool in zip(draft.counts, problem.pools, strict=True)}
    left = model.variable(0.0, budget)
    model.equal(plus(usd, {left: 1.0}), budget)
    crossing = _crossing_usd(draft)
    if not crossing:
        return
    largest, per_byte = max(draft.workers), max(crossing.values())
    once = model.variable(0.0, per_byte * largest**2 / 2)
    model.at_least(plus({once: 1.0}, times(-1.0, crossing)))
    egress = model.variable(0.0, model.high[once] / min(draft.workers))
    for n, chosen in draft.workers.items():
        big = model.high[once] / n
        model.at_least({egress: 1.0, once: -1 / n, chosen: -big}, -big)
    hourly = {egress: SECONDS_PER_HOUR}
    model.at_most(plus(hourly, {left: -draft.high_s}))
    model.at_most(plus(hourly, {left: -draft.low_s, seconds: -budget}), -budget * draft.low_s)


def _crossing_usd(draft: Draft) -> dict[int, float]:
    """N times the USD of one exchange for each pair of workers across two regions, by the variable
    that counts such pairs.
    """
    model, problem = draft.model, draft.problem
    network, once, found = problem.network, pair_bytes(problem.gradient_bytes, 1), {}
    for a, b in combinations(draft.regions, 2):
        usd = once * (network.usd_per_byte(a, b) + network.usd_per_byte(b, a))
        if usd <= 0:
            continue
        most_a, most_b = draft.most[a], draft.most[b]
        pairs = model.variable(0.0, most_a * most_b)
        found[pairs] = usd
        here, there, big = draft.at[a], draft.at[b], float(most_a + most_b - 1)
        both = {draft.regions[a]: -big, draft.regions[b]: -big}
        model.at_least(
            plus({pairs: 1.0}, both, times(-1.0, here), times(-1.0, there)), -1 - 2 * big
        )
        model.at_least(
            plus({pairs: 1.0}, times(-float(most_b), here), times(-float(most_a), there)),
            -float(most_a * most_b),
        )
    return found
