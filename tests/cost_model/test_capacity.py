"""Forecasts of spot capacity: mixtures that are shares, scenarios with the chances they were drawn
from, and sets of zones against plain enumeration.
"""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.cost_model.capacity import forecast as forecast_module
from placer.cost_model.capacity.forecast import LEADS_H, best_sets, followed, forecast, weights_at
from placer.cost_model.capacity.supply import DAY, Likeness, latent, launchable, unlike_day
from placer.errors import PlacerError

USUAL = np.array([0.3, 0.1, 0.1, 0.1, 0.4])
"""Of 0 to 4 machines."""


def test_weights_are_shares_and_those_that_were_fitted() -> None:
    """At a fitted lead they are that row's, between two they lie between, beyond the ends they
    stay.
    """
    assert weights_at(LEADS_H[0]).now == pytest.approx(0.25)
    assert 0.20 < weights_at(2.0).now < 0.24
    assert weights_at(500.0) == weights_at(LEADS_H[-1])
    for lead in (0.01, 0.7, 5.0, 30.0):
        row = weights_at(lead)
        parts = (row.now, row.short, row.long, row.usual, row.followed)
        assert sum(parts) == pytest.approx(1.0)


def test_a_zone_that_was_full_is_likely_full_soon_and_usual_later() -> None:
    """After ten hours with 4 of 4 machines the chance of 4 falls with the lead, from nearly 1
    towards the usual 0.4; a zone at which nobody looked is as usual at once.
    """
    launched = np.array([[4, -1]] * 10)
    chances = [forecast(launched, range(10), lead, USUAL) for lead in (0.2, 6.0, 48.0)]
    full = [float(row[0, 4]) for row in chances]
    assert full[0] > 0.85
    assert full[0] > full[1] > full[2] > 0.4
    for row in chances:
        assert row.sum(1) == pytest.approx([1.0, 1.0])
        assert row[1] == pytest.approx(USUAL)


TICKS_H = np.arange(60) / 6
"""Ten hours of launches, every ten minutes."""


def test_a_zone_whose_counts_alternate_is_expected_to_alternate() -> None:
    """4, 0, 4, 0, ...: after a 0 the chance of 4 is above 60 % in ten minutes and below 40 % in
    twenty. By the last count and the shares of the last hours alone it was 26 % (0.55 x 0.47).
    """
    launched = np.array([[4], [0]] * 30)
    soon, later = (forecast(launched, TICKS_H, lead, USUAL)[0] for lead in (1 / 6, 1 / 3))
    assert soon[4] > 0.6
    assert later[4] < 0.4
    assert soon.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("launched", "hours"),
    [
        ([[1], [4], [1]], [0.0, 6.0, 12.0]),  # launches are much further apart than the lead
        ([[-1], [-1], [-1]], [0.0, 1 / 6, 2 / 6]),  # nobody looked
        ([[1], [-1], [1]], [0.0, 1 / 6, 2 / 6]),  # nobody looked at what followed
        ([[4], [4], [1]], [0.0, 1 / 6, 2 / 6]),  # there was no count like the last
        ([[2]], [0.0]),
    ],
)
def test_where_nothing_followed_the_shares_stay(
    launched: list[list[int]], hours: list[float]
) -> None:
    """Not a number changes, and no pair is taken for one that is a lead apart."""
    begin = np.array([[0.1, 0.2, 0.3, 0.3, 0.1]])
    assert followed(np.array(launched), hours, 1 / 6, begin) == pytest.approx(begin)


def test_scenarios_have_the_chances_they_were_drawn_from() -> None:
    """20,000 scenarios: shares within 1.5 points, which is four standard errors. The same seed
    gives the same scenarios.
    """
    chances = np.stack([USUAL, USUAL[::-1]])
    states = latent(["x", "x"], 20_000, 3)
    machines = launchable(chances, states)
    for zone in (0, 1):
        shares = np.bincount(machines[:, zone], minlength=5) / len(machines)
        assert shares == pytest.approx(chances[zone], abs=0.015)
    assert np.array_equal(states, latent(["x", "x"], 20_000, 3))


