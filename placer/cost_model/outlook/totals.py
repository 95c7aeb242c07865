"""Time and money for all samples that a placement is to train on."""

from __future__ import annotations

from msgspec import Struct

from placer.cost_model.estimate import Estimate
from placer.units import SECONDS_PER_HOUR, Interval


class Totals(Struct, frozen=True, kw_only=True):
    """What a number of samples, counted at equal progress, takes and costs; seconds and USD."""

    samples: int
    seconds: Interval
    usd: Interval


def totals_of(got: Estimate, samples: int) -> Totals:
    """Time and money until so many samples count.

    Parameters
    ----------
    got
        Estimate of a placement.
    samples
        Samples at equal progress: what passes through the workers, divided by the samples-to-target
        multiplier.

    Notes
    -----
    While all machines are there: waiting for spot machines and starting up are not in it. The ends
    of the money are the lowest price per hour for the shortest time and the highest for the
    longest; the truth lies within, as a fast run also sends more per hour.
    """
    speed, usd = got.effective_samples_per_second, got.usd_per_hour_interval
    seconds = Interval(
        value=samples / speed.value, low=samples / speed.high, high=samples / speed.low
    )
    hours = Interval(
        **{end: getattr(seconds, end) / SECONDS_PER_HOUR for end in ("value", "low", "high")}
    )
    return Totals(
        samples=samples,
        seconds=seconds,
        usd=Interval(
            value=usd.value * hours.value, low=usd.low * hours.low, high=usd.high * hours.high
        ),
    )
