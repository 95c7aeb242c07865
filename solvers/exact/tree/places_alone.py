"""Places and numbers of workers whose placements within one region may be an improvement, in finer
prices of a dollar than those of the market.
"""

from __future__ import annotations

import numpy as np

from placer.solving import allowance

from ..._market.arrays import Array, Indices, Mask
from ..._market.required_machines import best_of
from ..bounds.relaxation import Family, Relaxation, margin, near_rows
from ..leaves.fronts import TIGHT, units_at

FINE, ROUNDS = 8, 2
"""Prices of a dollar that are tried between the neighbours of the tightest ones, and how often."""
CENTRES = 6
"""Tightest prices around which a round looks, those of most leaves first."""
Prices = dict[tuple[int, int], Array]
"""Prices of a dollar by place and number of workers."""
FEW = 3
"""As many open leaves are searched as soon as bounded."""


def still_open(
    relaxation: Relaxation, places: Indices, workers: Indices, family: Family, open_: Mask
) -> tuple[Mask, Prices]:
    """Return which of the open places and numbers of workers stay open, and the tightest prices of
    a dollar of each where they were looked for; shape (places, workers).

    Notes
    -----
    All of them at once: other leaves do the same, each by itself (`Fronts`).
    """
    market = relaxation.market
    if relaxation.problem.requirements.required_places or market.required_machines.rules:
        return open_, {}
    at, counts = np.flatnonzero(open_.any(axis=1)), np.flatnonzero(open_.any(axis=0))
    if open_.sum() <= FEW:
        return open_, {}
    cells = open_[np.ix_(at, counts)]
    weights = market.weights[near_rows(market.weights, relaxation.mode, relaxation.target)]
    weights = weights[priced(weights)]
    known, spare = np.zeros(0), np.zeros((0, *cells.shape))
    for _ in range(ROUNDS + 1):
        if len(weights) == 0:
            break
        needed = relaxation.thresholds_alone(places[at], workers[counts], family, weights)
        sums = np.stack([_sums(relaxation, int(p), family, weights) for p in places[at]], axis=1)
        sums = sums[:, :, workers[counts]]
        cells &= margin(sums, needed) >= 0
        known = np.concatenate([known, weights[:, 1]])
        spare = np.concatenate([spare, _spare(sums, needed, weights)])
        if cells.sum() <= FEW:
            known = known[:0]  # these few choose their own prices
            break
        tightest = spare[:, cells].argmin(axis=0)
        finite = np.isfinite(spare[:, cells].min(axis=0))
        weights = _around(known, tightest[finite], market.weights.shape[1])
    built = np.zeros_like(open_)
    built[np.ix_(at, counts)] = cells
    prices: Prices = {}
    for k, i in np.argwhere(cells).tolist() if len(known) else ():
        order = np.argsort(spare[:, k, i], kind="stable")[:TIGHT]
        tight = known[order[np.isfinite(spare[order, k, i])]]
        if len(tight):
            prices[int(places[at[k]]), int(workers[counts[i]])] = tight
    return built, prices


def _sums(relaxation: Relaxation, place: int, family: Family, weights: Array) -> Array:
    """Return the best weighted sums of n machines of one place; shape (rows, most + 1)."""
    allowance.check()
    units = units_at(relaxation.market, place, family.hosts)
    values = relaxation.market.values_at(weights, units.pools)
    each, machines = units.increments(values, relaxation.most)
    if len(machines) and machines.min() >= relaxation.most:  # the best one each time
        alike: Array = each.max(axis=1)[:, None] * np.arange(relaxation.most + 1)
        return alike
    return best_of(each, relaxation.most, machines)


def priced(weights: Array) -> Mask:
    """Return which rows weigh speed against the price alone."""
    rows: Mask = (weights[:, 0] > 0) & (weights[:, 1] > 0) & ~np.any(weights[:, 2:] > 0, axis=1)
    return rows


def _spare(sums: Array, needed: Array, weights: Array) -> Array:
    """Return what is to spare in each row in dollars an hour; infinite where a row says nothing."""
    with np.errstate(invalid="ignore"):
        spare = (sums - needed) / weights[:, 1, None, None]
    built: Array = np.where(np.isfinite(spare), spare, np.inf)
    return built


def _around(prices: Array, centres: Indices, columns: int) -> Array:
    """Return rows with prices of a dollar between the neighbours of some of the known ones."""
    ranked = np.array(sorted(set(prices.tolist())))
    often = np.bincount(np.searchsorted(ranked, prices[centres]), minlength=len(ranked))
    chosen = np.argsort(-often, kind="stable")[: min(CENTRES, int(np.count_nonzero(often)))]
    low = np.where(chosen > 0, ranked[chosen - 1], ranked[chosen] / 2)
    above = np.minimum(chosen + 1, len(ranked) - 1)
    high = np.where(chosen < len(ranked) - 1, ranked[above], 2 * ranked[chosen])
    shares = np.arange(1, FINE + 1) / (FINE + 1)
    fine = np.sort((low[:, None] * (high / low)[:, None] ** shares).ravel())
    built = np.zeros((len(fine), columns))
    built[:, 0], built[:, 1] = 1.0, fine
    return built
