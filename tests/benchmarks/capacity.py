"""Check forecasts of spot capacity against launches: fitted on the first days, judged on the last.

    python tests/benchmarks/capacity.py DIR [--fit]

DIR has gcp_h100_launch_probes.csv: how many of 16 machines each zone launched, every 10 minutes.
For sets of one to four zones it compares the chance that enough machines are there with what
happened: the gap of the means, the Brier score beside those of persistence and of the usual shares,
the mean error over tenths of the chance, and the worst of ten equal groups. Then the ten groups
(deciles) of single zones beside what a forecast with exact chances would have shown, as hours and
zones hang together. Then plans for 95 %:
the fewest zones, the barest set, and every set whose machines are enough in 95 to 96 % of the
scenarios, unlike days among them, judged in fresh scenarios and on the last days (``--days fit``:
on each of the first days, by what the others give). Then what the table says without any launches:
whether its ranges hold the last days, and how long machines stay. ``--fit`` prints the weights that
the first days give, ``--part forecast|deciles|plans|table`` one part alone.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ledger import markdown

from placer.cost_model.capacity import forecast as model
from placer.cost_model.capacity.launch_forecast import best_sets
from placer.cost_model.capacity.scenarios import RESIDUAL, Likeness, latent, launchable, unlike_day
from placer.cost_model.capacity.supply import ENDS, chance_of
from placer.cost_model.capacity.survival import stay_of
from placer.market.capacity_table import class_rows, zone_capacity
from placer.records import replace

Array = npt.NDArray[Any]
FILE = "gcp_h100_launch_probes.csv"
ASKED = 16
FIT_DAYS = 7
DAY_TICKS = 144
TICK_H = 1 / 6
LEADS = {"10 min": 1, "1 h": 6, "6 h": 36, "24 h": 144}
"""Ticks ahead."""
NEEDED = (4, 8, 16)
MOST_ZONES = 4
DRAWS = 1024
FOLLOWED_H = 1.0
"""Hours ahead up to which what followed like counts is a part of the forecast."""
EXACT_DRAWS = 400
MOST_OFF = {"10 min": 0.06, "1 h": 0.06, "6 h": 0.06, "24 h": 0.09}
"""Error of the worst decile that was hoped for."""
STAYS_H = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 18.0, 24.0)
APART_H = (1, 3, 6, 12)
CONFIDENCE = 0.95
PLANNED = {"8 in all": 8, "16 in all": 16, "32 in all": 32}
FRESH_DRAWS = 4096
EVERY_TICKS = 18
HOURS = (1, 6, 24)
PLACER_2025 = 0.9
"""What was assumed for every number of machines before there was data."""


@dataclass(frozen=True)
class Probes:
    """Launches of each tick and zone, -1 where nobody looked; the first days are to fit on."""

    zones: list[str]
    launched: Array
    fit: int

    @property
    def regions(self) -> list[str]:
        """Region of each zone."""
        return [zone.rsplit("-", 1)[0] for zone in self.zones]

    left_out: int = -1
    """A day that is not to fit on either."""

    @property
    def usual(self) -> Array:
        """Shares of 0, 1, ... machines in the first days."""
        known = self.launched[: self.fit][np.arange(self.fit) // DAY_TICKS != self.left_out]
        counts = np.bincount(known[known >= 0], minlength=ASKED + 1)
        built: Array = counts / counts.sum()
        return built

    def ticks(self, first: int, last: int, ahead: int, every: int = 1) -> Array:
        """List the ticks between two at which somebody looked, then and later."""
        at = np.arange(first, last - ahead, every)
        there = self.launched[:, 0] >= 0
        built: Array = at[there[at] & there[at + ahead]]
        return built


def read(folder: Path) -> Probes:
    """Read the probes onto a grid of ten minutes."""
    with (folder / FILE).open(encoding="utf-8", newline="") as handle:
        head, *rows = csv.reader(handle)
    times = [datetime.fromisoformat(row[0].replace("Z", "+00:00")) for row in rows]
    at = [round((time - times[0]).total_seconds() / 600) for time in times]
    launched = -np.ones((at[-1] + 1, len(head) - 1), dtype=int)
    launched[at] = [[int(cell) for cell in row[1:]] for row in rows]
    return Probes(zones=head[1:], launched=launched, fit=FIT_DAYS * 144)


def parts(probes: Probes, at: Array, ahead: int) -> Array:
    """Return the parts of the forecast at some ticks; shape (ticks, zones, machines + 1, 5)."""
    rows = []
    usual = probes.usual
    for tick in at.tolist():
        first = max(0, tick - 6 * 96)
        log, hours = probes.launched[first : tick + 1], np.arange(first, tick + 1) * TICK_H
        now = model.expected_now(log, usual)
        memories = [
            model.remembered(log, hours, memory_h, prior, usual)
            for memory_h, prior in zip(model.MEMORIES_H, model.PRIORS, strict=True)
        ]
        then = model.followed(log, hours, ahead * TICK_H, memories[0])
        rows.append(np.stack([now, *memories, np.broadcast_to(usual, now.shape), then], -1))
    return np.stack(rows)


def at_least(chances: Array) -> Array:
    """Chances of at least 1, 2, ... machines, from those of 0, 1, ..."""
    built: Array = np.cumsum(chances[..., ::-1], -1)[..., ::-1][..., 1:]
    return built


def fitted(probes: Probes, ahead: int) -> Array:
    """Fit the weights of the parts on the first days; what followed counts up to an hour ahead."""
    at = probes.ticks(72, probes.fit, ahead, every=2)
    at = at[(at + ahead) // DAY_TICKS != probes.left_out]
    x, y = regressed(probes, at, ahead)
    used = x.shape[1] - (ahead * TICK_H > FOLLOWED_H)
    built: Array = np.append(shares(x[:, :used], y), np.zeros(x.shape[1] - used))
    return built


def regressed(probes: Probes, at: Array, ahead: int) -> tuple[Array, Array]:
    """Return the chances by each part of at least 1, 2, ... machines, and whether they came."""
    x = at_least(np.moveaxis(parts(probes, at, ahead), -1, 0))
    y = probes.launched[at + ahead][..., None] > np.arange(ASKED)
    return x.reshape(len(x), -1).T, y.reshape(-1)


def shares(x: Array, y: Array) -> Array:
    """Fit weights from 0 that sum to 1 by least squares."""
    from scipy.optimize import nnls

    root = np.linalg.cholesky(x.T @ x / len(y) + 1e-9 * np.eye(x.shape[1]))
    goal = np.linalg.solve(root, x.T @ y / len(y))
    weights, _ = nnls(np.vstack([root.T, 100 * np.ones(x.shape[1])]), np.append(goal, 100))
    built: Array = weights / weights.sum()
    return built


def gains(probes: Probes) -> list[list[object]]:
    """Compare forecasts of each of the first days with and without what followed, by weights that
    the other days of those give; an odd step, because some counts alternate.
    """
    rows: list[list[object]] = []
    for lead_h in model.LEADS_H:
        ahead, without, better = round(lead_h / TICK_H), [], []
        for day in range(FIT_DAYS):
            others = replace(probes, left_out=day)
            at = probes.ticks(72, probes.fit, ahead, every=5)
            left = (at + ahead) // DAY_TICKS == day
            if not left.any():
                continue
            (x, y), (new, came) = (regressed(others, at[of], ahead) for of in (~left, left))
            errors = [
                float(((new[:, :used] @ shares(x[:, :used], y) - came) ** 2).mean())
                for used in (x.shape[1] - 1, x.shape[1])
            ]
            without.append(errors[0])
            better.append(errors[0] - errors[1])
        error = float(np.std(better, ddof=1)) / len(better) ** 0.5
        gain = float(np.mean(better))
        rows.append([f"{lead_h:.3g} h", float(np.mean(without)), 1e4 * gain, 1e4 * error])
    return rows


def fitted_likeness(probes: Probes, ahead: int) -> Likeness:
    """Fit both correlations on the first days: the pairs of zones that are short together."""
    at = probes.ticks(144, probes.fit, ahead, every=6)
    chances = (parts(probes, at, ahead) * weights(ahead * TICK_H)).sum(-1)
    y, nodes = probes.launched[at + ahead], np.polynomial.hermite_e.hermegauss(15)
    best: dict[bool, tuple[float, float]] = {}
    for rho in (0.0, 0.02, 0.04, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5):
        for same in (True, False):
            total = sum(
                _pair_likelihood(at_least(chances)[..., m - 1], y < m, rho, nodes, probes, same)
                for m in NEEDED
            )
            best[same] = max(best.get(same, (-np.inf, 0.0)), (total, rho))
    return Likeness(region=max(best[True][1], best[False][1]), across=best[False][1], source="fit")


def _pair_likelihood(
    enough: Array, short: Array, rho: float, nodes: Any, probes: Probes, same: bool
) -> float:
    from scipy.stats import norm

    edge = norm.ppf(np.clip(1 - enough, 1e-4, 1 - 1e-4))
    given = norm.cdf((edge[..., None] - np.sqrt(rho) * nodes[0]) / np.sqrt(1 - rho))
    alike = np.where(short[..., None], given, 1 - given)
    weight = nodes[1] / nodes[1].sum()
    return float(
        sum(
            np.log((alike[:, i] * alike[:, j]) @ weight).sum()
            for i, j in combinations(range(len(probes.zones)), 2)
            if (probes.regions[i] == probes.regions[j]) == same
        )
    )


def weights(lead_h: float) -> Array:
    """Weights that placer uses so many hours ahead."""
    row = model.weights_at(lead_h)
    return np.array([row.now, row.short, row.long, row.usual, row.followed])


def sets(probes: Probes) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """Yield the sets of so many zones, at most 150 of a kind, evenly spread."""
    for size in range(1, MOST_ZONES + 1):
        every = list(combinations(range(len(probes.zones)), size))
        yield size, every[:: max(1, len(every) // 150)]


def judged(probes: Probes) -> list[list[object]]:
    """Compare forecasts with what happened in the last days."""
    rows: list[list[object]] = []
    states = latent(probes.regions, DRAWS, 1)
    usual = probes.usual
    for name, ahead in LEADS.items():
        at = probes.ticks(probes.fit - ahead, len(probes.launched), ahead, every=6)
        chances = (parts(probes, at, ahead) * weights(ahead * TICK_H)).sum(-1)
        truth, now = probes.launched[at + ahead], probes.launched[at]
        scenarios = [launchable(row, states) for row in chances]
        flat = launchable(np.broadcast_to(usual, chances[0].shape), states)
        for needed in NEEDED:
            for size, zones in sets(probes):
                p = (
                    at_least(chances)[..., needed - 1]
                    if size == 1
                    else np.array([[_any(x, zone, needed) for zone in zones] for x in scenarios])
                )
                base = np.array([_any(flat, zone, needed) for zone in zones])
                o, kept = (
                    np.array([[row[list(zone)].max() >= needed for zone in zones] for row in of])
                    for of in (truth, now)
                )
                brier, climate, persistence = (
                    float(((guess - o) ** 2).mean()) for guess in (p, base, kept.astype(float))
                )
                rows.append([
                    f"{name}, some zone has {needed} of 16, {size} zones",
                    float(p.mean()),
                    float(o.mean()),
                    100 * float(p.mean() - o.mean()),
                    brier,
                    brier / max(1e-9, min(climate, persistence)),
                    _tenths(p, o),
                    _worst_decile(p, o),
                    100 * (1 - (1 - PLACER_2025) ** size - float(o.mean())),
                ])  # fmt: skip
    return rows


def _any(machines: Array, zones: tuple[int, ...], needed: int) -> float:
    return float((machines[:, list(zones)].max(1) >= needed).mean())


def _tenths(p: Array, o: Array) -> float:
    """Mean error over tenths of the chance, by how often each occurs."""
    bins = np.minimum((p * 10).astype(int), 9)
    return float(
        sum(
            (bins == q).mean() * abs(p[bins == q].mean() - o[bins == q].mean())
            for q in range(10)
            if (bins == q).any()
        )
    )


def _worst_decile(p: Array, o: Array) -> float:
    """Largest error of ten groups of equally many forecasts, from the lowest chances up."""
    order = np.argsort(p, axis=None, kind="stable")
    groups = zip(
        np.array_split(p.ravel()[order], 10), np.array_split(o.ravel()[order], 10), strict=True
    )
    return float(max(abs(said.mean() - was.mean()) for said, was in groups))


@dataclass(frozen=True)
class Deciles:
    """Forecasts of single zones in ten groups, beside what an exact forecast would have shown.

    ``said``, ``was``, ``error``, ``zones`` and ``spells`` have ten items; ``error`` is the standard
    deviation of said less was, ``worst`` the worst group of each draw, if the forecast is exact.
    """

    what: str
    hoped: float
    stay_h: float
    count: int
    said: Array
    was: Array
    error: Array
    zones: list[int]
    spells: list[int]
    worst: Array


def deciles(probes: Probes) -> Iterator[Deciles]:
    """Yield the ten groups of each lead and number of machines on the last days.

    An exact forecast is drawn as latent normal states that are alike as zones are and forget within
    some hours, fitted to the first days; a state below the normal quantile of the chance is enough.
    So each chance is exact, and what happens hangs together over hours and zones as it did.
    """
    from scipy.stats import norm

    for name, ahead in LEADS.items():
        first = probes.ticks(72, probes.fit, ahead, every=6)
        stay_h = fitted_stay(*_of_zones(probes, first, ahead))
        at = probes.ticks(probes.fit - ahead, len(probes.launched), ahead, every=6)
        chances, enough = _of_zones(probes, at, ahead)
        hours = at * TICK_H
        drawn = [states_of(hours, probes.regions, stay_h, seed) for seed in range(EXACT_DRAWS)]
        for needed, p, o in zip(NEEDED, chances, enough, strict=True):
            groups = np.array_split(np.argsort(p, axis=None, kind="stable"), 10)
            edge = norm.ppf(p)
            said = np.array([p.ravel()[of].mean() for of in groups])
            exact = np.array([[(z < edge).ravel()[of].mean() for of in groups] for z in drawn])
            zone = np.broadcast_to(np.arange(p.shape[1]), p.shape).ravel()
            changes = np.cumsum(np.diff(o.astype(int), axis=0, prepend=0) != 0, axis=0)
            spell = (changes * p.shape[1] + np.arange(p.shape[1])).ravel()
            yield Deciles(
                what=f"{name}, {needed} of 16",
                hoped=MOST_OFF[name],
                stay_h=stay_h,
                count=p.size // 10,
                said=said,
                was=np.array([o.ravel()[of].mean() for of in groups]),
                error=exact.std(0),
                zones=[len(np.unique(zone[of])) for of in groups],
                spells=[len(np.unique(spell[of])) for of in groups],
                worst=np.abs(exact - said).max(1),
            )


def _of_zones(probes: Probes, at: Array, ahead: int) -> tuple[Array, Array]:
    """Return chances of enough machines, and whether they came; shape (needed, ticks, zones)."""
    chances = at_least((parts(probes, at, ahead) * weights(ahead * TICK_H)).sum(-1))
    index = np.array(NEEDED) - 1
    enough = probes.launched[at + ahead][..., None] > index
    return np.moveaxis(chances[..., index], -1, 0), np.moveaxis(enough, -1, 0)


def fitted_stay(chances: Array, enough: Array) -> float:
    """Fit the hours in which a zone's state beside its forecasts falls to 1 / e: the likelihood of
    pairs of one zone some hours apart.
    """
    nodes = np.polynomial.hermite_e.hermegauss(21)
    total = {
        stay_h: sum(
            float(np.log(_alike(chances, enough, apart, np.exp(-apart / stay_h), nodes)).sum())
            for apart in APART_H
        )
        for stay_h in STAYS_H
    }
    return max(total, key=total.__getitem__)


def _alike(chances: Array, enough: Array, apart: int, rho: float, nodes: Any) -> Array:
    """Chances of what happened at two hours, by quadrature over what both have in common."""
    from scipy.stats import norm

    edge = norm.ppf(chances.clip(1e-4, 1 - 1e-4))
    given = norm.cdf((edge[..., None] - np.sqrt(rho) * nodes[0]) / np.sqrt(1 - rho))
    came = np.where(enough[..., None], given, 1 - given)
    built: Array = (came[:, :-apart] * came[:, apart:]) @ (nodes[1] / nodes[1].sum())
    return built


def states_of(hours: Array, regions: list[str], stay_h: float, seed: int) -> Array:
    """Draw latent states of zones that forget within some hours; shape (hours, zones)."""
    rng = np.random.default_rng(seed)
    names = sorted(set(regions))
    near = [names.index(region) for region in regions]
    shape = (len(hours), 1)
    fresh = (
        np.sqrt(RESIDUAL.across) * rng.standard_normal(shape)
        + np.sqrt(RESIDUAL.region - RESIDUAL.across)
        * rng.standard_normal((len(hours), len(names)))[:, near]
        + np.sqrt(1 - RESIDUAL.region) * rng.standard_normal((len(hours), len(regions)))
    )
    kept = np.exp(-np.diff(hours, prepend=-np.inf) / stay_h)
    states: Array = np.empty_like(fresh)
    for row, rho in enumerate(kept):
        before = states[row - 1] if row else 0.0
        states[row] = rho * before + np.sqrt(1 - rho**2) * fresh[row]
    return states


def worst_deciles(found: list[Deciles]) -> list[list[object]]:
    """Compare the worst decile of each cell with that of an exact forecast."""
    rows: list[list[object]] = []
    for cell in found:
        off = float(np.abs(cell.said - cell.was).max())
        rows.append([
            cell.what,
            cell.hoped,
            off,
            float(np.median(cell.worst)),
            float(np.quantile(cell.worst, 0.95)),
            100 * float((cell.worst > cell.hoped).mean()),
            100 * float((cell.worst >= off).mean()),
            cell.stay_h,
        ])  # fmt: skip
    return rows


def each_decile(found: list[Deciles]) -> list[list[object]]:
    """List all deciles."""
    return [
        [
            f"{cell.what}, {row + 1}",
            float(cell.said[row]),
            float(cell.was[row]),
            100 * float(cell.said[row] - cell.was[row]),
            100 * float(cell.error[row]),
            cell.count,
            cell.zones[row],
            cell.spells[row],
        ]
        for cell in found
        for row in range(10)
    ]


def moments(probes: Probes, ahead: int, days: str) -> Iterator[tuple[Array, Array]]:
    """Yield chances of every third hour and what came of them: of the last days, or of each day to
    fit on, by what the other days of those give.
    """
    if days == "last":
        at = probes.ticks(probes.fit, len(probes.launched), ahead, EVERY_TICKS)
        chances = (parts(probes, at, ahead) * weights(ahead * TICK_H)).sum(-1)
        yield from zip(chances, probes.launched[at + ahead], strict=True)
        return
    for day in range(1, FIT_DAYS):
        others = replace(probes, left_out=day)
        at = probes.ticks(72, probes.fit, ahead, EVERY_TICKS)
        at = at[(at + ahead) // DAY_TICKS == day]
        if len(at):
            chances = (parts(others, at, ahead) * fitted(others, ahead)).sum(-1)
            yield from zip(chances, probes.launched[at + ahead], strict=True)


def planned(probes: Probes, days: str) -> list[list[object]]:
    """Choose zones for 95 % every third hour, and see what became of them: the fewest zones, of all
    sets the barest, which promises the least that is enough, and every set of 95 to 96 %.
    """
    rows: list[list[object]] = []
    states, fresh_states = (
        unlike_day(latent(probes.regions, FRESH_DRAWS, seed), seed) for seed in (1, 2)
    )
    for name, ahead in LEADS.items():
        if name == "10 min":
            continue
        every = [
            (launchable(row, states), launchable(row, fresh_states), later)
            for row, later in moments(probes, ahead, days)
        ]
        for (what, needed), choose in product(PLANNED.items(), (fewest, barest, alike)):
            promised, fresh, held, zones, none = [], [], [], [], 0
            for drawn, again, later in every:
                chosen = choose(drawn, needed)
                none += not chosen
                for one, promise in chosen:
                    promised.append(promise)
                    fresh.append(float((again[:, one].sum(1) >= needed).mean()))
                    held.append(float(later[one].sum() >= needed))
                    zones.append(len(one))
            if not held:
                continue
            off = np.array(fresh) - np.array(promised)
            rows.append([
                f"{name}, {what}, {choose.__name__}",
                len(held),
                none,
                float(np.mean(zones)),
                float(np.mean(promised)),
                100 * float(off.mean()),
                100 * float(off.min()),
                min(fresh),
                float(np.mean(held)),
            ])  # fmt: skip
    return rows


Chosen = list[tuple[list[int], float]]
"""Zones and what they promise."""


def fewest(machines: Array, needed: int) -> Chosen:
    """Return the best set of the fewest zones, and its promise."""
    sets = best_sets(machines, needed, MOST_ZONES)
    enough = [one for one in sets if one.together >= CONFIDENCE]
    return [([*enough[0].zones], enough[0].together)] if enough else []


def barest(machines: Array, needed: int) -> Chosen:
    """Return the set that promises the least of those that are enough, and its promise."""
    enough = [one for one in promises(machines, needed) if one[1] >= CONFIDENCE]
    return [min(enough, key=lambda one: (one[1], len(one[0]), one[0]))] if enough else []


def alike(machines: Array, needed: int) -> Chosen:
    """Return every set that promises up to a point more than is enough."""
    return [one for one in promises(machines, needed) if CONFIDENCE <= one[1] < CONFIDENCE + 0.01]


def promises(machines: Array, needed: int) -> Chosen:
    """Return every set of at most `MOST_ZONES` zones with what it promises."""
    every: Chosen = []
    for size in range(1, MOST_ZONES + 1):
        sets = list(combinations(range(machines.shape[1]), size))
        found = (machines[:, np.array(sets, dtype=np.intp)].sum(2) >= needed).mean(0)
        every += [([*one], share) for one, share in zip(sets, found.tolist(), strict=True)]
    return every


def ranges(probes: Probes) -> list[list[object]]:
    """Compare the class row, and one from the first days alone, with the last days."""
    known = zone_capacity(
        class_rows(), provider="gcp", region="us-central1", device="H100", market="spot"
    )
    rows: list[list[object]] = []
    first, last = probes.launched[: probes.fit], probes.launched[probes.fit :]
    for needed in (1, *NEEDED):
        share, low, high = (chance_of(known, needed, end) or 0.0 for end in ENDS)
        early = first[first[:, 0] >= 0] >= needed
        early_low, early_high = _bootstrap(early)
        for size, zones in sets(probes):
            whole = last[last[:, 0] >= 0] >= needed
            happened = float(np.mean([whole[:, list(of)].any(1).mean() for of in zones]))
            chance, least, most = (1 - (1 - part) ** size for part in (share, low, high))
            early_least, early_most = (1 - (1 - part) ** size for part in (early_low, early_high))
            assumed = 1 - (1 - PLACER_2025) ** size
            rows.append([
                f"some zone has {needed} of 16, {size} zones",
                chance,
                f"{least:.2f} to {most:.2f}",
                f"{early_least:.2f} to {early_most:.2f}",
                happened,
                "yes" if least <= happened <= most else "no",
                "yes" if early_least <= happened <= early_most else "no",
                100 * (assumed - happened),
            ])  # fmt: skip
    return rows


def _bootstrap(enough: Array) -> tuple[float, float]:
    """5th and 95th percentile of a share over days and zones."""
    days = len(enough) // 144
    of_day = enough[: days * 144].reshape(days, 144, -1).mean(1)
    rng = np.random.default_rng(0)
    zones = of_day.shape[1]
    shares = [
        of_day[rng.integers(0, days, days)][:, rng.integers(0, zones, zones)].mean()
        for _ in range(2000)
    ]
    low, high = np.quantile(shares, (0.05, 0.95))
    return float(low), float(high)


def stays(probes: Probes) -> list[list[object]]:
    """Compare how long zones kept enough machines in the last days with the class row, and with a
    chance of 20 % a month for each machine.
    """
    known = zone_capacity(
        class_rows(), provider="gcp", region="us-central1", device="H100", market="spot"
    )
    rows: list[list[object]] = []
    last = probes.launched[probes.fit :]
    for needed in NEEDED:
        stay = stay_of(known, needed)
        assert stay is not None
        began = last[:-1] >= needed
        for hours in HOURS:
            ticks = round(hours / TICK_H)
            kept, total = 0, 0
            for tick, zone in zip(*np.nonzero(began), strict=True):
                spell = last[tick : tick + ticks + 1, zone]
                short = np.nonzero((spell < needed) & (spell >= 0))[0]
                if len(short):
                    total += 1
                elif len(spell) > ticks:
                    kept, total = kept + 1, total + 1
            rows.append([
                f"{needed} of 16, {hours} h",
                stay.share(hours),
                kept / max(1, total),
                total,
                0.8 ** (needed * hours / 730),
            ])  # fmt: skip
    return rows


def main() -> None:
    """Print the tables, or the fit."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("folder", type=Path, metavar="DIR")
    words.add_argument("--fit", action="store_true", help="print what the first days give")
    words.add_argument(
        "--part", choices=("forecast", "deciles", "plans", "table"), help="one part alone"
    )
    words.add_argument("--days", choices=("fit", "last"), default="last", help="days of the plans")
    given = words.parse_args()
    probes = read(given.folder)
    if given.fit:
        for lead_h in model.LEADS_H:
            print(f"{lead_h:.2f} h: {fitted(probes, round(lead_h / TICK_H)).round(2)}")
        for ahead in LEADS.values():
            print(ahead, fitted_likeness(probes, ahead))
        heads = (
            "with what followed like counts, each day by the others|squared error without"
            "|gain, 1e-4|its standard error over days, 1e-4"
        )
        print("\n".join(markdown(heads.split("|"), gains(probes))))
        return
    if given.part in (None, "forecast"):
        heads = (
            "what|chance|happened|gap, points|Brier|Brier over the better of persistence and the "
            "usual|error over tenths|worst decile|gap with 90 % assumed, independent"
        )
        print("\n".join(markdown(heads.split("|"), judged(probes))))
        print(f"\nlikeness of zones: {RESIDUAL.region} in a region, {RESIDUAL.across} across\n")
    if given.part in (None, "deciles"):
        found = list(deciles(probes))
        heads = (
            "worst decile of one zone|hoped for|found|exact forecast: median|95 % of draws below"
            "|% above what is hoped for|% at least as found|hours to forget"
        )
        print("\n".join(markdown(heads.split("|"), worst_deciles(found))), "\n")
        heads = (
            "decile|said|was|off, points|standard error of an exact forecast, points|forecasts"
            "|zones|spells"
        )
        print("\n".join(markdown(heads.split("|"), each_decile(found))), "\n")
    if given.part in (None, "plans"):
        heads = (
            "plan for 95 %|plans|no set of four zones|zones|promised|fresh, points off on average"
            "|worst|least in fresh scenarios|held"
        )
        print("\n".join(markdown(heads.split("|"), planned(probes, given.days))), "\n")
    if given.part in (None, "table"):
        heads = (
            "without launches|class row|its range|range of the first days|happened|in its range"
            "|in that of the first days|gap with 90 % assumed, independent"
        )
        print("\n".join(markdown(heads.split("|"), ranges(probes))), "\n")
        heads = "still enough from any moment|class row|last days|moments|20 % a month and machine"
        print("\n".join(markdown(heads.split("|"), stays(probes))))


if __name__ == "__main__":
    main()
