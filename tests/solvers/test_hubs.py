"""Bounds that look at many hubs at once: what they drop cannot improve, and they drop what one hub
after the other drops.
"""

import importlib
import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import random_problem
from placer.cost_model.dollars import egress_usd
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_named
from placer.cost_model.timing.services import aggregate_seconds, worker_transfer_seconds
from placer.problem.admitted_exchanges import SERVER_VCPUS, server_at, server_bytes
from placer.problem.exchange import strategy, traits
from placer.problem.placement import Exchange, Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.solve import solve
from placer.units import GIB, SECONDS_PER_HOUR
from proofs import MARKETS

EXACT = importlib.import_module("placer.solvers.exact.branch_and_bound")
PLACEMENTS = importlib.import_module("placer.solvers.exhaustive").placements
LEADING = importlib.import_module("placer.solvers.exact.hubs.workers").leading
QUEUED = importlib.import_module("placer.solvers.exact.hubs.machines").HubMachineTree._queued
HUBS = ("store", "regional-stores", "server")
MAKERS = [MARKETS[name] for name in ("random", "wide", "exchange", "used", "carbon", "joint")]


def searches(problem: Problem, target: Any) -> list[Any]:
    """One search for each strategy with a hub, where there is any place for one."""
    market = EXACT.Market.of(problem)
    if not market.pools:
        return []
    modes = [
        EXACT.Mode(problem, name, steps)
        for name, steps in problem.modes
        if traits(name).transport in HUBS
    ]
    return [
        search
        for search in (EXACT.HubSearch(market, target, mode) for mode in modes)
        if search.hubs
    ]


def target_of(problem: Problem) -> Any:
    """A target without an incumbent that never runs out of time."""
    return EXACT.Target.of(problem, gap=0.0, deadline=time.monotonic() + 1e6)


def at_the_limits(target: Any, placement: Placement) -> Any:
    """Limits that a placement just keeps, so that a bound which is a little too high shows."""
    got = evaluate(placement, target.problem)
    return replace(
        target,
        objective=objective_named("throughput"),
        floor_samples_per_second=got.samples_per_second,
        budget_usd_per_hour=got.usd.total,
        limit_usd_per_sample=got.usd_per_million_samples / 1e6,
        limit_carbon_g_per_hour=got.carbon_g_per_hour or math.inf,
    )


def row_of(search: Any, placement: Placement) -> Any:
    """The row of a placement's hub and number of workers; empty if the search does not have it."""
    exchange, n = placement.exchange, placement.workers
    at = [
        k
        for k, hub in enumerate(search.hubs)
        if (hub.aggregator, hub.storage) == (exchange.aggregator, exchange.storage)
    ]
    rows = search.table.each(np.array([n]))
    return rows.at(np.isin(rows.hubs, at))


def test_no_bound_drops_a_placement_at_its_own_limits() -> None:
    """With floor, budget, price per sample and emissions of a placement as limits, its hub, its
    number and its machines stay in, and a placement is found.
    """
    judged = []

    @settings(max_examples=120, deadline=None)
    @given(seed=st.integers(0, 10**6), maker=st.sampled_from(MAKERS))
    def check(seed, maker) -> None:  # type: ignore[no-untyped-def]
        problem = maker(seed)
        if problem.requirements.data_moves:
            return  # what a move adds to prices depends on the limits: see test_solvers.py
        target = target_of(problem)
        found = {
            (search.mode.strategy, search.mode.local_steps): search
            for search in searches(problem, target)
        }
        if not found:
            return
        tried = (
            p for p in PLACEMENTS(problem) if (p.exchange.strategy, p.exchange.local_steps) in found
        )
        market, left = next(iter(found.values())).market, 40
        kept = {
            (pool.offer.place, pool.offer.instance_type, pool.offer.market) for pool in market.pools
        }
        for placement in tried:
            groups = {
                (group.place, group.instance_type, group.market) for group in placement.groups
            }
            if not groups <= kept or violations(placement, problem):
                continue  # a dominated twin stands for a cheaper machine
            search = found[placement.exchange.strategy, placement.exchange.local_steps]
            search.aim(at_the_limits(target, placement))
            row = row_of(search, placement)
            assert len(row) == 1
            judged.append(placement)
            assert search.may_improve()
            best = search.table.best(row.workers)
            assert search._promising(best).all()
            assert search._open(row)[0].all()
            ((at, machines),) = search._worth(row)
            pools = [market.pools[i].offer for i in search.screen.by_price[machines.allowed]]
            assert at == 0
            assert groups <= {(offer.place, offer.instance_type, offer.market) for offer in pools}
            hub = search.hubs[int(row.hubs[0])]
            search._machines(hub, placement.workers, float(row.usd[0]), machines)
            assert search.target.best is not None
            left -= 1
            if not left:
                break

    check()
    assert len(judged) >= 30


