"""What data costs in the prices of machines that the bounds of `exact` use."""

import importlib
import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from instances import loading_problem, site_problem, wishing
from placer.cost_model.dollars import worker_sample_usd
from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.limits import violations
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.units import SECONDS_PER_HOUR

markets: Any = importlib.import_module("placer.solvers._market.market")
enumeration: Any = importlib.import_module("placer.solvers.exhaustive")


def priced_markets(first: int) -> Iterator[tuple[Any, list[tuple[Placement, Estimate]]]]:
    """Yield those of 60 drawn markets that charge data, with placements that keep the limits."""
    for seed in range(first, first + 60):
        problem = wishing(loading_problem(seed), budget_usd_per_hour=None)
        market = markets.Market.of(problem)
        if market.pools and market.charges_data:
            every = islice(enumeration.placements(problem), 400)
            kept = [p for p in every if p.exchange is not None and not violations(p, problem)]
            if kept:
                yield market, [(p, estimate(p, problem)) for p in kept]


def charged_usd(market: Any, paid: Any, placement: Placement) -> float | None:
    """Add up what machines are charged; None with equal parts of a step or a dominated machine."""
    number = {
        (pool.place, pool.offer.instance_type, pool.offer.market, pool.machines): i
        for i, pool in enumerate(market.pools)
    }
    keys = [(g.place, g.instance_type, g.market, g.machines) for g in placement.groups]
    equal = traits(placement.exchange.strategy).division == "equal"
    if equal or not all(key in number for key in keys):
        return None
    counts = (group.count for group in placement.groups)
    return sum(float(paid.usd[number[k]]) * n for k, n in zip(keys, counts, strict=True))


def test_no_placement_is_charged_more_for_data_than_it_pays() -> None:
    """Prices of machines with their data, and the cheapest way for all samples, are never above
    what an estimate adds up, for any placement that is as fast as the bound takes it to be.
    """
    charged = compared = 0
    for market, priced in priced_markets(91_000):
        speeds = [e.samples_per_second.value for _, e in priced]
        least = sorted(speeds)[len(speeds) // 2]
        paid = market.with_data(least, max(e.usd_per_hour.total for _, e in priced))
        charged += paid is not market
        cheapest = SECONDS_PER_HOUR * least * float(min(paid.data_usd))
        for (placement, estimated), speed in zip(priced, speeds, strict=True):
            machines = charged_usd(market, paid, placement)
            if machines is not None and speed >= least:  # else slower than an improvement
                usd = estimated.usd_per_hour
                assert machines + cheapest <= (usd.compute + usd.data) * (1 + 1e-9), placement
                compared += 1
    assert charged >= 10
    assert compared >= 300


def test_no_sample_is_charged_more_for_data_than_it_pays() -> None:
    """With a limit on the price of a sample machines are charged for the time that they must spend
    on samples to keep it: never more than any placement within that limit pays.
    """
    charged = compared = 0
    for market, priced in priced_markets(91_500):
        passed = [SECONDS_PER_HOUR * e.samples_per_second.value for _, e in priced]
        each = [e.usd_per_hour.total / n for (_, e), n in zip(priced, passed, strict=True)]
        most = sorted(each)[len(each) // 2]
        paid = market.with_data(0.0, math.inf, most)
        charged += paid is not market
        for (placement, estimated), sample_usd, samples in zip(priced, each, passed, strict=True):
            machines = charged_usd(market, paid, placement)
            if machines is not None and sample_usd <= most:
                usd, least = estimated.usd_per_hour, machines + samples * float(min(paid.data_usd))
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


def test_ways_of_data_have_one_price_where_nobody_waits() -> None:
    """Workers of one place pay the same for a sample, unless they share the line of a site, or a
    store that holds all of them back.
    """
    known = unknown = 0
    for problem in map(site_problem, range(40)):
        market = markets.Market.of(problem)
        for at, place in enumerate(market.places):
            pools = [pool for pool in market.pools if pool.place == place]
            prices = {worker_sample_usd(pool, problem) for pool in pools}
            shared = problem.line_samples_per_s(place), problem.most_loaded_samples_per_s
            if problem.data_store is not None and len(prices) == 1:
                expected = None if min(shared) < math.inf else prices.pop()
                assert market.way_usd([at]) == expected
                known, unknown = known + (expected is not None), unknown + (expected is None)
    assert min(known, unknown) >= 5
