"""What an answer becomes if the price that it rests on most is wrong."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, to_builtins

from placer.cost_model.estimate import Estimate
from placer.documents.result_parts import estimate_document, placement_document
from placer.market.books.defended_figures import Outlier
from placer.market.catalog import VmOffer
from placer.market.price_interval import PriceInterval
from placer.problem.placement import Placement
from placer.problem.problem import Problem

HIGH, USUAL, WITHOUT = "high", "usual", "without"
"""Questions about a price: at the high end of its interval, at the usual share of on-demand, and
without the row.
"""


class PriceCase(Struct, frozen=True, kw_only=True):
    """What is best if one price is another one. ``usd_per_hour`` is None where the row is left out;
    ``placement`` and ``estimate`` are None where nothing fits; ``proved`` best, or only the best
    that a short search found; ``same`` as the answer or not; ``on_outlier`` where it rests on a
    spot price far below the usual as well.
    """

    case: str
    usd_per_hour: float | None
    placement: Placement | None
    estimate: Estimate | None
    proved: bool
    same: bool = False
    on_outlier: bool = False


class PriceRisk(Struct, frozen=True, kw_only=True):
    """The price row whose rise changes an answer the soonest. ``changes_at`` is the price from
    which the answer is another one, in USD/h of one machine (at the latest, where no limit of
    dollars breaks). ``on_demand`` and ``elsewhere`` are prices of the same machine: on demand in
    the same place, and the cheapest in another region of the provider with its name. ``usual`` is
    the price at the median share of on-demand over the provider's regions.
    """

    offer: VmOffer
    interval: PriceInterval
    changes_at: float
    on_demand: float | None = None
    elsewhere: tuple[str, float] | None = None
    usual: float | None = None
    outlier: Outlier | None = None
    cases: tuple[PriceCase, ...] = ()

    def case(self, name: str) -> PriceCase | None:
        """Return the answer to one of the questions; None if it was not asked."""
        return next((case for case in self.cases if case.case == name), None)


def price_risk_document(risk: PriceRisk | None, problem: Problem) -> dict[str, Any] | None:
    """Build the part ``price_risk`` of a result; None where no price in its interval changes it."""
    if risk is None:
        return None
    offer, elsewhere = risk.offer, risk.elsewhere
    return {
        "row": {
            "place": offer.place,
            "offer": offer.instance_type,
            "gpu": offer.gpu,
            "gpu_count": offer.gpu_count,
            "market": offer.market,
            "price_basis": offer.price_basis,
            "source": offer.source,
            "as_of": offer.as_of,
        },
        "usd_per_hour": to_builtins(risk.interval),
        "changes_at_usd_per_hour": risk.changes_at,
        "on_demand_usd_per_hour": risk.on_demand,
        "usual_usd_per_hour": risk.usual,
        "next_region": None
        if elsewhere is None
        else {"place": elsewhere[0], "usd_per_hour": elsewhere[1]},
        "outlier": to_builtins(risk.outlier),
        "cases": [_case_document(case, problem) for case in risk.cases],
    }


def _case_document(case: PriceCase, problem: Problem) -> dict[str, Any]:
    placement, estimate = case.placement, case.estimate
    return {
        "case": case.case,
        "usd_per_hour": case.usd_per_hour,
        "same": case.same,
        "proved": case.proved,
        "on_outlier": case.on_outlier,
        "placement": None if placement is None else placement_document(placement, problem),
        "estimate": None if estimate is None else estimate_document(estimate),
    }