def test_many_rows_are_looked_at_as_one_after_the_other() -> None:
    """Around an answer's own figures the bounds of all rows are those of each hub by plain loops
    over its machines.
    """
    judged = []

    @settings(max_examples=60, deadline=None)
    @given(
        seed=st.integers(0, 10**6),
        maker=st.sampled_from(MAKERS),
        speed=st.floats(0.0, 1.5),
        usd=st.floats(0.3, 2.0),
        per=st.booleans(),
    )
    def check(seed, maker, speed, usd, per) -> None:  # type: ignore[no-untyped-def]
        problem = maker(seed)
        answer = solve(problem, "greedy").placement
        if answer is None or problem.requirements.data_moves:
            return
        limits = at_the_limits(target_of(problem), answer)
        target = replace(
            limits,
            floor_samples_per_second=speed * limits.floor_samples_per_second,
            budget_usd_per_hour=usd * limits.budget_usd_per_hour,
            limit_usd_per_sample=usd * limits.limit_usd_per_sample if per else math.inf,
            limit_carbon_g_per_hour=math.inf,
        )
        for search in searches(problem, target):
            rows = search.table.each(search.counts)
            if not len(rows):
                continue
            every = [search.hubs[k].ways() for k in rows.hubs.tolist()]
            up, down = (np.array(way) for way in zip(*every, strict=True))
            _, found = search.screen.worth(target, rows, up, down)
            least = search.bounds.least_seconds(target, rows)
            for at in range(len(rows)):
                hub, n = search.hubs[int(rows.hubs[at])], int(rows.workers[at])
                shortest, price, soonest = one_by_one(search, hub, n)
                judged.append((hub, n))
                assert found.usd[at] == pytest.approx(price, rel=1e-12)
                if price < math.inf:
                    assert found.shortest[at] == pytest.approx(shortest, rel=1e-12)
                assert least[at] == pytest.approx(soonest, rel=1e-12)

    check()
    assert len(judged) >= 15


@settings(deadline=None, max_examples=50)
@given(
    machines=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12
    )
)
def test_leading_machines_are_those_that_no_other_one_in_their_place_beats(
    machines: list[tuple[int, int, int]],
) -> None:
    """Every machine has a leading one in its place that is as fast and no dearer, and no leading
    one has another leading one.
    """
    place, usd, speed = (np.array(each) for each in zip(*machines, strict=True))
    chosen = LEADING(place, usd.astype(float), speed.astype(float)).tolist()

    def beats(i: int, j: int) -> bool:
        return bool(place[i] == place[j] and usd[i] <= usd[j] and speed[i] >= speed[j])

    assert all(any(beats(i, j) for i in chosen) for j in range(len(machines)))
    assert not any(beats(i, j) for i in chosen for j in chosen if i != j)


@settings(deadline=None, max_examples=50)
@given(
    kinds=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=4),
    shared=st.integers(1, 12),
)
def test_a_hub_takes_one_gradient_after_the_other(
    kinds: list[tuple[int, int]], shared: int
) -> None:
    """What is ready first goes first, and each takes its part of the seconds that all of them take:
    the last is through when a plain queue says so.
    """
    *taken, (soonest, left) = kinds
    n = max(1, sum(count for _, count in kinds))
    seconds = 0.0
    for start in sorted(start for start, count in kinds for _ in range(count)):
        seconds = max(seconds, start) + shared / n
    search = SimpleNamespace(taken_kinds=taken, soonest=[soonest], shared=shared, n=n)
    assert QUEUED(search, 0, left) == pytest.approx(seconds)


