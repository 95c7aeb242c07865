"""How many spot machines zones will launch some hours ahead, from what they launched lately."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from placer.errors import PlacerError

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
    """Return the shares of time with 0, 1, ... machines as they are remembered at the end of a log.
    Shape (zones, machines + 1); each row sums to 1. ``launched``: machines that could be launched;
    shape (observations, zones), -1 where nobody looked. ``hours``: when; shape (observations,),
    ascending. ``memory_h``, ``prior``: as in `MEMORIES_H` and `PRIORS`. ``usual``: shares to begin
    with; shape (machines + 1,).
    """
    age = np.asarray(hours)[-1] - np.asarray(hours)
    counted = np.exp(-age / memory_h)[:, None] * (launched >= 0)
    return _shares(counted, launched, prior, usual)


def followed(
    launched: Array, hours: Sequence[float] | Array, lead_h: float, otherwise: Array
) -> Array:
    """Return the shares of 0, 1, ... machines that followed counts like each zone's last one. It
    knows zones whose counts alternate, and how long a zone tends to stay as it is. What followed is
    forgotten as by the long memory. ``launched``, ``hours``: as in `remembered`. ``lead_h``: hours
    from a count to what followed it. ``otherwise``: shares to begin with, which stay where nothing
    followed; shape (zones, machines + 1).
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
    """Return what is expected of each zone's present: its last count, hardly anything else.
    ``launched``, ``usual``: as in `remembered`; a zone at which nobody ever looked is as usual.
    """
    count = _last(launched)
    stays = STAY * (count[:, None] == np.arange(len(usual))) + (1 - STAY) * usual
    return np.where((count >= 0)[:, None], stays, usual)


def forecast(launched: Array, hours: Sequence[float] | Array, lead_h: float, usual: Array) -> Array:
    """Return the chances of 0, 1, ... machines in each zone some hours after the end of a log.
    Shape (zones, machines + 1); each row sums to 1. ``launched``, ``hours``, ``usual``: as in
    `remembered`; what counts as the present is each zone's last observation. ``lead_h``: hours
    ahead.
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
