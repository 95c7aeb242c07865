"""Time and money for all samples, and the speed that every surface shows."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from placer.cost_model.estimate import Estimate
from placer.problem.requirements import Requirements
from placer.records import Natural
from placer.units import SECONDS_PER_HOUR, SPEED_LEVEL, Interval, format_number, format_rough


class Totals(Struct, frozen=True, kw_only=True):
    """What a number of samples, counted at equal progress, takes and costs; seconds and USD."""

    samples: Natural
    seconds: Interval
    usd: Interval


def totals_of(got: Estimate, wish: Requirements) -> Totals:
    """Time and money until all samples of a request count, while all machines are there. Machines
    alone are paid while they start, as nothing is sent. The ends of the money are the lowest price
    per hour for the shortest time and the highest for the longest; the truth lies within, as a fast
    run also sends more per hour.
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


LEVEL = f"{100 * SPEED_LEVEL:g} %"
LEVEL_WORDS = f"{LEVEL} interval"
"""The level of intervals of speeds."""


def unmeasured(provenance: Iterable[str]) -> dict[str, str]:
    """Return the basis of the speed of each device that nobody measured."""
    rows = [line.split(": ") for line in provenance if line.startswith("speed on ")]
    return {row[0].removeprefix("speed on "): row[1] for row in rows if row[1] != "measured"}


def speed_number(value: float, provenance: Iterable[str]) -> str:
    """Write a speed with as many digits as its basis bears.

    >>> speed_number(3272.6, ["speed on L4:4: assumed: wide"]), speed_number(3272.6, [])
    ('3,270', '3,273')
    """
    return (format_rough if unmeasured(provenance) else format_number)(value)


def speed_between(got: Estimate) -> str:
    """Write the ends of the speed that counts."""
    speed, known = got.shown_speed, got.provenance
    return f"{speed_number(speed.low, known)} to {speed_number(speed.high, known)}"
