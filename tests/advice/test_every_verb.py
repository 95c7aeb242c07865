"""Every verb with every objective and every limit, on a market of two machines."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from instances import two_places
from placer.advice.robustness.regret import assess
from placer.advice.robustness.uncertainty import parse_boxes
from placer.advice.worlds.scenario import parse_changes
from placer.advice.worlds.whatif import what_if
from placer.problem.problem import Problem
from placer.problem.requirements import OBJECTIVES

SAMPLES = 1_000_000


def market(**wishes: Any) -> Problem:
    """`two_places` with one machine to choose, T4s of 70 W, grids of 400 g/kWh in aws/a and 100
    g/kWh in gcp/b, and a million samples to train on.
    """
    problem = two_places(**{"max_workers": 1, "samples": SAMPLES, **wishes})
    book, grids = problem.catalog, {"aws/a": 400.0, "gcp/b": 100.0}
    regions = {p: replace(r, grid_carbon_g_per_kwh=grids[p]) for p, r in book.regions.items()}
    gpus = {name: replace(gpu, power_w=70.0) for name, gpu in book.gpus.items()}
    return replace(problem, catalog=replace(book, regions=regions, gpus=gpus))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_world_without_change_has_equal_values_and_no_regret(objective: str) -> None:
    """Every price times 1: the kept choice has the value of both answers, in the same unit."""
    got = what_if(market(objective=objective), parse_changes(["price:*:*=x1"]))
    assert got.kept is not None
    assert got.before.value == got.after.value == got.kept.value
    assert got.regret == 0.0


LIMITS_TWICE: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("rate=0.5..2", {"min_samples_per_second": 90.0}, {"deadline_s": SAMPLES / 90.0}),
    ("price=0.5..2", {"most_usd_per_million_samples": 2.0}, {"budget_usd": 2.0}),
)


@pytest.mark.parametrize(("box", "one", "other"), LIMITS_TWICE)
def test_one_limit_in_two_spellings_is_broken_in_the_same_worlds(
    box: str, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """A floor in samples/s as a deadline for all samples; USD per million samples as a budget."""
    boxes = parse_boxes([box])
    shares = [assess(market(**limit), boxes, worlds=64).share("broken") for limit in (one, other)]
    assert shares[0] == shares[1] > 0.1


def test_dirty_worlds_are_lost_where_emissions_are_minimised() -> None:
    """A slower device emits as much an hour, so nothing is lost; a carbon limit that holds today
    holds in every world, as no factor changes what is emitted.
    """
    got = assess(market(objective="carbon"), parse_boxes(["rate=0.5..2"]), worlds=8)
    assert all(math.isfinite(world.value) and world.value > 0 for world in got.worlds)
