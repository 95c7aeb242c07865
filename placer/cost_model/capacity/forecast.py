"""How many spot machines zones will launch some hours ahead, alone and together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, json

from placer.cost_model.capacity.supply import RESIDUAL, Likeness, latent, launchable, unlike_day
from placer.errors import PlacerError
from placer.market.launch_log import LaunchLog
from placer.records import Count, Natural, Positive, Share

Array = npt.NDArray[Any]
LEADS_H = (1 / 6, 0.5, 1.0, 3.0, 6.0, 12.0, 24.0, 48.0)
"""Hours ahead at which weights were fitted; between them they change with the logarithm."""
MEMORIES_H = (3.0, 24.0)
"""Hours after which an observation counts 1 / e of a new one: the short and the long memory."""
PRIORS = (1.0, 3.0)
"""Observations that the usual shares count for in each memory."""
ALIKE = 1 / 8
"""Counts that differ by at most this share of the machines asked for are alike."""
NEAREST = 1 / 4
"""Two observations are a lead apart where their distance misses it by at most this share of it."""
STAY = 0.98
"""Weight of the last count in what is expected of the present; the usual shares have the rest."""


class Weights(NamedTuple):
    """Parts of a forecast: last count, both memories, usual shares, what followed like counts."""

    now: float
    short: float
    long: float
    usual: float
    followed: float


FITTED = (
    Weights(0.25, 0.20, 0.00, 0.00, 0.55),
    Weights(0.21, 0.36, 0.00, 0.00, 0.43),
    Weights(0.20, 0.35, 0.00, 0.01, 0.44),
    Weights(0.24, 0.40, 0.32, 0.04, 0.00),
    Weights(0.17, 0.19, 0.56, 0.08, 0.00),
    Weights(0.04, 0.14, 0.71, 0.11, 0.00),
    Weights(0.11, 0.62, 0.07, 0.20, 0.00),
    Weights(0.10, 0.51, 0.00, 0.39, 0.00),
)
"""Fitted on the first seven days of the launches that `scenarios.RESIDUAL` names; a day ahead the
short memory counts more than the long one, because days are alike at the same hour. What followed
counts up to 1 h: beyond, it gained less than two standard errors on days left out.
"""


def weights_at(lead_h: float) -> Weights:
    """Return the parts of a forecast so many hours ahead; they must be positive and finite."""
    if not 0 < lead_h < math.inf:
        raise PlacerError(f"a forecast {lead_h} h ahead is not possible", "give hours above 0")
    known = [math.log(lead) for lead in LEADS_H]
    parts = [
        float(np.interp(math.log(lead_h), known, column)) for column in zip(*FITTED, strict=True)
    ]
    total = math.fsum(parts)
    return Weights(*(part / total for part in parts))


def _shares(weight: Array, launched: Array, prior: float, otherwise: Array) -> Array:
    """Return weighted shares of 0, 1, ... machines; shape (zones, machines + 1)."""
    counts = range(otherwise.shape[-1])
    sums = np.stack([(weight * (launched == count)).sum(0) for count in counts], 1)
    built: Array = (sums + prior * otherwise) / (sums.sum(1, keepdims=True) + prior)
    return built


def remembered(
    launched: Array, hours: Sequence[float] | Array, memory_h: float, prior: float, usual: Array
) -> Array:
    """Return the shares of time with 0, 1, ... machines as they are remembered at the end of a log;
    shape (zones, machines + 1). ``launched`` has shape (observations, zones), -1 where nobody
    looked, ``hours`` shape (observations,), ascending. ``usual`` are shares to begin with; shape
    (machines + 1,).
    """
    age = np.asarray(hours)[-1] - np.asarray(hours)
    counted = np.exp(-age / memory_h)[:, None] * (launched >= 0)
    return _shares(counted, launched, prior, usual)


def followed(
    launched: Array, hours: Sequence[float] | Array, lead_h: float, otherwise: Array
) -> Array:
    """Return the shares of 0, 1, ... machines that followed counts like each zone's last one; shape
    (zones, machines + 1). It knows zones whose counts alternate, and how long a zone tends to stay
    as it is. What followed is forgotten as by the long memory; where nothing did, ``otherwise``
    stays.
    """
    when = np.asarray(hours, dtype=float)
    before = np.searchsorted((when[1:] + when[:-1]) / 2, when - lead_h)
    paired = np.abs(when - lead_h - when[before]) <= NEAREST * lead_h
    counts, last = otherwise.shape[1], _last(launched)
    was, came = launched[before], launched
    like = (was >= 0) & (came >= 0) & (np.abs(was - last) <= ALIKE * (counts - 1))
    weight = np.exp((when - when[-1]) / MEMORIES_H[1])[:, None] * (like & paired[:, None])
    return _shares(weight, came, PRIORS[1], otherwise)


def _last(launched: Array) -> Array:
    """Return each zone's last count, -1 where nobody ever looked."""
    seen = launched >= 0
    last = len(seen) - 1 - np.argmax(seen[::-1], axis=0)
    return np.where(seen.any(0), np.take_along_axis(launched, last[None], axis=0)[0], -1)


