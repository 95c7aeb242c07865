"""The risk of a placement: how many spot machines launch and stay, and the speed that is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from placer.cost_model.capacity.supply import (
    ENDS,
    Stay,
    Stock,
    chance_of,
    first_loss_h,
    latent,
    likeness_of,
    stay_of,
    stock_of,
    stock_scenarios,
)
from placer.cost_model.estimate import pool_of
from placer.cost_model.timing.site_groups import worker_rate
from placer.market.capacity_table import ZoneCapacity
from placer.problem.datasets import needs_place
from placer.problem.exchange import traits
from placer.problem.placement import Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.units import Interval

Array = npt.NDArray[Any]
DRAWS = 4_096
"""Scenarios; a chance of 95 % is known to 0.4 points then."""
SEED = 0
HOURS = (1.0, 6.0, 24.0)
"""After which it is said whether all machines are still there."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class StockRisk(Struct, frozen=True, kw_only=True):
    """The spot machines of one device in one place. ``gpus`` are those of one machine, None where
    machines differ. ``chance`` is that all of them launch, None where so many were never asked for:
    ``observed`` is how many were. ``median_hours`` pass until half of such gangs have lost
    machines; None: not observed. ``level`` is zone, region or class; ``basis``, ``source`` and
    ``as_of`` are those of the row. ``market`` is the market that they are rented in: spot,
    community, or both.
    """

    place: str
    device: str
    gpus: int | None
    machines: int
    zones: int
    observed: int
    chance: Interval | None
    median_hours: float | None
    level: str
    basis: str
    source: str
    as_of: str
    market: str = "spot"


class Risk(Struct, frozen=True, kw_only=True):
    """What may go wrong with the spot machines of a placement.

    ``chance_all`` is that all of them launch; ``chance_enough``, that there are at least
    ``enough_workers``, on-demand workers counted; ``chance_floor``, that the speed reaches the
    floor or deadline of the question (None without one). ``any_lost`` and ``all_lost`` are the
    chances that some stock, or every one, launches no machine at a time. ``stay`` are pairs of
    hours and the chance that no machine is lost until then; empty where that is not observed, as
    ``median_hours``; ``held`` are such pairs of the chance that there are enough workers at a
    moment and for so long, where all spot machines are in one zone and the table knows both; else
    empty. ``stay_basis`` says who knows how long machines stay. ``losses_per_hour`` are those of a
    run that launches anew after each. ``expected_samples_per_second`` is the mean over
    ``scenarios``, with restarts and lost steps, 0 where a run cannot go on; its ends are those of
    the shares. ``quantiles`` are pairs of a share of the scenarios and the samples/s that no more
    than it stay below. What was never asked for counts as not there. On-demand machines are assumed
    to be there (``on_demand``).
    """

    machines: int
    stocks: tuple[StockRisk, ...]
    chance_all: Interval | None
    enough_workers: int
    chance_enough: Interval
    chance_floor: Interval | None
    median_hours: float | None
    stay: tuple[tuple[float, float], ...]
    held: tuple[tuple[float, float], ...]
    stay_basis: str
    losses_per_hour: float
    expected_samples_per_second: Interval
    quantiles: tuple[tuple[float, float], ...]
    any_lost: float
    all_lost: float
    corr_region: float
    corr_across: float
    scenarios: int
    seed: int
    on_demand: str


class Gang(Struct, frozen=True, kw_only=True):
    """Spot machines of a placement by place and device, with what is known of them."""

    stocks: tuple[Stock, ...]
    wanted: tuple[int, ...]
    gpus: tuple[int | None, ...]
    markets: tuple[str, ...]

    def index(self, group: WorkerGroup) -> int | None:
        """Return which stock a group launches from; None on demand."""
        if group.market == "on_demand":
            return None
        keys = [(stock.place, stock.device) for stock in self.stocks]
        return keys.index((group.place, group.gpu))

    @property
    def stays(self) -> tuple[Stay | None, ...]:
        """How long the machines of each stock stay together; of a stock over zones those of one."""
        return tuple(stay_of(known, count) for known, count in self._in_one_zone)

    @property
    def least_losses(self) -> tuple[Stay | None, ...]:
        """As `stays`; more machines than observed are lost no less often than those."""
        return tuple(
            stay_of(known, min(count, known.stays[-1].machines)) if known.stays else None
            for known, count in self._in_one_zone
        )

    @property
    def _in_one_zone(self) -> list[tuple[ZoneCapacity, int]]:
        """Capacity of a zone of each stock, and the machines that it has to launch there."""
        pairs = zip(self.stocks, self.wanted, strict=True)
        return [(stock.known[0], math.ceil(n / len(stock.zones))) for stock, n in pairs]

    @property
    def alone(self) -> Stay | None:
        """How long the machines stay where all of them are in one zone; None elsewhere."""
        single = len(self.stocks) == 1 and len(self.stocks[0].zones) == 1
        return self.stays[0] if single else None


