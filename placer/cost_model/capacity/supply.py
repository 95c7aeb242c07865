"""How much capacity zones have: shares of time, scenarios of it, and how they move together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from placer.errors import PlacerError
from placer.market.capacity_table import CapacityRow, ZoneCapacity, named_zones, zone_capacity
from placer.records import Share, replace

Array = npt.NDArray[Any]


class Likeness(Struct, frozen=True, kw_only=True):
    """Correlation of the latent state of two zones: of one region, and of two regions. It is what
    is left beside each zone's own forecast, which already knows that a zone is short.
    """

    region: Share
    across: Share
    source: str

    def __post_init__(self) -> None:
        if not 0 <= self.across <= self.region <= 1:
            raise PlacerError(
                f"correlations of {self.region} in a region and {self.across} across regions are "
                f"not possible",
                "give 0 <= across <= region <= 1",
            )


RESIDUAL = Likeness(
    region=0.30,
    across=0.04,
    source="fitted to launches of 16 H100 spot machines in 13 zones of Google Cloud, October 2025 "
    "(SkyNomad artifact)",
)


DAY = 0.3
"""Standard deviation of what all zones have in common on a day that is unlike those of the log, in
units of a latent state: fitted on seven days of the same launches, each left out in turn.
"""


def latent(
    regions: Sequence[str],
    draws: int,
    seed: int,
    likeness: Likeness = RESIDUAL,
    zones: Sequence[str] | None = None,
) -> Array:
    """Draw the latent state of zones, standard normal each; shape (draws, zones). A name has the
    same states whatever else is drawn, so that a zone more changes nothing about the others, and a
    placement meets the scenarios of the market that it was chosen from. Each of an even number of
    draws has its mirror image, which halves the noise of means. No ``zones`` are alike in name;
    None: region and number.
    """
    names = [f"{region}/{at}" for at, region in enumerate(regions)] if zones is None else zones
    return mixed(regions, names, likeness, lambda name: _normal(name, draws, seed))


def mixed(
    regions: Sequence[str], zones: Sequence[str], likeness: Likeness, draw: Callable[[str], Array]
) -> Array:
    """Add up what all zones, those of a region, and each alone have of a draw."""
    near = {region: draw(region) for region in dict.fromkeys(regions)}
    everywhere = np.sqrt(likeness.across) * draw("")
    own = [
        everywhere
        + np.sqrt(likeness.region - likeness.across) * near[region]
        + np.sqrt(1 - likeness.region) * draw(f"zone {name}")
        for region, name in zip(regions, zones, strict=True)
    ]
    return np.stack(own, -1)


def unlike_day(states: Array, seed: int) -> Array:
    """Add what all zones have in common on a day to come that is unlike those of the log."""
    built: Array = states + DAY * _normal("day", len(states), seed)[:, None]
    return built


def _normal(name: str, draws: int, seed: int) -> Array:
    half = np.random.default_rng([seed, crc32(name.encode())]).standard_normal(draws // 2)
    return np.concatenate([half, -half])


def launchable(chances: Array, states: Array) -> Array:
    """Turn latent states (low: a short zone) into machines that can be launched; shape (draws,
    zones). ``chances`` of 0, 1, ... machines have shape (zones, machines + 1).
    """
    below = np.cumsum(chances, axis=1)[:, :-1].clip(0.0, 1.0)
    normal = NormalDist()
    edges = np.array([[_edge(normal, share) for share in row] for row in below.tolist()]).reshape(
        below.shape
    )
    built: Array = (states[:, :, None] > edges[None]).sum(2)
    return built


def _edge(normal: NormalDist, share: float) -> float:
    if share <= 0.0:
        return -np.inf
    return np.inf if share >= 1.0 else normal.inv_cdf(share)


MEMORIES = ((0.3, 1.0), (0.7, 48.0))
"""Shares of the variance with the hours after which a part keeps 1 / e of its state: what fitted
launches of 16 H100 spot machines in 13 zones of Google Cloud, October 2025 (SkyNomad artifact).
"""


def state_paths(
    regions: Sequence[str],
    zones: Sequence[str],
    *,
    steps: int,
    step_h: float,
    draws: int,
    seed: int,
    likeness: Likeness = RESIDUAL,
) -> Array:
    """Draw the latent states of zones over time; shape (steps, draws, zones). A name has the same
    path whatever else is drawn, and each of an even number of draws its mirror image.
    """
    return mixed(regions, zones, likeness, lambda name: _path(name, steps, draws, step_h, seed))


def _path(name: str, steps: int, draws: int, step_h: float, seed: int) -> Array:
    generator = np.random.default_rng([seed, crc32(name.encode()), 1])
    built = np.zeros((steps, draws))
    for share, memory_h in MEMORIES:
        kept = math.exp(-step_h / memory_h)
        half = generator.standard_normal((steps, draws // 2))
        half[1:] *= math.sqrt(1 - kept * kept)
        for at in range(1, steps):
            half[at] += kept * half[at - 1]
        built += math.sqrt(share) * np.concatenate([half, -half], axis=1)
    return built


MOST_ZONES = 3
"""Zones of a region over which its machines spread at most, unless they stay in one."""
ENDS = ("share", "share_low", "share_high")
"""Columns of a share: what is expected of it, and its low and high end."""
EVERY = 10**6
"""Machines of which a share holds that the user gives: of any number."""


class Stock(Struct, frozen=True, kw_only=True):
    """What is known of the zones in which a place launches one device on spot. ``zones`` are names,
    no two of them alike in the world; ``known`` is the capacity of each.
    """

    place: str
    device: str
    zones: tuple[str, ...]
    known: tuple[ZoneCapacity, ...]

    @property
    def most(self) -> int:
        """Most machines that all zones were ever asked for."""
        return sum(each.most for each in self.known)


def stock_of(
    rows: Sequence[CapacityRow],
    place: str,
    device: str,
    *,
    same_zone: bool,
    unavailable: float | None = None,
) -> Stock:
    """Look up what a table knows of spot machines in a place. All stay in one zone, the one with
    the best chance of the most machines, or spread over the zones that the table names, else over
    as many as it counts, at most `MOST_ZONES`. ``unavailable`` is the share of the time without
    any, where the user knows it; instead of the table.
    """
    provider, _, region = place.partition("/")
    wanted = {"provider": provider, "region": region, "device": device, "market": "spot"}
    usual = zone_capacity(rows, **wanted)
    most = 1 if same_zone else MOST_ZONES

    def alike(known: ZoneCapacity, count: int) -> Stock:
        zones = tuple(f"{place} {device} {number}" for number in range(count))
        return Stock(place=place, device=device, zones=zones, known=(known,) * count)

    if unavailable is not None:
        return alike(given_capacity(1 - unavailable, usual), most)
    named = {
        f"{provider}/{zone} {device}": zone_capacity(rows, zone=zone, **wanted)
        for zone in named_zones(rows, **wanted)
    }
    if not named:
        return alike(usual, min(most, usual.zones or 1))
    zones, known = zip(*sorted(named.items(), key=_rank)[:most], strict=True)
    return Stock(place=place, device=device, zones=zones, known=known)


def _rank(item: tuple[str, ZoneCapacity]) -> list[float]:
    return [-(row.share or 0.0) for row in reversed(item[1].launches)]


def given_capacity(share: float, known: ZoneCapacity) -> ZoneCapacity:
    """Return a zone with any number of machines in a share of the time; the rest as known."""
    row = CapacityRow(
        provider="*",
        device="*",
        market="spot",
        machines_asked=EVERY,
        machines=EVERY,
        share=share,
        share_low=share,
        share_high=share,
        basis="given",
        source="given with --unavailable",
        as_of="",
    )
    return replace(known, launches=(row,))


def at_least(known: ZoneCapacity, end: str = "share") -> tuple[Array, Array]:
    """Return numbers of machines and the chances that one zone launches at least so many. Below the
    fewest machines of any row the chance is that row's: who has eight has four. Between rows it
    falls along a line; it never rises.
    """
    counts = np.array([row.machines for row in known.launches], dtype=float)
    shares = np.array([getattr(row, end) for row in known.launches], dtype=float)
    return counts, np.minimum.accumulate(shares)


def chance_of(known: ZoneCapacity, machines: int, end: str = "share") -> float | None:
    """Return the chance that a zone launches so many machines; None: not observed."""
    if machines <= 0:
        return 1.0
    if machines > known.most:
        return None
    return float(np.interp(machines, *at_least(known, end)))


def chances_of(known: ZoneCapacity, most: int, end: str = "share") -> Array:
    """Return the chances that one zone launches 0, 1, ... machines; shape (most + 1,). More than
    ``most`` count as so many; what was not observed counts as not there.
    """
    top = min(most, known.most)
    reached = np.zeros(most + 2)
    reached[0] = 1.0
    if top:
        reached[1 : top + 1] = np.interp(np.arange(1, top + 1), *at_least(known, end))
    built: Array = reached[:-1] - reached[1:]
    return built


def supply_scenarios(
    regions: Sequence[str],
    chances: Array,
    draws: int,
    seed: int,
    *,
    owners: Sequence[int] | None = None,
    zones: Sequence[str] | None = None,
    likeness: Likeness = RESIDUAL,
) -> Array:
    """Draw how many machines places launch at the same time; shape (draws, places). ``chances`` of
    0, 1, ... machines have shape (zones, machines + 1); ``owners`` are places of zones, from 0;
    None: each zone is a place. See `latent`.
    """
    machines = launchable(chances, latent(regions, draws, seed, likeness, zones))
    if owners is None:
        return machines
    built = np.zeros((len(machines), max(owners) + 1), dtype=machines.dtype)
    for zone, owner in enumerate(owners):
        built[:, owner] += machines[:, zone]
    return built


def stock_scenarios(
    stocks: Sequence[Stock], wanted: Sequence[int], draws: int, seed: int, end: str = "share"
) -> Array:
    """Draw how many of the wanted machines each stock launches; shape (draws, stocks)."""
    most = max(wanted)
    pairs = [
        (at, zone, np.pad(chances_of(known, wanted[at], end), (0, most - wanted[at])))
        for at, stock in enumerate(stocks)
        for zone, known in zip(stock.zones, stock.known, strict=True)
    ]
    machines = supply_scenarios(
        [stocks[at].place for at, _, _ in pairs],
        np.stack([chances for _, _, chances in pairs]),
        draws,
        seed,
        owners=[at for at, _, _ in pairs],
        zones=[zone for _, zone, _ in pairs],
        likeness=likeness_of(stocks),
    )
    built: Array = np.minimum(machines, np.array(wanted))
    return built


def likeness_of(stocks: Sequence[Stock]) -> Likeness:
    """Return how alike zones are: as the most alike, so that nothing is promised in vain. Rows of
    books have both figures; those of documents and callers may know that of a region alone.
    """
    known = [each for stock in stocks for each in stock.known]
    region = [each.corr_region for each in known if each.corr_region is not None]
    across = [each.corr_across for each in known if each.corr_across is not None]
    across = across or [RESIDUAL.across]
    if not region:
        return RESIDUAL
    return Likeness(
        region=max(*region, *across), across=max(across), source="capacity table of the book"
    )


class Stay(Struct, frozen=True, kw_only=True):
    """Time until machines are lost, from any moment with all of them: the share that is left after
    t hours is (1 + t / b)^-a. Losses come soon or late: what has stayed for hours is likely to
    stay. A constant rate would say that neither is so.
    """

    a: float
    b_h: float

    def __post_init__(self) -> None:
        if not (0 < self.a < math.inf and 0 < self.b_h < math.inf):
            raise PlacerError(
                f"survival (1 + t / {self.b_h})^-{self.a} falls for no time",
                "give positive numbers",
            )

    def share(self, hours: float) -> float:
        """Return the share that is left after some hours.

        >>> round(Stay(a=0.42, b_h=0.95).share(24.0), 3)
        0.253
        """
        return float((1 + hours / self.b_h) ** -self.a)

    @property
    def median_h(self) -> float:
        """Hours after which half is lost.

        >>> round(Stay(a=0.58, b_h=2.31).median_h, 1)
        5.3
        """
        return float(self.b_h * (2 ** (1 / self.a) - 1))

    @property
    def losses_per_h(self) -> float:
        """Losses per hour of a run that launches anew after each loss: a / b. What is met at any
        moment has stayed for a while and will stay longer than what was just launched. In the long
        run the density of the time that is left, at 0, is one over the mean time between losses.

        >>> round(Stay(a=0.42, b_h=0.95).losses_per_h, 2)
        0.44
        """
        return self.a / self.b_h

    def times_h(self, chances: Array) -> Array:
        """Return the hours after which such shares are lost; shares from 0 to 1."""
        with np.errstate(divide="ignore"):
            built: Array = self.b_h * ((1 - chances) ** (-1 / self.a) - 1)
        return built


def stay_of(known: ZoneCapacity, machines: int) -> Stay | None:
    """Return how long so many machines of one zone stay together. Between rows by the logarithms of
    both figures; below the fewest machines that row's, which promises too little. None beyond the
    most machines of any row, or without rows: not observed.
    """
    rows = known.stays
    if not rows or machines > rows[-1].machines:
        return None
    counts = [row.machines for row in rows]
    a, b_h = (
        math.exp(np.interp(machines, counts, [math.log(getattr(row, name)) for row in rows]))
        for name in ("survival_a", "survival_b_h")
    )
    return Stay(a=a, b_h=b_h)


def first_loss_h(stays: Sequence[Stay], states: Array) -> Array:
    """Draw after how many hours the first of some groups of machines is lost; shape (draws,). Low
    ``states`` of shape (draws, groups) are lost soon, so that alike groups are lost together: never
    a product of their chances.
    """
    lost = _normal_cdf(states)
    built: Array = np.min([stay.times_h(lost[:, at]) for at, stay in enumerate(stays)], axis=0)
    return built


def _normal_cdf(states: Array) -> Array:
    chances = [0.5 * math.erfc(-state / math.sqrt(2)) for state in states.ravel().tolist()]
    return np.array(chances).reshape(states.shape)
