"""Worlds in which the spot prices of one device of a provider move together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from placer.advice.robustness.uncertainty import Factor, latin_hypercube

TOGETHER = 0.7
"""Correlation of the spot prices of one device over the regions of a provider.

Notes
-----
Over one window of price lists the changes of log(price) have an uncentred correlation of 0.86 for
H100 (7 rows of Google Cloud) and 0.88 for L4 (4); A100, which hardly moved, has none (3):
``tests/market/spot_price_moves.csv``. Devices and providers are taken as independent.
"""
_NORMAL = NormalDist()
_EDGE = 1e-9


def sampled(factors: Sequence[Factor], worlds: int, seed: int) -> list[list[float]]:
    """Draw shares of the ranges of some figures: a Latin hypercube, in which prices that move
    together share a part of their draw.

    Notes
    -----
    A Gaussian copula with one common factor for each group: every figure alone keeps its uniform
    share.
    """
    group_of = [_group(factor) for factor in factors]
    shared = sorted({g for g in group_of if g is not None and group_of.count(g) > 1})
    rows = latin_hypercube(worlds, len(factors) + len(shared), seed)
    own, common = math.sqrt(1 - TOGETHER), math.sqrt(TOGETHER)
    built = []
    for row in rows:
        market = dict(zip(shared, map(_score, row[len(factors) :]), strict=True))
        built.append(
            [
                share
                if group not in market
                else _NORMAL.cdf(own * _score(share) + common * market[group])
                for share, group in zip(row, group_of, strict=False)
            ]
        )
    return built


def _group(factor: Factor) -> tuple[str, str, str] | None:
    """Return provider, device and market of a price that moves by itself; None for all else."""
    if factor.kind != "price":
        return None
    _, place, gpu, market = factor.words.split(":")
    return None if market == "on-demand" else (place.partition("/")[0], gpu, market)


def _score(share: float) -> float:
    return _NORMAL.inv_cdf(min(max(share, _EDGE), 1 - _EDGE))


def move_together(factors: Sequence[Factor]) -> bool:
    """Return whether any two figures are prices that move together."""
    groups = [group for group in map(_group, factors) if group is not None]
    return len(set(groups)) < len(groups)