def gang_of(placement: Placement, problem: Problem) -> Gang:
    """Return the spot machines of a placement, its server's too."""
    groups: dict[tuple[str, str], list[WorkerGroup]] = {}
    for part in (part for group in machine_groups(placement) for part in group.parts):
        if part.market != "on_demand":
            groups.setdefault((part.place, part.gpu), []).append(part)
    wish, rows = problem.requirements, problem.catalog.capacity
    each = [{group.gpu_count for group in several} for several in groups.values()]
    markets = [{group.market for group in several} for several in groups.values()]
    return Gang(
        stocks=tuple(
            stock_of(rows, *key, same_zone=wish.same_zone, unavailable=wish.unavailable)
            for key in groups
        ),
        wanted=tuple(sum(g.machine_count for g in several) for several in groups.values()),
        gpus=tuple(counts.pop() if len(counts) == 1 else None for counts in each),
        markets=tuple(" and ".join(sorted(names, reverse=True)) for names in markets),
    )


def machine_groups(placement: Placement) -> tuple[WorkerGroup, ...]:
    """Return the worker groups of a placement and its server."""
    server = placement.exchange.server
    return placement.groups if server is None else (*placement.groups, server)


def risk_of(
    placement: Placement,
    problem: Problem,
    gang: Gang,
    *,
    samples_per_second: Interval,
    kept: Interval,
    losses_per_h: float,
    constant: bool,
    losses_basis: str,
) -> Risk:
    """Work out the risk of a placement with spot machines. Restarts and lost steps leave a ``kept``
    share of the speed. ``constant``: all machines together are lost at a rate per hour, each on its
    own, as the user or the provider says; else they stay as the table knows it.
    """
    drawn = [stock_scenarios(gang.stocks, gang.wanted, DRAWS, SEED, end) for end in ENDS]
    shares = [speed_shares(placement, problem, gang, machines) for machines in drawn]
    full = samples_per_second
    ends = [getattr(full, end) * getattr(kept, end) for end in ("value", "low", "high")]
    speeds = [share * end for share, end in zip(shares, ends, strict=True)]
    wish, wanted = problem.requirements, np.array(gang.wanted)
    seen = all(count <= stock.most for stock, count in zip(gang.stocks, wanted, strict=True))
    floor = wish.floor_samples_per_second
    likeness = likeness_of(gang.stocks)
    median_h, stay = _constant_stay(losses_per_h) if constant else _stay(gang)
    stocks = tuple(
        _stock_risk(at, gang, [machines[:, at] for machines in drawn])
        for at in range(len(gang.stocks))
    )
    whole = [np.all(machines >= wanted, axis=1) for machines in drawn]
    all_there = _chance(whole) if seen else None
    return Risk(
        machines=sum(gang.wanted),
        stocks=stocks,
        chance_all=stocks[0].chance if len(stocks) == 1 else all_there,
        enough_workers=enough_workers(problem),
        chance_enough=_chance([share > 0 for share in shares]),
        chance_floor=None if floor is None else _chance([speed >= floor for speed in speeds]),
        median_hours=median_h,
        stay=stay,
        held=() if constant else _held(placement, problem, gang),
        stay_basis=losses_basis,
        losses_per_hour=losses_per_h,
        expected_samples_per_second=_ordered([float(speed.mean()) for speed in speeds]),
        quantiles=_quantiles(speeds[0]),
        any_lost=float((drawn[0] == 0).any(1).mean()),
        all_lost=float((drawn[0] == 0).all(1).mean()),
        corr_region=likeness.region,
        corr_across=likeness.across,
        scenarios=DRAWS,
        seed=SEED,
        on_demand="assumed to be there",
    )


def _quantiles(samples: Array) -> tuple[tuple[float, float], ...]:
    """Return pairs of each share of `QUANTILES` and the value that it stays below, between samples
    on a straight line, as `np.quantile` has it, which would load NumPy's masked arrays.
    """
    ordered = np.sort(samples).tolist()
    pairs = []
    for share in QUANTILES:
        at = share * (len(ordered) - 1)
        low = int(at)
        below, above = ordered[low], ordered[min(low + 1, len(ordered) - 1)]
        part = at - low
        step = above - below
        pairs.append((share, below + step * part if part < 0.5 else above - step * (1 - part)))
    return tuple(pairs)


def enough_workers(problem: Problem) -> int:
    """Return the workers without which a run stops: its quorum, or the fewest asked for."""
    wish = problem.requirements
    return max(1, wish.min_workers, wish.quorum or 0)


