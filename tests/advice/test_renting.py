"""Machines of one's own beside rented ones: rows, prices that make both alike, and idle ones."""

import re
from typing import Any

import pytest

import placer
from placer.advice.recommendation.own_machines import own_notes
from placer.interface.advisor import Advisor

OFFICE = "office=2xT4@Berlin"
BASE: dict[str, Any] = {"budget": "5/h"}


@pytest.mark.parametrize(
    ("own", "words", "idle", "renting"),
    [
        # The answer has 1,060 samples/s of A10: 212 are 80 % fewer, also by the hours they take.
        (OFFICE, {"objective": "time", "samples": 10**6}, "alone they reach 212 .* .-80 %.", None),
        # 0.54 USD/h of four spot machines; a fifth of one's own pays for the way to Berlin.
        (
            OFFICE,
            {"objective": "cost", "min_throughput": "300/s", "budget": None},
            r"better; with spot ones 5.58 USD/h \(\+940 %\)$",
            None,
        ),
        # 0.0255 USD/h x 5.3 = 0.134; two exchange, and cost twice as much for hardly more.
        (
            OFFICE,
            {"objective": "cost-per-sample"},
            r"1 of 2 own machines stays idle: all of them alone reach 0.0666 USD/M \(\+97 %\)$",
            "1 x T4 spot in azure/southcentralus, 209 samples/s for .0.13/h, 5.3 x",
        ),
        (OFFICE, {"budget": None}, "^$", "2 x T4 spot in azure/southcentralus, 212 .*, 5.3 x"),
        (
            "office=3xT4@Berlin",
            {"workers": "1..1", "gpu": "T4"},
            "^2 of 3 own machines stay idle: all of them together do not keep the limits",
            "1 x T4 spot",
        ),
        (OFFICE, {"gpu": "A10"}, "^your own machines stay idle: T4 is not among --gpu A10$", None),
    ],
)
def test_what_idle_machines_would_do_is_said(
    own: str, words: dict[str, Any], idle: str, renting: str | None
) -> None:
    """And what the speed of those that work costs elsewhere."""
    result = placer.recommend("roberta-xlm", own=own, catalog="erben-2023", **{**BASE, **words})
    assert result.own_machines is not None
    assert re.search(idle, result.own_machines.idle)
    told = [note.message for note in result.notes if note.code == "renting"]
    assert (result.own_machines.idle in told) is bool(result.own_machines.idle)
    same = [one for one in told if one.startswith("the same speed from rented machines: ")]
    assert len(same) == (renting is not None)
    assert all(re.search(renting or "", one) for one in same)


def test_machines_beside_ones_own_are_rented() -> None:
    """Also where these are on demand, as one's own are."""
    words = {**BASE, "gpu": "T4", "market": "on-demand", "objective": "cost-per-sample"}
    result = placer.recommend("roberta-xlm", own=OFFICE, catalog="erben-2023", **words)
    assert result.own_machines is not None
    rows = {row.label: row.placement.places for row in result.own_machines.rows}
    assert [*rows] == ["own", "own + on-demand", "on-demand"]
    assert rows["own"] == ("onprem/office",)
    assert len(rows["own + on-demand"]) == 2


def test_what_is_assumed_of_ones_own_is_noted() -> None:
    """Nothing where there are none."""
    one, none = (Advisor().problem("roberta-xlm", own=own) for own in (OFFICE, None))
    (note,) = own_notes(one)
    assert note.code == "own"
    assert "onprem/office near Berlin: 2 machines with one T4" in note.message
    assert not [*own_notes(none)]


def test_own_machines_stand_beside_spot_ones() -> None:
    """Two T4 in Berlin cost 0.03 USD/h of electricity each; where they earn per sample what A10 on
    spot do, an hour of each is worth (USD per sample of spot) x (their samples in an hour) / 2.
    The answer rents machines for 1,060 samples/s: 212 are 80 % fewer, and 260 are 75 % fewer.
    """
    words: dict[str, Any] = {"budget": "5/h", "gpu": "A10,T4", "catalog": "erben-2023"}
    result = placer.recommend("roberta-xlm", own="office=2xT4@Berlin", **words)
    beside = result.own_machines
    assert beside is not None
    reached = "alone they reach 212 samples/s (-80 %), with spot ones 260 samples/s (-75 %)"
    assert beside.idle.endswith(reached)
    rows = {row.label: row for row in beside.rows}
    assert rows["own"].placement.places == ("onprem/office",)
    assert {"onprem/office"} < {*rows["own + spot"].placement.places}
    assert {group.market for group in rows["spot"].placement.groups} == {"spot"}
    assert {g.gpu for g in rows["own + spot"].placement.groups} == {"T4"}  # others would wait
    even = beside.break_even
    assert even is not None
    own, spot = rows["own"].estimate, rows["spot"].estimate
    worth = spot.usd_per_hour.total / spot.effective_samples_per_second.value
    each = worth * own.effective_samples_per_second.value / 2
    assert even.own_usd_per_machine_hour == pytest.approx(own.usd_per_hour.compute / 2)
    assert even.most_own_usd_per_machine_hour == pytest.approx(each, rel=1e-6)
    owned = own.usd_per_hour.total / own.effective_samples_per_second.value
    least = owned * spot.effective_samples_per_second.value - spot.usd_per_hour.egress
    assert even.least_rented_usd_per_hour == pytest.approx(least, rel=1e-6)
    assert even.rented == "spot"


def test_at_the_break_even_price_a_sample_costs_the_same() -> None:
    """The price that is printed, stated as the cost of an own machine, makes both alike."""
    words: dict[str, Any] = {"budget": "5/h", "gpu": "A10,T4", "catalog": "erben-2023"}
    first = placer.recommend("roberta-xlm", own="office=2xT4@Berlin", **words).own_machines
    assert first is not None
    assert first.break_even is not None
    most = first.break_even.most_own_usd_per_machine_hour
    word = f"office=2xT4@Berlin:cost={most:.6f}/h"
    again = placer.recommend("roberta-xlm", own=word, **words).own_machines
    assert again is not None
    rows = {row.label: row.estimate for row in again.rows}
    assert rows["own"].usd_per_million_samples == pytest.approx(
        rows["spot"].usd_per_million_samples, rel=1e-3
    )
    assert again.break_even is not None
    assert again.break_even.own_usd_per_machine_hour == pytest.approx(most, abs=1e-6)
