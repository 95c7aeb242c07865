"""What is left of a speed when machines are lost at known rates: gangs of a table of capacity, and
single machines of a chance per month.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from placer.cost_model.outlook.interruptions import ASSUMED_INTERRUPTION, Interruption
from placer.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, Interval


class Losses(Struct, frozen=True, kw_only=True):
    """Machines that are lost together: how often, and which part of the work is theirs.

    Notes
    -----
    ``per_hour`` counts while they are there. ``times`` such machines, or gangs, have as much each.
    """

    per_hour: Interval
    part: float
    times: int = 1


def kept_share(
    losses: Sequence[Losses], step_s: float, interruption: Interruption = ASSUMED_INTERRUPTION
) -> Interval:
    """Return the expected throughput over the throughput without losses.

    Parameters
    ----------
    losses
        r and p of each.
    step_s
        T, seconds of one step.
    interruption
        R, seconds of a restart, and k, steps that each loss makes useless.

    Notes
    -----
    As `expected_share`, for rates and parts that differ:

        share = (1 - sum of p r R / (1 + r R)) x exp(-sum of r k T).

    Examples
    --------
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


def chance_per_month(losses: Sequence[Losses]) -> float:
    """Return the chance that machines are lost within a month of 730 hours, by the mean of their
    rates.

    Examples
    --------
    >>> rate = Interval(value=0.001, low=0.001, high=0.001)
    >>> round(chance_per_month([Losses(per_hour=rate, part=1.0)]), 4)  # 1 - exp(-0.73)
    0.5181
    """
    parts = math.fsum(each.part * each.times for each in losses)
    mean = math.fsum(each.part * each.times * each.per_hour.value for each in losses) / parts
    return -math.expm1(-HOURS_PER_MONTH * mean)
