"""Supply of spot machines: chances between rows, scenarios of zones together, and time until
machines are lost.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.cost_model.capacity.scenarios import Likeness, latent
from placer.cost_model.capacity.supply import (
    Stay,
    chance_of,
    chances_of,
    first_loss_h,
    likeness_of,
    stay_of,
    stock_of,
    stock_scenarios,
    supply_scenarios,
)
from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.capacity_table import CapacityRow, ZoneCapacity, class_rows, zone_capacity

H100 = zone_capacity(
    class_rows(), provider="gcp", region="us-central1", device="H100", market="spot"
)


def known(*shares: tuple[int, float]) -> ZoneCapacity:
    """A zone with such shares of at least so many machines."""
    rows = tuple(
        CapacityRow(
            provider="*",
            device="*",
            market="spot",
            machines_asked=16,
            machines=machines,
            share=share,
            share_low=share,
            share_high=share,
            basis="given",
            source="test",
            as_of="2026-11-01",
        )
        for machines, share in shares
    )
    return ZoneCapacity(launches=rows, stays=(), corr_region=None, corr_across=None, zones=None)


def test_chances_lie_on_lines_between_rows_and_end_with_them() -> None:
    """Six of 16 H100 lie half way between .64 of four and .54 of eight; 17 were never asked for."""
    assert chance_of(H100, 8) == pytest.approx(0.54)
    assert chance_of(H100, 6) == pytest.approx(0.59)
    assert chance_of(H100, 0) == 1.0
    assert chance_of(H100, 17) is None
    assert chance_of(H100, 8, "share_low") == pytest.approx(0.40)
    # Below the fewest of any row: who has eight has one.
    assert chance_of(known((8, 0.3)), 1) == pytest.approx(0.3)
    assert chance_of(known(), 1) is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.integers(1, 24))
def test_chances_are_shares_and_never_rise(shares: list[float], most: int) -> None:
    """Any rows, even some that rise: a valid distribution, whose tail falls; what was not observed
    is not there.
    """
    zone = known(*((2**at, share) for at, share in enumerate(shares)))
    chances = chances_of(zone, most)
    assert chances.sum() == pytest.approx(1.0)
    assert (chances >= -1e-12).all()
    assert chances[zone.most + 1 :] == pytest.approx(0.0)


def test_more_zones_never_lower_the_chance_of_enough() -> None:
    """The same seed gives a zone the same scenarios beside others, so each one only adds."""
    chances = np.stack([chances_of(H100, 16)] * 5)
    regions = ["gcp/a", "gcp/a", "gcp/b", "gcp/c", "gcp/c"]
    whole = supply_scenarios(regions, chances, 2048, 3)
    for count in range(1, 5):
        part = supply_scenarios(regions[:count], chances[:count], 2048, 3)
        assert np.array_equal(part, whole[:, :count])
    for needed in (4, 8, 16, 32):
        enough = [(whole[:, :count].sum(1) >= needed).mean() for count in range(1, 6)]
        assert enough == sorted(enough)


def test_a_stock_is_one_zone_or_those_that_are_known() -> None:
    """The class row says that regions with H100 have one zone; own rows of zones are more, of which
    one stays where machines stay in one zone: the best.
    """
    rows = load_catalog("default").capacity
    place = ("gcp/us-central1", "H100")
    assert len(stock_of(rows, *place, same_zone=False).zones) == 1
    zones = [
        CapacityRow(
            provider="gcp",
            region="us-central1",
            zone=f"us-central1-{letter}",
            device="H100",
            market="spot",
            machines_asked=16,
            machines=16,
            share=share,
            share_low=share,
            share_high=share,
            basis="measured",
            source="own launches",
            as_of="2026-11-01",
        )
        for letter, share in (("a", 0.2), ("b", 0.9), ("c", 0.5), ("f", 0.1))
    ]
    table = [*rows, *zones]
    assert stock_of(table, *place, same_zone=True).zones == ("gcp/us-central1-b H100",)
    spread = stock_of(table, *place, same_zone=False)
    assert [zone.rpartition("-")[2] for zone in spread.zones] == ["b H100", "c H100", "a H100"]
    assert spread.most == 48
    # 0.9 of the best zone alone, more with three; never the certainty of a product.
    machines = stock_scenarios([spread], [16], 4096, 0)
    assert 0.9 < (machines[:, 0] >= 16).mean() < 1 - 0.1 * 0.5 * 0.8
    assert likeness_of([spread]).region == 0.30


def test_survival_lies_between_rows_and_ends_with_them() -> None:
    """Median 4 h for eight H100, between its neighbours for six; below four that of four; 17: not
    observed.
    """
    eight, four, six = (stay_of(H100, machines) for machines in (8, 4, 6))
    assert eight is not None
    assert four is not None
    assert six is not None
    assert eight.median_h == pytest.approx(4.0, abs=0.01)
    assert eight.median_h < six.median_h < four.median_h
    assert stay_of(H100, 1) == four
    assert stay_of(H100, 17) is None


def test_losses_of_a_run_that_launches_anew() -> None:
    """Times between losses of 1 and 3 h in turn, met at any moment: a quarter of the moments lie in
    the short ones. The density of the time that is left, at 0, is 1/2 an hour, one over the mean:
    so is a / b of any survival, its hazard at 0.
    """
    assert Stay(a=2.0, b_h=4.0).losses_per_h == pytest.approx(0.5)
    for stay in (Stay(a=0.42, b_h=0.95), Stay(a=0.87, b_h=4.53)):
        assert stay.losses_per_h == pytest.approx(stay.hazard_per_h(0.0))
        assert stay.losses_per_h > stay.hazard_per_h(24.0)


def test_the_first_loss_of_two_groups_comes_sooner_unless_they_are_one() -> None:
    """Survival of 1 h: independent groups with its square, alike groups with itself."""
    stay = Stay(a=0.42, b_h=0.95)

    def share(correlation: float) -> float:
        likeness = Likeness(region=correlation, across=correlation, source="test")
        states = latent(["a", "b"], 20_000, 5, likeness)
        return float((first_loss_h([stay, stay], states) > 1.0).mean())

    assert share(0.0) == pytest.approx(stay.share(1.0) ** 2, abs=0.015)
    assert share(1.0) == pytest.approx(stay.share(1.0), abs=0.015)
    states = latent(["a"], 20_000, 5)
    assert np.median(first_loss_h([stay], states)) == pytest.approx(stay.median_h, rel=0.06)


@pytest.mark.parametrize(("a", "b_h"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.nan, 1.0)])
def test_a_survival_that_never_falls_is_refused(a: float, b_h: float) -> None:
    """Both figures are positive."""
    with pytest.raises(PlacerError, match="falls for no time"):
        Stay(a=a, b_h=b_h)
