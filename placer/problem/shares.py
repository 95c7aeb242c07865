"""Shares of the speed: how much of it may come from one region or provider, and how much comes from
machines on demand at least.

The speed of a placement is that of its workers, each by itself: the part of it that is lost with a
region is the part of the work that stops. A share of the machines would be kept by machines that
hardly work.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from msgspec import Struct

from placer.errors import PlacerError, unknown

AREAS = ("zone", "region", "provider")
"""What a share of the speed may be limited by."""
UNITS_PER_SAMPLE = 1_000_000
"""Speeds are whole numbers of millionths of a sample per second, so that sums and shares of them
are the same in every order.
"""
ROUNDING = 1e-9


class Part(Struct, frozen=True, kw_only=True):
    """Workers of one place and market with their speed in millionths of a sample per second."""

    place: str
    market: str
    speed: int


def units_of(samples_per_second: float) -> int:
    """Return a speed as a whole number of millionths of a sample per second, at least 1."""
    return max(1, round(samples_per_second * UNITS_PER_SAMPLE))


class ShareLimit(Struct, frozen=True, kw_only=True):
    """At most a share of the speed in any one zone, region or provider."""

    share: float
    area: str = "region"

    def __post_init__(self) -> None:
        """Refuse shares that allow nothing or limit nothing, and unknown areas."""
        if not 0 < self.share < 1:
            raise PlacerError(
                f"max share {self.share:g} is not between 0 and 1", "write it as 50% or 0.5"
            )
        if self.area not in AREAS:
            raise unknown("area", self.area, AREAS)

    def pattern(self, place: str) -> str:
        """Return the pattern of all places of the area that a place is in.

        >>> ShareLimit(share=0.5).pattern("gcp/us-west1")
        'gcp/us-west1'
        >>> ShareLimit(share=0.5, area="provider").pattern("gcp/us-west1")
        'gcp/*'
        """
        return f"{place.split('/', maxsplit=1)[0]}/*" if self.area == "provider" else place

    def most(self, speed: int) -> int:
        """Return how much of a speed may be in one area."""
        return most_of(self.share, speed)

    @property
    def fewest_areas(self) -> int:
        """Areas over which workers spread at least.

        >>> ShareLimit(share=0.5).fewest_areas, ShareLimit(share=0.4).fewest_areas
        (2, 3)
        """
        return math.ceil(1 / self.share - ROUNDING)

    @property
    def spec(self) -> str:
        """The limit as it is written: ``50%/region``."""
        return f"{100 * self.share:g}%/{self.area}"


class SpeedCap(Struct, frozen=True, kw_only=True):
    """At most so much speed, in millionths of a sample per second, wherever place and market match
    (wildcards): ``each`` kind of worker apart, or all ``together``.
    """

    place: str
    most: int
    market: str = "*"
    scope: str = "each"

    def covers(self, place: str, market: str) -> bool:
        """Tell whether workers of a place and market count."""
        return fnmatchcase(place, self.place) and fnmatchcase(market, self.market)


def most_of(share: float, speed: int) -> int:
    """Return the most of a speed that is within a share of it.

    >>> most_of(0.5, 9), most_of(1 - 0.25, 8)
    (4, 6)
    """
    return math.floor(share * speed * (1 + ROUNDING))


def broken_shares(
    shares: Iterable[ShareLimit], floor: float | None, parts: Iterable[Part]
) -> Iterator[tuple[str, str]]:
    """Yield each share that a placement breaks, and a share on demand below its floor."""
    parts = tuple(parts)
    speed = sum(part.speed for part in parts)
    for limit in shares:
        for pattern, own in crowded(limit, parts):
            yield (
                "share",
                f"{100 * own / speed:.3g} % of the speed is in {pattern.removesuffix('/*')}, more "
                f"than {limit.spec}",
            )
    if floor is not None:
        others = sum(part.speed for part in parts if part.market != "on_demand")
        if others > most_of(1 - floor, speed):
            yield (
                "on-demand",
                f"{100 * (1 - others / speed):.3g} % of the speed is on demand, less than "
                f"{100 * floor:g} %",
            )


def crowded(limit: ShareLimit, parts: Iterable[Part]) -> list[tuple[str, int]]:
    """Return the areas that have more than their share, each with its speed, sorted by area."""
    speeds: dict[str, int] = defaultdict(int)
    for part in parts:
        speeds[limit.pattern(part.place)] += part.speed
    most = limit.most(sum(speeds.values()))
    return sorted((area, speed) for area, speed in speeds.items() if speed > most)


def broken_caps(
    caps: Iterable[SpeedCap], least: int | None, parts: Iterable[Part]
) -> Iterator[str]:
    """Yield a sentence for each cap that a placement breaks, and for a speed below the least."""
    parts = tuple(parts)
    for cap in caps:
        speeds = [part.speed for part in parts if cap.covers(part.place, part.market)]
        most = sum(speeds) if cap.scope == "together" else max(speeds, default=0)
        if most > cap.most:
            yield f"a speed of {most} in {cap.place} ({cap.market}) is above {cap.most}"
    speed = sum(part.speed for part in parts)
    if least is not None and speed < least:
        yield f"a speed of {speed} is below {least}"