def expected_now(launched: Array, usual: Array) -> Array:
    """Return what is expected of the present: the last count, hardly anything else."""
    count = _last(launched)
    stays = STAY * (count[:, None] == np.arange(len(usual))) + (1 - STAY) * usual
    return np.where((count >= 0)[:, None], stays, usual)


def forecast(launched: Array, hours: Sequence[float] | Array, lead_h: float, usual: Array) -> Array:
    """Return the chances of 0, 1, ... machines in each zone some hours after the end of a log;
    shape (zones, machines + 1). Each zone's last observation counts as the present; see
    `remembered`.
    """
    parts = weights_at(lead_h)
    short, long = (
        remembered(launched, hours, memory_h, prior, usual)
        for memory_h, prior in zip(MEMORIES_H, PRIORS, strict=True)
    )
    then = followed(launched, hours, lead_h, short)
    now = expected_now(launched, usual)
    shares = (now, short, long, np.broadcast_to(usual, now.shape), then)
    built: Array = np.tensordot(parts, np.stack(shares), 1)
    return built


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

    machines: Machines that are wanted.
    asked: Machines that each zone was asked for.
    first, last: Ends of the log, ISO in UTC.
    zones: The most likely first.
    sets: The best set of one zone, of two and so on.
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
    """Forecast how likely zones launch enough machines, alone and together."""
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
    zones = (_zone(log, at, machines, chances[at]) for at in range(len(log.zones)))
    likely = sorted(zones, key=lambda row: (-(row.chance or 0.0), -row.chance_any, row.zone))
    return CapacityForecast(
        machines=machines,
        hours_ahead=hours_ahead,
        asked=log.most,
        first=f"{log.first:%Y-%m-%dT%H:%MZ}",
        last=f"{log.last:%Y-%m-%dT%H:%MZ}",
        observations=len(log.hours),
        zones=tuple(likely),
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
    """Find the zones that most likely have at ``least`` so many ``machines`` (shape (scenarios,
    zones)) in all: the best set of one zone, of two and so on, a larger one only if it is more
    likely to have enough. Where there are over `MOST_SETS` of a size, the best that grows from
    smaller ones.
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
        rows = zip(_together(machines, sets, least), sets, strict=True)
        ranked = sorted(rows, key=lambda row: (-row[0], row[1]))
        kept = [zones for _, zones in ranked[:KEPT]]
        chance, best = ranked[0]
        if found and chance <= found[-1].together:
            break
        alone = float((machines[:, list(best)].max(1) >= least).mean())
        found.append(ZoneSet(zones=best, together=chance, one_zone=alone))
    return tuple(found)


def _together(machines: Array, sets: Sequence[tuple[int, ...]], least: int) -> list[float]:
    chances: list[float] = []
    for first in range(0, len(sets), CHUNK):
        at = np.array(sets[first : first + CHUNK], dtype=np.intp)
        chances += (machines[:, at].sum(2) >= least).mean(0).tolist()
    return chances
