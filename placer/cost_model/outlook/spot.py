"""Spot machines: the risk that zones lose capacity together."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from placer.errors import PlacerError


class Correlation(Struct, frozen=True, kw_only=True):
    """How alike availability is: between zones of a region and between regions, 0 to below 1.

    Notes
    -----
    Machines of one zone come and go together (0.88 to 0.98 over 16 nodes): they count as one.
    """

    zones: float
    regions: float
    source: str

    def __post_init__(self) -> None:
        if not (0 <= self.regions <= self.zones < 1):
            raise PlacerError(
                f"correlations of {self.zones} between zones and {self.regions} between regions "
                f"are not possible",
                "give 0 <= regions <= zones < 1",
            )


OBSERVED_CORRELATION = Correlation(
    zones=0.43,
    regions=0.14,
    source="public availability traces of spot machines, as reduced in placer's design",
)
"""Pairwise correlation of zones of one region, and of regions."""


def chance_all_lost(
    zones: Sequence[int], unavailable: float, correlation: Correlation = OBSERVED_CORRELATION
) -> float:
    """Return the probability that all zones of a placement have no spot capacity at once.

    Parameters
    ----------
    zones
        Zones used in each region; the machines of one zone count as one.
    unavailable
        u, share of the time in which one zone has no capacity, 0 to 1.
    correlation
        Of zones of a region, and of regions.

    Raises
    ------
    PlacerError
        If there is no region, a region has no zone, or u is not a share.

    Notes
    -----
    Never u to the power of the zones: availability is correlated. Zones of a region are alike
    given its chance p ~ Beta, regions are alike given a common chance g ~ Beta of mean u. A Beta of
    mean m and correlation c = 1 / (alpha + beta + 1) makes the beta-binomial

        E[p^k] = product over i < k of (m (1 - c) + i c) / (1 - c + i c).

    c is the correlation between regions for g, and (zones - regions) / (1 - regions) for p around
    g, so that both pairwise correlations come out. E[p^k] is a polynomial in g, so the mixture is
    exact; only its shape beyond pairs is assumed. Regions with one zone each are beta-binomial
    themselves.

    Examples
    --------
    u = 0.2: two regions u^2 + 0.14 u (1 - u) = 0.04 + 0.0224; two zones of one region 0.04 + 0.43 x
    0.16; three regions u x (0.2 x 0.86 + 0.14) x (0.2 x 0.86 + 0.28) / 1.14 = 0.2 x 0.312 x 0.452 /
    1.14.

    >>> [round(chance_all_lost(zones, 0.2), 6) for zones in ([1], [1, 1], [2], [1, 1, 1])]
    [0.2, 0.0624, 0.1088, 0.024741]
    """
    _check_zones(zones, unavailable)
    within = (correlation.zones - correlation.regions) / (1 - correlation.regions)
    given = [1.0]
    for count in zones:
        for i in range(count):
            given = _times_linear(given, i * within, 1 - within, (1 - within) + i * within)
    total, moment = given[0], 1.0
    for power, coefficient in enumerate(given[1:]):
        mean = unavailable * (1 - correlation.regions)
        moment *= (mean + power * correlation.regions) / (
            (1 - correlation.regions) + power * correlation.regions
        )
        total += coefficient * moment
    return min(1.0, total)


def chance_any_lost(
    zones: Sequence[int], unavailable: float, correlation: Correlation = OBSERVED_CORRELATION
) -> float:
    """Return the probability that at least one zone of a placement has no spot capacity.

    Parameters
    ----------
    zones, unavailable, correlation
        As in `chance_all_lost`.

    Raises
    ------
    PlacerError
        As in `chance_all_lost`.

    Notes
    -----
    One minus the probability that all have capacity, which is the same mixture with 1 - u.

    Examples
    --------
    Two regions: 2 u - P(both) = 0.4 - 0.0624.

    >>> round(chance_any_lost([1, 1], 0.2), 6)
    0.3376
    """
    _check_zones(zones, unavailable)
    return max(0.0, 1 - chance_all_lost(zones, 1 - unavailable, correlation))


def _check_zones(zones: Sequence[int], unavailable: float) -> None:
    if not zones or any(count < 1 for count in zones):
        raise PlacerError(
            f"zones per region {list(zones)} name no place",
            "give at least one region, each with at least one zone",
        )
    if not 0 <= unavailable <= 1:
        raise PlacerError(
            f"unavailability '{unavailable}' is not a share from 0 to 1", "write 20 % as 0.2"
        )


def _times_linear(
    polynomial: list[float], constant: float, slope: float, over: float
) -> list[float]:
    """Multiply a polynomial, constant term first, by (constant + slope g) / over."""
    low = [coefficient * constant / over for coefficient in polynomial]
    high = [coefficient * slope / over for coefficient in polynomial]
    return [a + b for a, b in zip([*low, 0.0], [0.0, *high], strict=True)]
