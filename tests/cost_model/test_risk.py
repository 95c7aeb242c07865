"""Spot machines: interruptions, zones that lose capacity together, and the risk of a placement."""

import heapq
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.outlook.losses import (
    ASSUMED_INTERRUPTION,
    OBSERVED_CORRELATION,
    Correlation,
    Interruption,
    Losses,
    banded,
    chance_all_lost,
    chance_any_lost,
    chance_per_month,
    expected_share,
    kept_share,
    rate_per_month,
    rates_per_month,
    together,
)
from placer.cost_model.outlook.outlook import SpotOutlook, spot_outlook
from placer.cost_model.outlook.risk import Risk, gang_of, speed_shares
from placer.interface.advisor import Advisor
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.units import Interval

EIGHT = "gcp/us-central1=8xH100:spot"


def placed(
    workers: str, model: str = "roberta-xlm", **words: Any
) -> tuple[Placement, Estimate, Problem]:
    """Place and estimate by hand in the default book."""
    problem = Advisor("default").problem(model, **words)
    placement = place_by_hand(workers, problem)
    return placement, estimate(placement, problem), problem


def outlook(workers: str, **words: Any) -> SpotOutlook:
    """The outlook of spot machines."""
    found = spot_outlook(*placed(workers, **words))
    assert found is not None
    return found


def risk(workers: str, **words: Any) -> Risk:
    """The risk of spot machines."""
    found = outlook(workers, **words).risk
    assert found is not None
    return found


def test_eight_h100_have_the_figures_of_their_class() -> None:
    """54 % (40 to 68 %), half of the gangs within 4 h, 25 % after a day. With the machines that are
    there, 8, 4 or none, the mean speed is 63 % of the full one: more than 54 %, less than the 71 %
    of any machine at all.
    """
    found = outlook(EIGHT)
    at = found.risk
    assert at is not None
    assert at.chance_all is not None
    chance = at.chance_all
    assert (chance.value, chance.low, chance.high) == pytest.approx((0.54, 0.40, 0.68))
    assert at.median_hours == pytest.approx(4.0, abs=0.01)
    assert dict(at.stay)[24.0] == pytest.approx(0.253, abs=0.001)
    full = found.expected_samples_per_second.value
    assert 0.54 < at.expected_samples_per_second.value / full < 0.71
    assert at.chance_enough.value == pytest.approx(0.71, abs=0.02)
    assert at.stay_basis == found.chance_basis == "measured"
    assert [stock.source[:8] for stock in at.stocks] == ["SkyNomad"]
    sizes = [(stock.gpus, stock.machines, stock.zones, stock.observed) for stock in at.stocks]
    assert sizes == [(1, 8, 1, 16)]
    (mixed,) = risk("gcp/us-central1=2xH100:spot,gcp/us-central1=3xH100:8:spot").stocks
    assert (mixed.gpus, mixed.machines, mixed.market, mixed.level) == (None, 5, "spot", "class")
    # 0.44 losses an hour of five minutes and two steps each, not 20 % a month.
    step_s = 5 * 60 + 2 * placed(EIGHT)[1].step.total
    assert found.share.value == pytest.approx(1 - 0.442 * step_s / 3600, abs=0.003)


def test_quantiles_are_those_of_what_can_run() -> None:
    """29 % of the time nothing launches: the lowest twentieth is 0. With a quorum of 8 all or
    nothing: the middle is the full speed, the mean 54 % of it.
    """
    free, bound = risk(EIGHT), risk(EIGHT, exchange="diloco", local_steps=32, quorum=8)
    assert dict(free.quantiles)[0.05] == 0.0
    speeds = [speed for _, speed in free.quantiles]
    assert speeds == sorted(speeds)
    assert bound.enough_workers == 8
    assert bound.chance_enough.value == pytest.approx(0.54, abs=0.02)
    full = dict(bound.quantiles)[0.95]
    assert bound.expected_samples_per_second.value == pytest.approx(0.54 * full, rel=0.03)


def test_enough_machines_are_there_and_stay() -> None:
    """A quorum of eight: 54 % of the moments, and 73.9 % of these for an hour more. Four are
    enough: 64 %, and 81 % of these. With as many on demand, or more: always. Of islands of eight
    and of four machines one is enough, which may be the larger.
    """
    words: dict[str, Any] = {"exchange": "diloco", "local_steps": 32}
    eight, four = (risk(EIGHT, **words, quorum=quorum) for quorum in (8, 4))
    assert dict(eight.held)[1.0] == pytest.approx(0.54 * 0.739, abs=0.001)
    assert dict(four.held)[1.0] == pytest.approx(0.64 * (1 + 1 / 2.31) ** -0.58)
    for quorum in (3, 4):
        mixed = risk(f"{EIGHT},gcp/us-central1=4xH100:on-demand", **words, quorum=quorum)
        assert dict(mixed.held) == {1.0: 1.0, 6.0: 1.0, 24.0: 1.0}
    islands = "gcp/us-central1=1x8xH100:8:spot,gcp/us-central1=1x4xH100:8:spot"
    assert risk(islands, model="llama-3.1-8b").held == eight.held
    assert risk("gcp/us-central1=8xH100:spot,gcp/us-west1=4xH100:spot").held == ()


