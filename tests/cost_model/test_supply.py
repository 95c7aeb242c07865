"""Supply of spot machines: chances, scenarios of zones together, survival, and ladders of runs."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.cost_model.capacity.ladder import Rung, climb
from placer.cost_model.capacity.supply import (
    RESIDUAL,
    Likeness,
    Stay,
    Stock,
    chance_of,
    chances_of,
    first_loss_h,
    latent,
    likeness_of,
    state_paths,
    stay_of,
    stock_of,
    stock_scenarios,
    supply_scenarios,
)
from placer.market.books.book_reader import load_catalog
from placer.market.capacity_table import CapacityRow, ZoneCapacity, class_rows, zone_capacity
from placer.records import replace

H100 = zone_capacity(
    class_rows(), provider="gcp", region="us-central1", device="H100", market="spot"
)


def launched(machines: int, share: float, **where: Any) -> CapacityRow:
    """A row of a zone with so many machines in a share of the time."""
    usual = {"provider": "*", "device": "*", "market": "spot", "basis": "given", "source": "test"}
    ends = dict.fromkeys(("share", "share_low", "share_high"), share)
    asked = {"machines_asked": 16, "machines": machines, "as_of": "2026-11-01"}
    return CapacityRow(**{**usual, **asked, **ends, **where})


def known(*shares: tuple[int, float]) -> ZoneCapacity:
    """A zone with such shares of at least so many machines."""
    rows = tuple(launched(*share) for share in shares)
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
    one stays where machines stay in one zone: the best. Known to be short for a fifth of the time,
    three zones have any number of machines for the rest. Rows that count two zones mean two.
    """
    rows = load_catalog("default").capacity
    place = ("gcp/us-central1", "H100")
    assert len(stock_of(rows, *place, same_zone=False).zones) == 1
    here = {"provider": "gcp", "region": "us-central1", "device": "H100", "basis": "measured"}
    zones = [
        launched(16, share, zone=f"us-central1-{letter}", **here)
        for letter, share in (("a", 0.2), ("b", 0.9), ("c", 0.5), ("f", 0.1), ("g", 0.0))
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
    given = stock_of(table, *place, same_zone=False, unavailable=0.2)
    assert [chance_of(each, 1000) for each in given.known] == pytest.approx([0.8] * 3)
    two = [replace(row, zone="", zones=2) for row in zones[:1]]
    assert len(stock_of(two, *place, same_zone=False).zones) == 2
    assert len(stock_of([], *place, same_zone=False).zones) == 1


def test_stocks_are_as_alike_as_the_most_alike_zones() -> None:
    """0.5 across regions of one row is more than 0.2 in a region of another, and a region is never
    less alike than two. Of rows that know nothing the fitted figures count.
    """
    unknown = known((8, 0.3))
    rows = [
        replace(unknown, corr_region=region, corr_across=across)
        for region, across in ((0.2, 0.1), (0.6, 0.3), (0.4, 0.5))
    ]

    def likeness(*zones: ZoneCapacity) -> Likeness:
        stock = Stock(place="gcp/a", device="T4", zones=("1",) * len(zones), known=zones)
        return likeness_of([stock])

    assert (likeness(*rows).region, likeness(*rows).across) == (0.6, 0.5)
    assert (likeness(unknown, rows[2]).region, likeness(rows[0], rows[2]).region) == (0.5, 0.5)
    assert likeness(unknown) == RESIDUAL
    alone = likeness(replace(unknown, corr_region=0.3))
    assert (alone.region, alone.across) == (0.3, RESIDUAL.across)


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
    so is a / b of any survival, of which that share is lost in the first seconds.
    """
    for stay in (Stay(a=2.0, b_h=4.0), Stay(a=0.42, b_h=0.95), Stay(a=0.87, b_h=4.53)):
        assert (1 - stay.share(1e-6)) / 1e-6 == pytest.approx(stay.losses_per_h, rel=1e-4)


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


def rung(there: list[int], rate: float = 1.0, usd: float = 1.0, **more: Any) -> Rung:
    """Return a rung of one scenario: 1 where its machines are there; 1 sample/s is 3,600/h."""
    path = np.array(there, dtype=bool)[:, None]
    return Rung(samples_per_s=rate, usd_per_hour=usd, there=path, **{"start_h": 0.0, **more})


def test_a_run_waits_where_nothing_is_there_and_pays_nothing() -> None:
    """Two hours of work; there in hours 1, 3, 4: done after 4 h for 2 h of 3 USD."""
    runs = climb([rung([1, 0, 0, 1, 1], usd=3.0)], 2 * 3600, 5.0, 1.0)
    assert (runs.hours[0], runs.usd[0], runs.starts[0]) == (4.0, 6.0, 2)


def test_each_start_is_paid_and_does_not_work() -> None:
    """Half an hour to start, lost after the first hour: 0.5 h of work, then 1.5 h after another
    start. Done at 1 + 0.5 + 1.5 = 3 h, and all three are paid.
    """
    runs = climb([rung([1, 0, 1, 1, 1], start_h=0.5)], 2 * 3600, 5.0, 1.0)
    assert runs.starts[0] == 2
    assert runs.hours[0] == pytest.approx(4.0)  # hour 2 was waited for
    assert runs.usd[0] == pytest.approx(3.0)


def test_a_fallback_takes_over_and_gives_back() -> None:
    """The first rung is lost after an hour and back in hours 4 to 8: three steady hours later the
    run returns, as it costs a third. Work of 8 h at equal rates.
    """
    first = rung([1, 0, 0, 1, 1, 1, 1, 1, 1, 1], usd=1.0)
    second = rung([1] * 10, usd=3.0)
    runs = climb([first, second], 8 * 3600, 10.0, 1.0)
    assert runs.hours[0] == 8.0
    # Hours 2 to 6 on the second, the fourth steady hour of the first is the seventh.
    assert runs.busy_h[:, 0].tolist() == [3.0, 5.0]
    assert runs.usd[0] == 3.0 + 15.0


def test_what_is_certain_is_left_until_time_runs_out() -> None:
    """Six hours for 3 h of work on demand; spot never comes. After 3 h nothing else would do."""
    spot = rung([0] * 6)
    demand = rung([1] * 6, usd=10.0, certain=True)
    runs = climb([spot, demand], 3 * 3600, 6.0, 1.0)
    assert runs.hours[0] <= 6.0
    assert runs.usd[0] == 30.0


def test_a_certain_rung_never_misses_and_more_rungs_never_finish_less() -> None:
    """In drawn paths of three zones: with one rung on demand no run misses, and a further spot rung
    never lowers the share that is done.
    """
    states = state_paths(
        ["a/x", "a/x", "b/y"], ["1", "2", "3"], steps=48, step_h=1.0, draws=400, seed=3
    )
    spot = [
        replace(rung([], usd=1.0 + at, start_h=0.1), there=states[:, :, at] > 0.3)
        for at in range(3)
    ]
    always = np.ones((48, 400), dtype=bool)
    demand = replace(rung([], usd=9.0, start_h=0.1, certain=True), there=always)
    done = [climb(spot[:count], 20 * 3600, 48.0, 1.0).chance(48.0) for count in (1, 2, 3)]
    assert done == sorted(done)
    assert done[0] < done[2]
    assert climb([*spot, demand], 20 * 3600, 48.0, 1.0).chance(48.0) == 1.0
    tail = climb([*spot, demand], 20 * 3600, 48.0, 1.0)
    dearest = sorted(tail.usd.tolist())[-20:]  # a twentieth of 400
    assert tail.tail_usd(0.05) == pytest.approx(sum(dearest) / 20)
    assert tail.tail_usd(0.05) > tail.usd.mean()


def test_paths_are_standard_normal_alike_nearby_and_the_same_by_name() -> None:
    """4,000 paths: mean 0, variance 1 at every hour; zones of a region correlate by 0.30 and others
    by 0.04, to within 0.03; an hour later 0.3 / e + 0.7 exp(-1 / 48) = 0.796 is left.
    """
    names = ["1", "2", "3"]
    states = state_paths(["a/x", "a/x", "b/y"], names, steps=6, step_h=1.0, draws=4_000, seed=0)
    assert np.abs(states.mean(axis=1)).max() < 1e-9  # each has its mirror image
    assert states.var(axis=1) == pytest.approx(1.0, abs=0.08)
    flat = states[-1].T
    assert np.corrcoef(flat)[0, 1] == pytest.approx(0.30, abs=0.04)
    assert np.corrcoef(flat)[0, 2] == pytest.approx(0.04, abs=0.04)
    kept = 0.3 * math.exp(-1) + 0.7 * math.exp(-1 / 48)
    assert np.corrcoef(states[0, :, 0], states[1, :, 0])[0, 1] == pytest.approx(kept, abs=0.03)
    alone = state_paths(["b/y"], ["3"], steps=6, step_h=1.0, draws=4_000, seed=0)
    assert np.array_equal(alone[:, :, 0], states[:, :, 2])
