"""What data costs in the prices of machines that the bounds of `exact` use."""

import importlib
import math
from itertools import islice
from typing import Any

from instances import loading_problem, wishing
from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.problem.exchange import traits
from placer.units import SECONDS_PER_HOUR

markets: Any = importlib.import_module("placer.solvers._market.market")
enumeration: Any = importlib.import_module("placer.solvers.exhaustive")


def test_no_placement_is_charged_more_for_data_than_it_pays() -> None:
    """Prices of machines with their data, and the cheapest way for all samples, are never above
    what an estimate adds up, for any placement that is as fast as the bound takes it to be.
    """
    charged = compared = 0
    for seed in range(60):
        drawn = loading_problem(91_000 + seed)
        problem = wishing(drawn, budget_usd_per_hour=None)
        market = markets.Market.of(problem)
        if not market.pools or not market.charges_data:
            continue
        every = [p for p in islice(enumeration.placements(problem), 400) if p.exchange is not None]
        allowed = [p for p in every if not violations(p, problem)]
        speeds = {
            id(p): (e.samples_per_second.value, e.usd_per_hour)
            for p in allowed
            for e in (estimate(p, problem),)
        }
        if not speeds:
            continue
        least = sorted(speed for speed, _ in speeds.values())[len(speeds) // 2]
        most = max(usd.total for _, usd in speeds.values())
        paid = market.with_data(least, most)
        charged += paid is not market
        number = {
            (pool.place, pool.offer.instance_type, pool.offer.market, pool.machines): i
            for i, pool in enumerate(market.pools)
        }
        for placement in allowed:
            speed, usd = speeds[id(placement)]
            keys = [(g.place, g.instance_type, g.market, g.machines) for g in placement.groups]
            equal = traits(placement.exchange.strategy).division == "equal"
            if speed < least or equal or not all(key in number for key in keys):
                continue  # slower than an improvement, or of a dominated machine
            machines = sum(
                float(paid.usd[number[key]]) * group.count
                for key, group in zip(keys, placement.groups, strict=True)
            )
            cheapest = SECONDS_PER_HOUR * least * float(min(paid.data_usd))
            assert machines + cheapest <= (usd.compute + usd.data) * (1 + 1e-9), placement
            compared += 1
    assert charged >= 10
    assert compared >= 300


def test_no_sample_is_charged_more_for_data_than_it_pays() -> None:
    """With a limit on the price of a sample machines are charged for the time that they must spend
    on samples to keep it: never more than any placement within that limit pays.
    """
    charged = compared = 0
    for seed in range(60):
        drawn = loading_problem(91_500 + seed)
        problem = wishing(drawn, budget_usd_per_hour=None)
        market = markets.Market.of(problem)
        if not market.pools or not market.charges_data:
            continue
        every = [p for p in islice(enumeration.placements(problem), 400) if p.exchange is not None]
        priced = [(p, estimate(p, problem)) for p in every if not violations(p, problem)]
        if not priced:
            continue
        each = sorted(
            (e.usd_per_hour.total / e.samples_per_second.value / SECONDS_PER_HOUR, number)
            for number, (_, e) in enumerate(priced)
        )
        most = each[len(each) // 2][0]
        paid = market.with_data(0.0, math.inf, most)
        charged += paid is not market
        number = {
            (pool.place, pool.offer.instance_type, pool.offer.market, pool.machines): i
            for i, pool in enumerate(market.pools)
        }
        for sample_usd, at in each:
            placement, estimated = priced[at]
            keys = [(g.place, g.instance_type, g.market, g.machines) for g in placement.groups]
            equal = traits(placement.exchange.strategy).division == "equal"
            if sample_usd > most or equal or not all(key in number for key in keys):
                continue
            machines = sum(
                float(paid.usd[number[key]]) * group.count
                for key, group in zip(keys, placement.groups, strict=True)
            )
            passed = SECONDS_PER_HOUR * estimated.samples_per_second.value
            usd = estimated.usd_per_hour
            least = machines + passed * float(min(paid.data_usd))
            assert least <= (usd.compute + usd.data) * (1 + 1e-9), placement
            compared += 1
    assert charged >= 10
    assert compared >= 150


def test_equal_parts_are_not_charged_by_speed() -> None:
    """Workers of a server do equal parts of a step, however fast they are."""
    problem = next(
        p for p in map(loading_problem, range(91_000, 91_100)) if markets.Market.of(p).charges_data
    )
    market = markets.Market.of(problem)
    paid = market.with_data(1.0, math.inf)
    assert paid.moving_usd
    assert paid.without_ways().moving_usd == ()
    assert paid.without_ways().data_usd == market.data_usd
    assert market.without_ways() is market
