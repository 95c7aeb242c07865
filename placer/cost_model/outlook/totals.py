"""Time and money for all samples that a placement is to train on."""

from __future__ import annotations

from msgspec import Struct

from placer.cost_model.estimate import Estimate
from placer.problem.requirements import Requirements
from placer.records import Natural
from placer.units import SECONDS_PER_HOUR, Interval


class Totals(Struct, frozen=True, kw_only=True):
    """What a number of samples, counted at equal progress, takes and costs; seconds and USD."""

    samples: Natural
    seconds: Interval
    usd: Interval


def totals_of(got: Estimate, wish: Requirements) -> Totals:
    """Time and money until all samples of a request count. While all machines are there: waiting
    for spot machines is not in it. Machines alone are paid while they start, as nothing is sent.
    The ends of the money are the lowest price per hour for the shortest time and the highest for
    the longest; the truth lies within, as a fast run also sends more per hour. ``got``: estimate of
    a placement. ``wish``: has the samples at equal progress: what passes through the workers,
    divided by the samples-to-target multiplier; and the seconds in which data is copied and
    machines start.
    """
    speed, usd, samples = got.effective_samples_per_second, got.usd_per_hour_interval, wish.samples
    work_s = {
        end: (samples or 0) / getattr(speed, other)
        for end, other in (("value", "value"), ("low", "high"), ("high", "low"))
    }
    # Prices of machines are off by as much as the whole.
    share = got.usd_per_hour.compute / usd.value if usd.value > 0 else 0.0
    paid_s = {end: seconds + share * wish.startup_s for end, seconds in work_s.items()}
    return Totals(
        samples=samples or 0,
        seconds=Interval(**{end: seconds + wish.lead_s for end, seconds in work_s.items()}),
        usd=Interval(
            **{end: getattr(usd, end) * s / SECONDS_PER_HOUR for end, s in paid_s.items()}
        ),
    )