def test_two_regions_are_neither_one_nor_independent() -> None:
    """All of both less often than of the rarer one, more often than the product; at least one of
    them more often than of either. The first loss comes sooner than each region's own: less often
    is all still there after some hours than in either, about as often as if both were independent.
    """
    both = risk("gcp/us-central1=8xH100:spot,gcp/us-west1=4xH100:spot")
    assert both.chance_all is not None
    assert 0.54 * 0.64 - 0.01 < both.chance_all.value < 0.54
    assert both.all_lost < 0.29 < both.any_lost
    assert both.median_hours is not None
    assert both.median_hours < min(stock.median_hours or 0.0 for stock in both.stocks)
    each = (dict(risk(workers).stay) for workers in (EIGHT, "gcp/us-west1=4xH100:spot"))
    for hours, one, other in zip(dict(both.stay), *(own.values() for own in each), strict=True):
        assert one * other - 0.02 < dict(both.stay)[hours] < min(one, other)


def test_machines_of_known_and_unknown_stay_are_lost_apart() -> None:
    """Four H100 are lost together, 0.58 / 2.31 times an hour, with half of the work; each T4 by
    itself by its band of over 20 %, whose middle is 35 %, with an eighth. Of both the T4 have the
    worse zone, without any for 34 % of the time.
    """
    workers = "gcp/us-central1=4xH100:spot,aws/us-east-1=4xT4:spot"
    found, step_s = outlook(workers), placed(workers)[1].step.total
    rates = (0.58 / 2.31, 0.5, 1), (-math.log(0.65) / 730, 1 / 8, 4)
    lost = [
        Losses(per_hour=Interval(value=rate, low=rate, high=rate), part=part, times=times)
        for rate, part, times in rates
    ]
    assert found.share.value == pytest.approx(kept_share(lost, step_s).value)
    assert found.chance_per_month == pytest.approx(chance_per_month(lost))
    assert found.unavailable == pytest.approx(0.34)
    assert found.risk is not None
    assert found.risk.losses_per_hour == pytest.approx(sum(r * times for r, _, times in rates))
    assert (found.chance_basis, found.risk.stay, found.risk.median_hours) == ("mixed", (), None)


def test_more_than_anybody_asked_for_is_not_observed() -> None:
    """20 of 16: no chance of all and no time that they stay, but no fewer losses than those of 16,
    and a mean that counts 16 at most.
    """
    found = outlook("gcp/us-central1=20xH100:spot")
    at = found.risk
    assert at is not None
    assert at.chance_all is None
    assert at.median_hours is None
    assert at.stay == ()
    assert max(speed for _, speed in at.quantiles) < 0.81 * found.expected_samples_per_second.value
    assert found.share.value < outlook(EIGHT).share.value


def test_what_the_user_knows_wins_over_the_table() -> None:
    """No interruption and no shortage: the full speed for certain. 50 % a month of eight machines:
    a median of ln 2 / (8 x ln 2 / 730 h) = 91 h.
    """
    sure = risk(EIGHT, unavailable="0%", interruption="0%")
    assert sure.chance_all == Interval(value=1.0, low=1.0, high=1.0)
    assert sure.median_hours is None
    assert dict(sure.stay) == {1.0: 1.0, 6.0: 1.0, 24.0: 1.0}
    full = placed(EIGHT)[1].samples_per_second.value
    assert sure.expected_samples_per_second.value == pytest.approx(full)
    often = risk(EIGHT, interruption="50%")
    assert often.median_hours == pytest.approx(730 / 8)
    assert often.stay_basis == "given"


def test_islands_are_there_whole_or_not_at_all() -> None:
    """Two islands of two machines in a world of three for certain: one island, half of the speed,
    whatever the third machine does.
    """
    problem = Advisor("default").problem("llama-3.1-8b")
    placement = place_by_hand("gcp/us-central1=2x2xH100:8:spot", problem)
    assert {group.machines for group in placement.groups} == {2}
    shares = speed_shares(
        placement, problem, gang_of(placement, problem), np.array([[4], [3], [2], [1], [0]])
    )
    assert shares.tolist() == pytest.approx([1.0, 0.5, 0.5, 0.0, 0.0])


