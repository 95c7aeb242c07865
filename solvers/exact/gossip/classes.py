"""Classes of places that are alike: near each other, or equal in what their sends cost."""

from __future__ import annotations

import numpy as np

from ..._market.arrays import Array, Indices

MOST = 7
"""Classes at most."""
ALIKE = 1.02
"""Places whose figures are within this of each other are one class, as long as there are more than
`MOST`."""


def near_classes(seconds: Array) -> Indices:
    """Group places by the seconds of their sends; shape (places,)."""
    apart = np.maximum(seconds, seconds.T)
    np.fill_diagonal(apart, 0.0)
    return _grouped(apart)


def price_classes(usd: Array) -> Indices:
    """Group places by what their sends cost each way; shape (places,)."""
    both = np.concatenate([_finite(usd), _finite(usd).T], axis=1)
    apart = np.abs(both[:, None, :] - both[None, :, :]).mean(axis=2)
    return _grouped(apart)


def _finite(figures: Array) -> Array:
    built: Array = np.where(np.isfinite(figures), figures, 0.0)
    return built


def _grouped(apart: Array) -> Indices:
    """Merge the two groups whose farthest members are nearest until few are left."""
    count = len(apart)
    label, between = np.arange(count), np.where(np.isfinite(apart), apart, 1e30)
    np.fill_diagonal(between, np.inf)
    alive = count
    while alive > MOST or (alive > 1 and between.min() <= 0.0):
        one, other = divmod(int(np.argmin(between)), count)
        label[label == other] = one
        farthest = np.maximum(between[one], between[other])
        between[one], between[:, one] = farthest, farthest
        between[other], between[:, other] = np.inf, np.inf
        between[one, one] = np.inf
        alive -= 1
    built: Indices = np.unique(label, return_inverse=True)[1]
    return built
