"""The risk of a placement: figures of its table, worlds in which it is certain, and limits of what
was observed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.outlook.outlook import SpotOutlook, spot_outlook
from placer.cost_model.outlook.risk import Risk, gang_of, speed_shares
from placer.interface.advisor import Advisor
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.units import Interval

EIGHT = "gcp/us-central1=8xH100:spot"


def placed(workers: str, **words: Any) -> tuple[Placement, Estimate, Problem]:
    """Place and estimate by hand in the default book."""
    problem = Advisor("default").problem("roberta-xlm", **words)
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
    enough: 64 %, and 81 % of these. With as many on demand: always.
    """
    words: dict[str, Any] = {"exchange": "diloco", "local_steps": 32}
    eight, four = (risk(EIGHT, **words, quorum=quorum) for quorum in (8, 4))
    assert dict(eight.held)[1.0] == pytest.approx(0.54 * 0.739, abs=0.001)
    assert dict(four.held)[1.0] == pytest.approx(0.64 * (1 + 1 / 2.31) ** -0.58)
    mixed = risk(f"{EIGHT},gcp/us-central1=4xH100:on-demand", **words, quorum=4)
    assert dict(mixed.held)[24.0] == 1.0
    assert risk("gcp/us-central1=8xH100:spot,gcp/us-west1=4xH100:spot").held == ()


def test_two_regions_are_neither_one_nor_independent() -> None:
    """All of both less often than of the rarer one, more often than the product; at least one of
    them more often than of either. The first loss comes sooner than each region's own.
    """
    both = risk("gcp/us-central1=8xH100:spot,gcp/us-west1=4xH100:spot")
    assert both.chance_all is not None
    assert 0.54 * 0.64 - 0.01 < both.chance_all.value < 0.54
    assert both.all_lost < 0.29 < both.any_lost
    assert both.median_hours is not None
    assert both.median_hours < min(stock.median_hours or 0.0 for stock in both.stocks)


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


def test_a_question_from_before_the_table_has_the_former_figures() -> None:
    """10 % of the time without capacity and no risk; the document has no such key."""
    placement, got, problem = placed(EIGHT)
    old = replace(problem, catalog=replace(problem.catalog, capacity=()))
    found = spot_outlook(placement, got, old)
    assert found is not None
    assert found.risk is None
    assert (found.unavailable, found.chance_per_month) == (0.1, 0.2)