def test_what_a_run_cannot_do_without_counts_before_its_speed() -> None:
    """A server on spot takes the first machine, so that of three there two work. Nothing runs where
    a place of data that stays has lost its worker, though the other one is there.
    """
    around = "gcp/us-central1=2xT4:spot"
    placement, _, problem = placed(around, exchange="parameter-server")
    hub = replace(placement.exchange, server=replace(placement.groups[0], count=1))
    risky = replace(placement, exchange=hub)
    there = np.array([[3], [2], [1], [0]])
    shares = speed_shares(risky, problem, gang_of(risky, problem), there)
    assert shares.tolist() == [1.0, 0.5, 0.0, 0.0]
    data = ["gcp/us-central1=1M:stay", "gcp/us-west1=1M:stay"]
    placement, _, problem = placed(f"{around},gcp/us-west1=2xT4:spot", data=data)
    there = np.array([[2, 2], [1, 2], [0, 2], [2, 0]])
    shares = speed_shares(placement, problem, gang_of(placement, problem), there)
    assert shares.tolist() == pytest.approx([1.0, 0.75, 0.0, 0.0])


def test_a_question_from_before_the_table_has_the_former_figures() -> None:
    """10 % of the time without capacity and no risk; the document has no such key."""
    placement, got, problem = placed(EIGHT)
    old = replace(problem, catalog=replace(problem.catalog, capacity=()))
    found = spot_outlook(placement, got, old)
    assert found is not None
    assert found.risk is None
    assert (found.unavailable, found.chance_per_month) == (0.1, 0.2)


def exactly(chance: float, restart_s: float, lost_steps: float) -> Interruption:
    """Build an interruption without a spread."""
    restart, lost = (Interval(value=x, low=x, high=x) for x in (restart_s, lost_steps))
    return Interruption(
        per_month=rates_per_month(chance, chance, chance),
        restart_s=restart,
        lost_steps=lost,
        basis="assumed",
        source="test",
    )


chances, restarts, steps = st.floats(0.0, 0.999), st.floats(0.0, 7200.0), st.floats(0.1, 3600.0)
counts = st.integers(1, 64)


def test_share_without_lost_steps_is_the_frequency_of_erben() -> None:
    """Half of the workers on spot, 1 - 1/e a month = 1/730 an hour, away 73 h: 1/11 of their time,
    1/22 of the run.
    """
    away = exactly(1 - math.exp(-1), 73 * 3600.0, 0.0)
    assert expected_share(4, 8, 60.0, away).value == pytest.approx(21 / 22)


def test_share_without_restart_is_the_lost_steps() -> None:
    """Ten workers at 1/730 an hour and two steps of 36.5 h each: one event lasts 73 h, exp(-10 x 73
    / 730) = 1/e is left. One worker on demand keeps all of its work.
    """
    lost = exactly(1 - math.exp(-1), 0.0, 2.0)
    assert expected_share(10, 10, 36.5 * 3600, lost).value == pytest.approx(math.exp(-1))
    assert expected_share(0, 1, 60.0).value == 1.0


@given(counts, counts, steps, chances, restarts, st.floats(0.0, 2.0), st.floats(0.0, 1.0))
def test_share_falls_with_everything_that_goes_wrong(
    a: int, b: int, step_s: float, chance: float, restart_s: float, lost: float, more: float
) -> None:
    """Frequency, restart, lost steps, length of a step, spot workers among as many; always from 0
    to 1.
    """
    spot, workers = sorted((a, b))
    share = expected_share(spot, workers, step_s, exactly(chance, restart_s, lost)).value
    assert 0 <= share <= 1
    worse = [
        expected_share(
            spot, workers, step_s, exactly(chance + (0.9995 - chance) * more, restart_s, lost)
        ),
        expected_share(spot, workers, step_s, exactly(chance, restart_s * (1 + more), lost)),
        expected_share(spot, workers, step_s, exactly(chance, restart_s, lost + more)),
        expected_share(spot, workers, step_s * (1 + more), exactly(chance, restart_s, lost)),
        expected_share(min(spot + 1, workers), workers, step_s, exactly(chance, restart_s, lost)),
        expected_share(spot + 1, workers + 1, step_s, exactly(chance, restart_s, lost)),
    ]
    assert all(other.value <= share * (1 + 1e-12) for other in worse)


