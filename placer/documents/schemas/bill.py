"""The document of an answer beside the bill for it."""

from __future__ import annotations

from typing import Annotated

from placer.documents.schemas.parts import Day, Part
from placer.records import Amount, Count, Positive, one_of

COMPONENTS = ("compute", "egress", "storage", "functions", "data", "other")
"""What a bill tells apart. Data that is read from a store is egress of its place; ``data`` is what
has no place.
"""
Component = Annotated[str, one_of(*COMPONENTS)]


class BilledLine(Part, frozen=True, kw_only=True):
    """Something of the plan, and what was charged for it.

    place: Null where the plan does not say where it is paid.
    charges: Number of charges.
    machine_hours: Hours of machines on the bill; null where it names none.
    charged_usd: Null without charges, and so are the differences.
    relative_difference: Null too where nothing was predicted.
    """

    component: Component
    what: str
    place: str | None
    charges: Count
    machine_hours: float | None
    predicted_usd: Amount
    charged_usd: float | None
    difference_usd: float | None
    relative_difference: float | None


class UnplannedCharges(Part, frozen=True, kw_only=True):
    """Charges of a use that the plan does not have."""

    component: Component
    place: str
    service: str
    what: str
    charges: Count
    usd: float


class SortedCharges(Part, frozen=True, kw_only=True):
    """Charges that were not compared.

    kind: Tax, Credit, Purchase and so on, or why they were left out.
    """

    kind: str
    charges: Count
    usd: float


class Bill(Part, frozen=True, kw_only=True, tag_field="schema", tag="placer.bill/v1"):
    """What was predicted for some hours of a placement, beside what a bill charges for them.

    plan, bill: Names of the files.
    cost: Column of the bill.
    hours: For which is predicted: as given, or the hours of machines on the bill over the machines
        of the plan.
    planned_hours: The whole run as the plan expects it; null where it does not say how much there
        is to do.
    first, last: From when to when charges of the plan are, in UTC; null without any.
    rates: What other currencies were exchanged at.
    predicted_usd, charged_usd: Of the lines that have charges, so that both are of the same.
    uncharged_usd: Predicted for lines without a charge.
    unmatched: Charges of a use that the plan does not have.
    apart: Charges that are no use: taxes, credits, purchases, corrections.
    left_out: Charges of another time or without a tag, in no sum.
    """

    plan: str
    bill: str
    model: str
    catalog: str
    as_of: Day
    cost: str
    hours: Positive
    hours_given: bool
    planned_hours: float | None
    first: str | None
    last: str | None
    rates: list[str]
    lines: list[BilledLine]
    predicted_usd: Amount
    charged_usd: float
    difference_usd: float
    relative_difference: float | None
    uncharged_usd: Amount
    unmatched: list[UnplannedCharges]
    unmatched_usd: float
    apart: list[SortedCharges]
    apart_usd: float
    left_out: list[SortedCharges]
    warnings: list[str]
