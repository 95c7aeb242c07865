"""Carbon: emissions of machines, a limit on them, and the least of them as the objective."""

from __future__ import annotations

import pytest

from instances import offer
from placer.advice.recommendation.nearest import nearest
from placer.cost_model.limits import violations
from placer.errors import PlacerError
from placer.market.carbon import carbon_of, carbon_unknown, offer_carbon, parse_carbon
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.workload.profile import load_profile


def ask(book: Catalog, **wishes: object) -> Problem:
    """Ask for resnet50, which many devices are measured on."""
    return Problem(
        profile=load_profile("resnet50"),
        catalog=book,
        requirements=Requirements(**wishes),  # type: ignore[arg-type]
    )


def test_emissions_by_hand(default: Catalog) -> None:
    """A T4 (70 W at a load of 0.8) with 8 vCPUs of 2.1 W at AWS (PUE 1.15) where a kWh emits 400 g:
    72.8 W x 1.15 x 0.4 = 33.488 g/h.
    """
    place = default.region("aws/us-east-1")
    book = replace(
        default,
        regions={**default.regions, place.place: replace(place, grid_carbon_g_per_kwh=400.0)},
    )
    machine = offer("aws", "us-east-1", "T4", 1.0)
    got = offer_carbon(machine, book)
    assert got is not None
    assert got.value == pytest.approx(33.488)
    assert got.low == pytest.approx((70 * 0.5 + 8 * 0.74) * 1.04 * 0.4)
    assert got.high == pytest.approx((70 * 1.0 + 8 * 3.5) * 1.5 * 0.4)
    several = carbon_of([(machine, 3), (offer("aws", "us-east-1", "T4", 1.0, gpus=2), 1)], book)
    assert several is not None
    assert several.value == pytest.approx(3 * 33.488 + (2 * 70 * 0.8 + 8 * 2.1) * 1.15 * 0.4)


def test_what_is_not_known_is_no_zero(default: Catalog) -> None:
    """Without a grid figure, or the power of the device, emissions are None and a limit leaves the
    machines out.
    """
    machine = offer("aws", "us-east-1", "T4", 1.0)
    place = default.region("aws/us-east-1")
    dark = replace(
        default,
        regions={**default.regions, place.place: replace(place, grid_carbon_g_per_kwh=None)},
    )
    weak = replace(default, gpus={**default.gpus, "T4": replace(default.gpu("T4"), power_w=None)})
    for book, says in ((dark, "grid"), (weak, "power")):
        assert offer_carbon(machine, book) is None
        assert says in carbon_unknown(machine, book)
        wish = {"gpus": ("T4",), "places_in": ("aws/us-east-1",)}
        assert ask(book, **wish).pools
        assert not ask(book, **wish, max_carbon_g_per_hour=1e6).pools


def test_nearest_change_of_the_limit_works(erben: Catalog) -> None:
    """What is proposed instead of 1 g an hour can be kept."""
    grids = {place: replace(r, grid_carbon_g_per_kwh=300.0) for place, r in erben.regions.items()}
    problem = ask(replace(erben, regions=grids), max_carbon_g_per_hour=1.0)
    (option,) = nearest(problem, "exact", SolveOptions())
    assert option.label == "carbon"
    limit = parse_carbon(option.note.split()[1])
    assert (
        violations(
            option.placement, ask(replace(erben, regions=grids), max_carbon_g_per_hour=limit)
        )
        == ()
    )
    assert [v.code for v in violations(option.placement, problem)] == ["carbon"]


@pytest.mark.parametrize(
    ("text", "grams"),
    [("500g/h", 500.0), ("1.2 kg/h", 1200.0), ("12kg/day", 500.0), ("1t/d", 1e6 / 24)],
)
def test_carbon_words(text: str, grams: float) -> None:
    """12 kg a day are 500 g an hour."""
    assert parse_carbon(text) == pytest.approx(grams)


@pytest.mark.parametrize("text", ["500", "0g/h", "-1g/h", "500g", "500 lb/h", "nan", ""])
def test_bad_carbon_is_refused(text: str) -> None:
    """By name and value."""
    with pytest.raises(PlacerError) as caught:
        parse_carbon(text)
    assert "max-carbon" in caught.value.message