def simulated_share(
    spot: int, workers: int, useless_s: float, rate_per_s: float, restart_s: float, hours: float
) -> float:
    """Play random interruptions: machines leave and rejoin, and each rejoin makes the run useless
    for a while.
    """
    draw, end_s = random.Random(7), hours * 3600
    events = [(draw.expovariate(rate_per_s), "leave") for _ in range(spot)]
    heapq.heapify(events)
    present, useless_until, now, done = workers, 0.0, 0.0, 0.0
    while now < end_s:
        at, kind = heapq.heappop(events)
        done += present * max(0.0, min(at, end_s) - max(now, useless_until))
        now = at
        if kind == "leave":
            present -= 1
            heapq.heappush(events, (at + restart_s, "rejoin"))
        else:
            present += 1
            useless_until = at + useless_s
            heapq.heappush(events, (at + draw.expovariate(rate_per_s), "leave"))
    return done / (workers * end_s)


@pytest.mark.parametrize(
    ("spot", "workers", "step_s", "restart_s"),
    [(8, 8, 120.0, 7200.0), (3, 12, 600.0, 600.0), (16, 16, 1800.0, 300.0)],
)
def test_share_agrees_with_a_simulation(
    spot: int, workers: int, step_s: float, restart_s: float
) -> None:
    """20,000 hours at one interruption in 53 machine-hours (a chance of 0.999999 a month), far
    worse than any market: within 1 %.
    """
    chance = 0.999999
    formula = expected_share(spot, workers, step_s, exactly(chance, restart_s, 2.0)).value
    played = simulated_share(
        spot, workers, 2 * step_s, rate_per_month(chance) / 730 / 3600, restart_s, hours=20_000
    )
    assert formula == pytest.approx(played, rel=0.01)


unavailable = st.floats(0.0, 1.0)
regions = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(unavailable, st.floats(0.0, 0.9), st.floats(0.0, 1.0))
def test_pairs_have_the_correlation_asked_for(u: float, zones: float, part: float) -> None:
    """Two regions u^2 + rho u (1 - u) with rho of regions; two zones of one region with rho of
    zones, whatever they are.
    """
    correlation = Correlation(zones=zones, regions=zones * part, source="test")
    assert chance_all_lost([1, 1], u, correlation) == pytest.approx(
        u * u + zones * part * u * (1 - u), abs=1e-12
    )
    assert chance_all_lost([2], u, correlation) == pytest.approx(
        u * u + zones * u * (1 - u), abs=1e-12
    )


@given(unavailable, regions, st.integers(1, 4), st.randoms())
def test_more_places_never_lose_all_more_often(
    u: float, zones: list[int], more: int, shuffle: random.Random
) -> None:
    """Another region, or another zone in one, lowers `all` and raises `any`; the order of regions
    does not count.
    """
    shuffled = zones.copy()
    shuffle.shuffle(shuffled)
    assert chance_all_lost(shuffled, u) == pytest.approx(chance_all_lost(zones, u), abs=1e-12)
    for grown in ([*zones, more], [zones[0] + more, *zones[1:]]):
        assert chance_all_lost(grown, u) <= chance_all_lost(zones, u) + 1e-12
        assert chance_any_lost(grown, u) >= chance_any_lost(zones, u) - 1e-12


def test_the_mixture_agrees_with_a_simulation() -> None:
    """Regions of two and one zones at u = 0.3: a common chance, one around it for each region, then
    zones; 3 standard errors.
    """
    draw, runs, u = random.Random(11), 40_000, 0.3
    common = 1 / OBSERVED_CORRELATION.regions - 1
    within = (OBSERVED_CORRELATION.zones - OBSERVED_CORRELATION.regions) / (
        1 - OBSERVED_CORRELATION.regions
    )
    around = 1 / within - 1
    every = some = 0
    for _ in range(runs):
        g = draw.betavariate(u * common, (1 - u) * common)
        lost = []
        for count in (2, 1):
            p = draw.betavariate(max(g * around, 1e-9), max((1 - g) * around, 1e-9))
            lost += [draw.random() < p for _ in range(count)]
        every += all(lost)
        some += any(lost)
    for played, exact in (
        (every / runs, chance_all_lost([2, 1], u)),
        (some / runs, chance_any_lost([2, 1], u)),
    ):
        assert played == pytest.approx(exact, abs=3 * math.sqrt(exact * (1 - exact) / runs))


def test_machines_together_keep_the_expected_number_of_interruptions() -> None:
    """Rates add up: 3 machines of one kind and 1 of another go as often as 4 machines of the
    mean.
    """
    often, seldom = banded(0.15, 0.2), ASSUMED_INTERRUPTION
    both = together([(often, 3), (seldom, 1)])
    rates = 3 * rate_per_month(0.175) + rate_per_month(0.2)
    assert 4 * both.per_month.value == pytest.approx(rates)
    assert (both.basis, together([(often, 3), (often, 2)])) == ("mixed", often)
