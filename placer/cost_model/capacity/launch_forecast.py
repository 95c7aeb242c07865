"""What a log of launches says of the hours ahead: chances of each zone, and of zones together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, json

from placer.cost_model.capacity.forecast import forecast
from placer.cost_model.capacity.scenarios import RESIDUAL, Likeness, latent, launchable, unlike_day
from placer.errors import PlacerError
from placer.market.launch_log import LaunchLog
from placer.records import Count, Natural, Positive, Share

DRAWS = 8_192
"""Scenarios; a chance of 95 % is known to 0.3 points then."""
SEED = 0
MOST_ZONES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ZoneForecast:
    """One zone some hours ahead. ``last`` is its last count, ``usual`` the share of its
    observations with enough machines; None where nobody looked. ``chance`` is that of all machines
    alone, None where so many were never asked for, ``chance_any`` that of at least one.
    """

    zone: str
    region: str
    observations: Count
    last: Count | None
    usual: Share | None
    chance: Share | None
    chance_any: Share


@dataclass(frozen=True, kw_only=True, slots=True)
class SetForecast:
    """Zones together: the chance that they have enough in sum, and that one of them alone has.
    ``planned`` is the chance in sum to plan with: days unlike those of the log are among its
    scenarios.
    """

    zones: Annotated[tuple[str, ...], Meta(min_length=1)]
    together: Share
    planned: Share
    one_zone: Share


class CapacityForecast(
    Struct, frozen=True, kw_only=True, tag_field="schema", tag="placer.capacity-forecast/v1"
):
    """Chances that zones launch enough spot machines some hours after the end of a log.
    ``machines``: machines that are wanted. ``asked``: machines that each zone was asked for.
    ``first``, ``last``: ends of the log, ISO in UTC. ``zones``: the most likely first. ``sets``:
    the best set of one zone, of two and so on.
    """

    machines: Natural
    hours_ahead: Positive
    asked: Natural
    first: str
    last: str
    observations: Natural
    zones: tuple[ZoneForecast, ...]
    sets: tuple[SetForecast, ...]
    scenarios: Annotated[int, Meta(ge=2)]
    correlation: Likeness

    def __repr__(self) -> str:
        return (
            f"<CapacityForecast of {self.machines} machines in {self.hours_ahead:g} h: "
            f"{len(self.zones)} zones>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as a document ``placer.capacity-forecast/v1``."""
        built: dict[str, Any] = json.decode(json.encode(self))
        return built


def forecast_launches(
    log: LaunchLog, machines: int, hours_ahead: float, most_zones: int = MOST_ZONES
) -> CapacityForecast:
    """Forecast how likely zones launch enough machines, alone and together. ``log``: of launches.
    ``machines``: that are wanted. ``hours_ahead``: hours after the end of the log. ``most_zones``:
    maximum number of zones combined. `PlacerError` if all zones of the log were asked for fewer
    machines, or the hours are not positive.
    """
    if machines > log.most * len(log.zones):
        raise PlacerError(
            f"{machines} machines, where {len(log.zones)} zones were asked for {log.most} each",
            f"give at most {log.most * len(log.zones)}, or log launches of more machines",
        )
    chances = forecast(log.launched, log.hours, hours_ahead, log.usual)
    states = latent(log.regions, DRAWS, SEED)
    drawn, unlike = (launchable(chances, of) for of in (states, unlike_day(states, SEED)))
    sets = []
    for found in best_sets(drawn, machines, most_zones):
        planned = float((unlike[:, [*found.zones]].sum(1) >= machines).mean())
        sets.append(
            SetForecast(
                zones=tuple(log.zones[zone] for zone in found.zones),
                together=found.together,
                planned=min(found.together, planned),
                one_zone=found.one_zone,
            )
        )
    zones = [_zone(log, at, machines, chances[at]) for at in range(len(log.zones))]
    return CapacityForecast(
        machines=machines,
        hours_ahead=hours_ahead,
        asked=log.most,
        first=f"{log.first:%Y-%m-%dT%H:%MZ}",
        last=f"{log.last:%Y-%m-%dT%H:%MZ}",
        observations=len(log.hours),
        zones=tuple(sorted(zones, key=_rank)),
        sets=tuple(sets),
        scenarios=DRAWS,
        correlation=RESIDUAL,
    )


def _zone(log: LaunchLog, at: int, machines: int, chances: Any) -> ZoneForecast:
    seen = log.launched[:, at][log.launched[:, at] >= 0]
    known = len(seen) > 0
    return ZoneForecast(
        zone=log.zones[at],
        region=log.regions[at],
        observations=len(seen),
        last=int(seen[-1]) if known else None,
        usual=float((seen >= min(machines, log.most)).mean()) if known else None,
        chance=float(chances[machines:].sum()) if machines <= log.most else None,
        chance_any=float(1 - chances[0]),
    )


def _rank(row: ZoneForecast) -> tuple[float, float, str]:
    return -(row.chance or 0.0), -row.chance_any, row.zone


Array = npt.NDArray[Any]
MOST_SETS = 3_000
"""Sets of one size that are all looked at; of more, those that add a zone to the best smaller ones.
"""
KEPT = 40
"""Best sets of a size to which a zone is added."""
CHUNK = 256
"""Sets that are summed at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ZoneSet:
    """Zones, and the chances that they have enough in sum, or one of them alone."""

    zones: tuple[int, ...]
    together: float
    one_zone: float


def best_sets(machines: Array, least: int, most_zones: int) -> tuple[ZoneSet, ...]:
    """Find the zones that most likely have enough machines, for each number of zones. The best set
    of one zone, of two and so on; a larger one only if it is more likely to have enough. Where
    there are over `MOST_SETS` of a size, the best that grows from smaller ones. ``machines``: that
    each zone can launch; shape (scenarios, zones). ``least``: machines that are enough, in all.
    ``most_zones``: largest set.
    """
    found: list[ZoneSet] = []
    kept: list[tuple[int, ...]] = [()]
    count = machines.shape[1]
    for size in range(1, min(most_zones, count) + 1):
        sets = (
            list(combinations(range(count), size))
            if comb(count, size) <= MOST_SETS
            else sorted({tuple(sorted({*of, zone})) for of in kept for zone in range(count)})
        )
        sets = [zones for zones in sets if len(zones) == size]
        ranked = sorted(zip(_together(machines, sets, least), sets, strict=True), key=_order)
        kept = [zones for _, zones in ranked[:KEPT]]
        chance, best = ranked[0]
        if found and chance <= found[-1].together:
            break
        alone = float((machines[:, list(best)].max(1) >= least).mean())
        found.append(ZoneSet(zones=best, together=chance, one_zone=alone))
    return tuple(found)


def _order(ranked: tuple[float, tuple[int, ...]]) -> tuple[float, tuple[int, ...]]:
    return -ranked[0], ranked[1]


def _together(machines: Array, sets: Sequence[tuple[int, ...]], least: int) -> list[float]:
    """Return the share of scenarios in which each set has enough."""
    chances: list[float] = []
    for first in range(0, len(sets), CHUNK):
        at = np.array(sets[first : first + CHUNK], dtype=np.intp)
        chances += (machines[:, at].sum(2) >= least).mean(0).tolist()
    return chances