def test_likeness_is_between_independent_and_all_or_nothing() -> None:
    """Correlation 0: both zones short with the product of the chances; 1: as one zone. Zones of one
    region are short together more often than zones of two.
    """
    chances = np.stack([USUAL, USUAL])

    def both_short(region: float, across: float, regions: list[str]) -> float:
        likeness = Likeness(region=region, across=across, source="test")
        machines = launchable(chances, latent(regions, 20_000, 5, likeness))
        return float((machines == 0).all(1).mean())

    assert both_short(0.0, 0.0, ["x", "y"]) == pytest.approx(0.09, abs=0.01)
    assert both_short(1.0, 1.0, ["x", "y"]) == pytest.approx(0.30, abs=0.015)
    assert both_short(0.5, 0.1, ["x", "x"]) > both_short(0.5, 0.1, ["x", "y"]) + 0.02
    with pytest.raises(PlacerError, match="not possible"):
        Likeness(region=0.1, across=0.2, source="test")


def test_a_day_unlike_others_makes_what_is_likely_less_so() -> None:
    """A zone with a chance of 95 % has Phi(1.645 / sqrt(1 + 0.3^2)) = 94.2 % on such a day; two
    zones of independent states are then short together more often than 0.05^2, with a correlation
    of 0.09 / 1.09 = 0.083 between them: in about 0.5 % (0.4 to 0.7 in 40,000 scenarios).
    """
    assert DAY == 0.3
    states = latent(["x", "y"], 40_000, 5, Likeness(region=0.0, across=0.0, source="test"))
    chances = np.array([[0.05, 0.95]] * 2)
    there = launchable(chances, unlike_day(states, 5))
    assert there.mean(0) == pytest.approx([0.942, 0.942], abs=0.004)
    assert 0.004 < float((there == 0).all(1).mean()) < 0.007


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), zones=st.integers(1, 6), least=st.integers(1, 12))
def test_the_best_sets_are_the_best(seed: int, zones: int, least: int) -> None:
    """Against plain enumeration: no set of the size has enough more often; each larger set that is
    listed is more likely than the one before.
    """
    machines = np.random.default_rng(seed).integers(0, 5, (40, zones))
    found = best_sets(machines, least, 4)
    for one in found:
        best = max(
            float((machines[:, list(of)].sum(1) >= least).mean())
            for of in combinations(range(zones), len(one.zones))
        )
        assert one.together == pytest.approx(best)
        assert one.one_zone <= one.together
    chances = [one.together for one in found]
    assert all(a < b for a, b in pairwise(chances))


def test_many_zones_grow_from_the_best_smaller_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no room for all sets, pairs and triples come from the best ones: never better than
    enumeration, and here as good.
    """
    machines = np.random.default_rng(4).integers(0, 5, (200, 10))
    whole = best_sets(machines, 7, 4)
    monkeypatch.setattr(forecast_module, "MOST_SETS", 5)
    grown = best_sets(machines, 7, 4)
    assert [one.together for one in grown] == pytest.approx([one.together for one in whole])


def test_what_followed_is_counted_a_lead_apart_alone() -> None:
    """After 0 always came 3, ten minutes later, in all pairs that are told apart by hand: three
    observations count for the shares to begin with, each pair for exp(-age / 24 h).
    """
    launched, begin = np.array([[0], [3], [0], [3], [0]]), np.full((1, 5), 0.2)
    found = followed(launched, TICKS_H[:5], 1 / 6, begin)
    pairs = np.exp(-3 / 6 / 24) + np.exp(-1 / 6 / 24)
    assert found[0, 3] == pytest.approx((pairs + 3 * 0.2) / (pairs + 3))
    assert found[0, 0] == pytest.approx(3 * 0.2 / (pairs + 3))
