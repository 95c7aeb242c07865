"""Spot machines that are taken away: how often, what is left of a speed, and zones at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from placer.errors import PlacerError
from placer.records import replace
from placer.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, Interval


def rate_per_month(chance: float) -> float:
    """Return the interruptions of one machine in a month, from the chance f of at least one:
    constant rate r, f = 1 - exp(-r), so r = -ln(1 - f). A certain loss has no rate.

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
    """How often one spot machine is taken away in a month of 730 hours, and what that costs:
    seconds until it takes part again, and steps that the whole run loses when it rejoins. Rates of
    many machines add up, where the chance that one of them goes rounds to 1. ``basis`` is assumed,
    published (a band of the provider), given or mixed.
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
    """Return the interruption of a machine in a band of shares per month that its provider
    publishes; one that ends at 1 is open. The rest is as assumed.

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
    expected number is kept. Restart and lost steps are those of the first.

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


class Losses(Struct, frozen=True, kw_only=True):
    """Machines that are lost together: how often, and which part of the work is theirs.
    ``per_hour`` counts while they are there. ``times`` such machines, or gangs, have as much each.
    """

    per_hour: Interval
    part: float
    times: int = 1


def kept_share(
    losses: Sequence[Losses], step_s: float, interruption: Interruption = ASSUMED_INTERRUPTION
) -> Interval:
    """Return the expected throughput over the throughput without losses.

    A machine runs 1/r seconds and is away for R: a part r R / (1 + r R) of its time is missing, and
    with it p of that part of the work. This is the f of Erben et al. (2024): an interruption
    frequency f over the run makes it about f slower. Losses of the run come at the sum of r (r
    alone while none is away: never too few), and each makes the following k T seconds useless (k <=
    2 steps for the rejoin); no such event lies in the last k T seconds with probability exp(-r k
    T). Together

        share = (1 - sum of p r R / (1 + r R)) x exp(-sum of r k T).

    R takes for granted that another machine is available; `chance_all_lost` says how likely none
    is. From 0 to 1; low takes the high rates, restart and lost steps, high the low ones.
    ``losses``: r and p of each. ``step_s``: T, seconds of one step. ``interruption``: R, seconds of
    a restart, and k, steps that each loss makes useless.

    A gang with half of the work that is lost .081 times an hour, restarts of 300 s, two steps of 60
    s: r R = .00675, so 1 - .5 x .006705; r k T = .0027.

    >>> gang = Losses(per_hour=Interval(value=0.081, low=0.081, high=0.081), part=0.5)
    >>> round(kept_share([gang], 60.0).value, 5)
    0.99396
    """

    def share(end: str, restart_s: float, lost_steps: float) -> float:
        away, rates = 0.0, 0.0
        for each in losses:
            rate = getattr(each.per_hour, end) / SECONDS_PER_HOUR
            away += each.times * each.part * rate * restart_s / (1 + rate * restart_s)
            rates += each.times * rate
        return (1 - away) * math.exp(-rates * lost_steps * step_s)

    restart, lost = interruption.restart_s, interruption.lost_steps
    return Interval(
        value=share("value", restart.value, lost.value),
        low=share("high", restart.high, lost.high),
        high=share("low", restart.low, lost.low),
    )


def expected_share(
    spot: int, workers: int, step_s: float, interruption: Interruption = ASSUMED_INTERRUPTION
) -> Interval:
    """Return `kept_share` of workers that are lost one by one, of which some are spot machines.

    Eight spot workers, a chance of 20 % a month, steps of 60 s: r = 0.223144 / 730 h = 8.491e-8 /
    s; away 8.491e-8 x 300 = 2.547e-5; lost 8 x 8.491e-8 x 2 x 60 = 8.151e-5; 1 - 2.547e-5 -
    8.151e-5 = 0.999893.

    >>> round(expected_share(8, 8, 60.0).value, 6)
    0.999893
    """
    if not 0 <= spot <= workers or workers < 1:
        raise PlacerError(
            f"{spot} spot workers of {workers} workers is not possible",
            "give 0 <= spot <= workers, at least one worker",
        )
    if not 0 < step_s < math.inf:
        raise PlacerError(f"a step of {step_s} s is not a positive time", "give seconds above 0")
    each = Losses(per_hour=interruption.per_hour, part=1 / workers, times=spot)
    return kept_share([each], step_s, interruption)


def chance_per_month(losses: Sequence[Losses]) -> float:
    """Return the chance that machines are lost within a month of 730 hours, by the mean of their
    rates.

    >>> rate = Interval(value=0.001, low=0.001, high=0.001)
    >>> round(chance_per_month([Losses(per_hour=rate, part=1.0)]), 4)  # 1 - exp(-0.73)
    0.5181
    """
    parts = math.fsum(each.part * each.times for each in losses)
    mean = math.fsum(each.part * each.times * each.per_hour.value for each in losses) / parts
    return -math.expm1(-HOURS_PER_MONTH * mean)


class Correlation(Struct, frozen=True, kw_only=True):
    """How alike availability is: between zones of a region and between regions, 0 to below 1.
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

    Never u to the power of the zones: availability is correlated. Zones of a region are alike given
    its chance p ~ Beta, regions are alike given a common chance g ~ Beta of mean u. A Beta of mean
    m and correlation c = 1 / (alpha + beta + 1) makes the beta-binomial

        E[p^k] = product over i < k of (m (1 - c) + i c) / (1 - c + i c).

    c is the correlation between regions for g, and (zones - regions) / (1 - regions) for p around
    g, so that both pairwise correlations come out. E[p^k] is a polynomial in g, so the mixture is
    exact; only its shape beyond pairs is assumed. Regions with one zone each are beta-binomial
    themselves. ``zones``: zones used in each region; the machines of one zone count as one.
    ``unavailable``: u, share of the time in which one zone has no capacity, 0 to 1.
    ``correlation``: of zones of a region, and of regions. `PlacerError` if there is no region, a
    region has no zone, or u is not a share.

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
    """Return the probability that at least one zone of a placement has no spot capacity: one minus
    that of all having some, which is the mixture of `chance_all_lost` with 1 - u.

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
