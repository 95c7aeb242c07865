"""Spot prices far from the usual share of on-demand."""

import pytest

from instances import offer, two_places
from placer.market.catalog import Catalog
from placer.market.checks.outliers import outlier_of, outliers, usual_share
from placer.records import replace


def book(*spot: float) -> Catalog:
    """One T4 for 1.00 USD/h on demand in each region of aws, and its spot price there."""
    offers = [
        o
        for i, usd in enumerate(spot)
        for o in (
            offer("aws", f"r{i}", "T4", 1.0, market="on_demand"),
            offer("aws", f"r{i}", "T4", usd),
        )
    ]
    return replace(two_places().catalog, offers=tuple(offers))


def test_a_price_far_below_the_others_is_named_with_its_score() -> None:
    """Five regions ask 0.30 to 0.36 of on-demand, the sixth 0.10. The median of the logarithms is
    that of 0.315 (between 0.31 and 0.32), the median deviation is below 0.05, which stands for it:
    0.6745 x ln(0.10 / 0.315) / 0.0573 is about -13.5.
    """
    catalog = book(0.30, 0.31, 0.32, 0.34, 0.36, 0.10)
    (found,) = outliers(catalog)
    assert found[0].region == "r5"
    usual = usual_share("aws", "T4", catalog)
    assert usual is not None
    assert usual.regions == 6
    assert usual.share == pytest.approx((0.31 * 0.32) ** 0.5)
    assert found[1].share == pytest.approx(0.10)
    assert found[1].score < -10


def test_equal_shares_do_not_make_a_small_difference_an_outlier() -> None:
    """With a deviation of 0, 0.35 beside 0.40 would be infinitely far; with the least of 0.05 it is
    0.6745 x ln(0.35 / 0.40) / 0.05 = -1.8, within 3.5. 0.20 is at -9.4, beyond.
    """
    assert not list(outliers(book(0.4, 0.4, 0.4, 0.4, 0.4, 0.35)))
    (found,) = outliers(book(0.4, 0.4, 0.4, 0.4, 0.4, 0.2))
    assert found[1].score == pytest.approx(-9.35, abs=0.01)


def test_nobody_can_say_what_is_usual_in_four_regions() -> None:
    """Five regions are the least."""
    catalog = book(0.3, 0.3, 0.3, 0.03)
    assert usual_share("aws", "T4", catalog) is None
    assert not list(outliers(catalog))
    assert outlier_of(catalog.offers[0], catalog) is None
