"""How often spot machines are taken away: assumed, or in bands that a provider publishes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from placer.errors import PlacerError
from placer.records import replace
from placer.units import HOURS_PER_MONTH, Interval


def rate_per_month(chance: float) -> float:
    """Return the interruptions of one machine in a month, from the chance of at least one. Constant
    rate r: f = 1 - exp(-r), so r = -ln(1 - f). ``chance``: f, a share from 0 to below 1.
    `PlacerError` if it is no such share: a machine that is taken away for certain has no rate.

    >>> round(rate_per_month(0.2), 6)  # -ln 0.8
    0.223144
    """
    if not 0 <= chance < 1:
        raise PlacerError(
            f"chance of an interruption per month '{chance}' is not from 0 to below 1",
            "write 20 % as 0.2",
        )
    return -math.log1p(-chance)


def rates_per_month(value: float, low: float, high: float) -> Interval:
    """Return the rates of a chance per month and of the ends of its range."""
    return Interval(value=rate_per_month(value), low=rate_per_month(low), high=rate_per_month(high))


class Interruption(Struct, frozen=True, kw_only=True):
    """How often a spot machine is taken away and what that costs. ``per_month``: how often one
    machine is taken away in a month of 730 hours, at a constant rate. Rates of many machines add
    up, where the chance that one of them goes rounds to 1. ``restart_s``: seconds until it is
    replaced and takes part again. ``lost_steps``: steps that the whole run loses when it rejoins.
    ``basis`` is assumed, published (a band of the provider), given or mixed.
    """

    per_month: Interval
    restart_s: Interval
    lost_steps: Interval
    basis: str
    source: str

    def __post_init__(self) -> None:
        for name in ("per_month", "restart_s", "lost_steps"):
            figure: Interval = getattr(self, name)
            if not 0 <= figure.low <= figure.value <= figure.high < math.inf:
                raise PlacerError(
                    f"{name}: low {figure.low}, value {figure.value}, high {figure.high} are not "
                    f"in order from 0",
                    "give finite numbers with low <= value <= high",
                )

    @property
    def per_hour(self) -> Interval:
        """Return how often one machine is taken away in an hour."""
        return _times(self.per_month, 1 / HOURS_PER_MONTH)

    @property
    def chance_per_month(self) -> float:
        """Return the chance that one machine is taken away within a month."""
        return -math.expm1(-self.per_month.value)


def _times(rates: Interval, factor: float) -> Interval:
    return Interval(value=rates.value * factor, low=rates.low * factor, high=rates.high * factor)


ASSUMED_INTERRUPTION = Interruption(
    per_month=rates_per_month(0.2, low=0.05, high=0.5),
    restart_s=Interval(value=300.0, low=30.0, high=600.0),
    lost_steps=Interval(value=2.0, low=0.0, high=2.0),
    basis="assumed",
    source=(
        "AWS Spot Instance Advisor (June 2025): monthly bands from under 5 % to over 20 %, "
        "half of the g4dn and g5 rows in the last, "
        "whose upper end of 50 % is assumed; Erben et al. (PVLDB 17(6), 2024): a start takes "
        "seconds to 10 minutes, "
        "a rejoin costs at most two steps"
    ),
)
"""Taken where nobody measured: the edge of the last published band, and the slow end of what a
rejoin costs.
"""

OPEN_BAND_END = 0.5
"""A band without an upper end ("over 20 %") is taken to end here, as `ASSUMED_INTERRUPTION` does:
its middle is then 35 %.
"""


def banded(low: float, high: float) -> Interruption:
    """Return the interruption of a machine whose provider publishes how often it is taken away; the
    rest as assumed. ``low``, ``high``: ends of the band, shares of the machines per month; a band
    that ends at 1 is open. `PlacerError` if the ends are not shares in order.

    The bands 10 to 15 % and over 20 % of the AWS Spot Advisor.

    >>> banded(0.1, 0.15).chance_per_month, banded(0.2, 1.0).chance_per_month
    (0.125, 0.35)
    """
    if not 0 <= low <= high <= 1:
        raise PlacerError(
            f"interruption band {low} to {high} is not in order from 0 to 1",
            "write 5 to 10 % as 0.05 and 0.1",
        )
    end = high if high < 1 else max(low, OPEN_BAND_END)
    return replace(
        ASSUMED_INTERRUPTION,
        per_month=rates_per_month((low + end) / 2, low=low, high=end),
        basis="published",
        source="band of the provider's price book row",
    )


def of_island(interruption: Interruption, machines: int) -> Interruption:
    """Return the interruption of an island, which stops as a whole when one of its machines goes.

    >>> round(of_island(ASSUMED_INTERRUPTION, 4).chance_per_month, 4)  # 1 - 0.8 ** 4
    0.5904
    """
    return replace(interruption, per_month=_times(interruption.per_month, machines))


def together(machines: Sequence[tuple[Interruption, int]]) -> Interruption:
    """Return one interruption for machines that differ: the mean of their rates, so that their
    expected number is kept. Restart and lost steps are those of the first; the basis is that of
    all, or ``mixed``. ``machines``: interruption and how many machines have it; at least one
    machine.

    One machine of 20 % and one of 5 %: 1 - sqrt(0.8 x 0.95).

    >>> round(together([(banded(c, c), 1) for c in (0.2, 0.05)]).chance_per_month, 6)
    0.12822
    """
    first, total = machines[0][0], sum(count for _, count in machines)
    if all(kind == first for kind, _ in machines):
        return first
    value, low, high = (
        math.fsum(getattr(kind.per_month, end) * count for kind, count in machines) / total
        for end in ("value", "low", "high")
    )
    bases, sources = ({getattr(kind, name) for kind, _ in machines} for name in ("basis", "source"))
    return replace(
        first,
        per_month=Interval(value=value, low=low, high=high),
        basis=bases.pop() if len(bases) == 1 else "mixed",
        source="; ".join(sorted(sources)),
    )