def one_by_one(search, hub, n) -> tuple[float, float, float]:  # type: ignore[no-untyped-def]
    """Shortest round and price of the n cheapest machines of one hub that keep the limits; least
    round with ideal links.
    """
    market, target, workers = search.market, search.target, search.workers
    calculation = workers.calculation(np.array([n]))[0].tolist()
    beside = workers.usd_beside(np.array([n]))[0].tolist()
    server = float(hub.usd_per_hour(np.array([n]))[0])
    aggregate = float(hub.aggregate(n))
    shared = float(hub.shared(n))
    passing = min(calculation) + aggregate + 2 * shared

    def own(ways, i) -> float:  # type: ignore[no-untyped-def]
        place = market.place_of[i]
        return float(
            max(calculation[i] + ways[0][place] + aggregate + max(ways[1][place], shared), passing)
        )

    payable = [
        i
        for i in range(len(market.pools))
        if beside[i] <= target.max_usd_per_hour and beside[i] < math.inf
    ]
    ideal = workers.ideal.ways()
    soonest = min((own(ideal, i) for i in payable), default=math.inf)
    allowed = []
    for i in payable:
        seconds, counted = own(hub.ways(), i), search.mode.samples / search.mode.multiplier
        regional = (
            hub.transport == "regional-stores"
            and market.pools[i].offer.place not in search.problem.serverless_places
        )
        fits = beside[i] + server <= target.max_usd_per_hour and seconds <= search.mode.seconds_at(
            target.min_speed
        )
        if (
            fits
            and not regional
            and (beside[i] + server) * seconds / SECONDS_PER_HOUR / counted
            <= target.max_usd_per_sample
        ):
            allowed.append((float(market.usd[i]), seconds, int(market.cap[i])))
    cheapest = sorted(usd for usd, _, cap in allowed for _ in range(cap))[:n]
    price = sum(cheapest) + server if len(cheapest) == n else math.inf
    return min((seconds for _, seconds, _ in allowed), default=math.inf), price, soonest


def test_egress_and_ways_of_many_places_are_those_of_each() -> None:
    """What one worker more at a place sends, and what its region adds, as `egress_usd` prices two
    exchanges at that place alone. A mean of a region is put, fetched there and sent on.
    """
    judged = []

    @settings(max_examples=40, deadline=None)
    @given(seed=st.integers(0, 10**6), maker=st.sampled_from(MAKERS))
    def check(seed, maker) -> None:  # type: ignore[no-untyped-def]
        problem = maker(seed)
        for search in searches(problem, target_of(problem)):
            places, size, network = search.market.places, problem.gradient_bytes, problem.network
            for hub in search.hubs:
                worker, region = hub.egress(np.arange(len(places)))
                up, _ = hub.ways()
                exchange = Exchange(
                    strategy=search.mode.strategy,
                    compression="none",
                    aggregator=hub.aggregator,
                    storage=hub.storage or "",
                )
                put = (
                    0.0
                    if hub.transport == "server"
                    else size * network.usd_per_byte(hub.aggregator, hub.storage)
                )
                for at, place in enumerate(places):
                    if hub.transport == "regional-stores":
                        home, away = network.link(place, place), network.link(place, hub.storage)
                        services = problem.calibration.services
                        put_s = worker_transfer_seconds(size, home, services, hub.streams)
                        sent_s = aggregate_seconds(size, 1, home, away, services)
                        assert up[at] == pytest.approx(put_s + sent_s)
                    phases = [
                        strategy(search.mode.strategy).phases([(place, k)], size, exchange)
                        for k in (1, 2)
                    ]
                    one, two = (
                        egress_usd(sent, network, same_zone=problem.requirements.same_zone)
                        for sent in phases
                    )
                    judged.append(place)
                    assert worker[at] == pytest.approx(two - one, rel=1e-9, abs=1e-12)
                    assert region[at] == pytest.approx(
                        max(0.0, 2 * one - two - put), rel=1e-9, abs=1e-12
                    )

    check()
    assert len(judged) >= 50


def test_a_server_is_the_cheapest_roomy_machine_that_holds_the_gradients(default) -> None:  # type: ignore[no-untyped-def]
    """The rule in words: with 8 vCPUs where there is such a machine with enough memory, then the
    lowest price; none has a million GB.
    """
    problem = replace(random_problem(1), catalog=default)
    for place in ("aws/us-east-1", "azure/westeurope", "gcp/us-central1"):
        for workers in (2, 100, 10**9):
            fits = [
                o
                for o in default.offers_at(place)
                if o.market == "on_demand"
                and o.available is None
                and o.memory_gib * GIB >= server_bytes(workers, problem)
            ]
            roomy = [o for o in fits if o.vcpus >= SERVER_VCPUS] or fits
            chosen = server_at(place, workers, problem)
            assert (chosen is None) == (not fits)
            assert chosen is None or chosen.usd_per_hour == min(o.usd_per_hour for o in roomy)