def speed_shares(placement: Placement, problem: Problem, gang: Gang, machines: Array) -> Array:
    """Return the part of the full speed that remains with the ``machines`` of each stock that are
    there, of shape (draws, stocks); shape (draws,). 0 without `enough_workers`, the server or a
    worker where data must stay. An island is there with all of its machines or not at all; those of
    a stock go to the server first, then to its groups in their order.
    """
    left = machines.copy()
    workers, work = np.zeros(len(left)), np.zeros(len(left))
    by_place: dict[str, Array] = {}
    full, framework = 0.0, traits(placement.exchange.strategy).framework
    alive = np.ones(len(left), dtype=bool)
    server = placement.exchange.server
    for group in (*(() if server is None else (server,)), *placement.groups):
        stocks = [(at, p) for p in group.parts if (at := gang.index(p)) is not None]
        there = np.full(len(left), group.count)
        for at, part in stocks:
            there = np.minimum(there, left[:, at] // part.machines)
        for at, part in stocks:
            left[:, at] -= there * part.machines
        if server is not None and group is server:
            alive &= there >= server.count
            continue
        rate = worker_rate(pool_of(group, problem, placement.workers), framework).value
        workers += there
        work += there * rate
        full += group.count * rate
        by_place[group.place] = by_place.get(group.place, 0) + there
    for place in needs_place(problem.requirements.datasets):
        alive &= by_place.get(place, np.ones(len(left))) > 0
    alive &= workers >= enough_workers(problem)
    built: Array = np.where(alive, work / full, 0.0)
    return built


def _constant_stay(losses_per_h: float) -> tuple[float | None, tuple[tuple[float, float], ...]]:
    """Return the median time to the first loss and the chances of none, at a rate."""
    chances = tuple((hours, math.exp(-losses_per_h * hours)) for hours in HOURS)
    return math.log(2) / losses_per_h if losses_per_h else None, chances


def _stay(gang: Gang) -> tuple[float | None, tuple[tuple[float, float], ...]]:
    """Return the median time to the first loss and the chances of none, where observed."""
    stays, alone = gang.stays, gang.alone
    if alone is not None:
        return alone.median_h, tuple((hours, alone.share(hours)) for hours in HOURS)
    if any(stay is None for stay in stays):
        return None, ()
    groups = [
        (stock.place, zone, stay)
        for stock, stay in zip(gang.stocks, stays, strict=True)
        for zone in stock.zones
        if stay is not None
    ]
    places, zones, each = zip(*groups, strict=True)
    lost = first_loss_h(each, latent(places, DRAWS, SEED + 1, likeness_of(gang.stocks), zones))
    ordered = np.sort(lost)  # `np.median` would load NumPy's masked arrays
    median_h = float((ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2)
    return median_h, tuple((hours, float((lost > hours).mean())) for hours in HOURS)


def _held(placement: Placement, problem: Problem, gang: Gang) -> tuple[tuple[float, float], ...]:
    """Return the chances that one zone launches the machines of enough workers and keeps them."""
    if gang.alone is None or placement.exchange.server is not None:
        return ()
    spot = [part for part in placement.parts if part.market == "spot"]
    sure = placement.workers - sum(part.count for part in spot)
    needed = max(0, enough_workers(problem) - sure) * max(part.machines for part in spot)
    if not needed:
        return tuple((hours, 1.0) for hours in HOURS)
    known = gang.stocks[0].known[0]
    chance, stay = chance_of(known, needed), stay_of(known, needed)
    if chance is None or stay is None:
        return ()
    return tuple((hours, chance * stay.share(hours)) for hours in HOURS)


def _stock_risk(at: int, gang: Gang, machines: Sequence[Array]) -> StockRisk:
    stock, count, stay = gang.stocks[at], gang.wanted[at], gang.stays[at]
    known = stock.known[0]
    row = next((row for row in known.launches if row.machines >= count), known.launches[-1])
    alone = len(stock.zones) == 1
    chances = [chance_of(known, count, end) for end in ENDS] if alone else [None]
    chance = (
        _ordered([share for share in chances if share is not None])
        if alone and None not in chances
        else _chance([there >= count for there in machines])
        if count <= stock.most
        else None
    )
    return StockRisk(
        place=stock.place,
        device=stock.device,
        gpus=gang.gpus[at],
        machines=count,
        zones=len(stock.zones),
        observed=stock.most,
        chance=chance,
        median_hours=None if stay is None else stay.median_h,
        level=row.level,
        basis=row.basis,
        source=row.source,
        as_of=row.as_of,
        market=gang.markets[at],
    )


def _chance(happens: Sequence[Array]) -> Interval:
    return _ordered([float(each.mean()) for each in happens])


def _ordered(figures: Sequence[float]) -> Interval:
    value, low, high = figures
    return Interval(value=value, low=min(value, low), high=max(value, high))
