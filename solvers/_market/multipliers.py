"""Multipliers of the Lagrangian bound: the price of a dollar, a gram or a device in samples/s."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Array

BOTH = 24
"""Pairs of prices, of a dollar and of a limited sum, at which the bound is evaluated."""
MULTIPLIERS = 24
"""Prices of a dollar in samples/s at which the bound is evaluated."""


def bound_rows(speed: Array, usd: Array, limited: Array, own: Sequence[float] = ()) -> Array:
    """Return the rows (alpha, beta, gammas) of the tests sum (alpha v - beta c - gamma g) n >=
    threshold.

    Parameters
    ----------
    speed, usd
        Samples/s and USD/h of one machine; shape (pools,).
    limited
        What one machine takes of each sum that has a limit, g: emissions, devices; shape (sums,
        pools).
    own
        Further prices of a dollar, which a question has of its own.

    Returns
    -------
    Array
        Shape (rows, 2 + sums): speed alone, multipliers of the price, rows of each sum that some
        machine adds to, the price alone.
    """
    # The range reaches beyond the worst and the best speed for a dollar: outside of it a row
    # decides as the ends do. Any finite set of multipliers gives valid bounds.
    ratio = speed / np.maximum(usd, 1e-6)
    grid = np.geomspace(ratio.min() / 20, ratio.max() * 5, MULTIPLIERS)
    multipliers = np.sort(np.concatenate([[0.0], grid, own]))
    priced = np.column_stack(
        [np.ones(len(multipliers)), multipliers, np.zeros((len(multipliers), len(limited)))]
    )
    return np.vstack(
        [
            priced,
            *_limited_rows(speed, limited),
            *_both_rows(speed, usd, limited),
            [[0.0, 1.0, *np.zeros(len(limited))]],
        ]
    )


def _both_rows(speed: Array, usd: Array, limited: Array) -> list[Array]:
    """Return the rows (1, beta, gamma) of each limited sum, where budget and sum limit together;
    each of shape (rows, 2 + sums).

    Notes
    -----
    For a price of a dollar between that of the best machine that takes nothing of the sum and that
    of the best of all, gamma is the least price of the sum at which no machine is worth more than
    it costs: the frontier on which the tightest pair of prices lies for each budget and each limit.
    """
    built = []
    ratio = speed / np.maximum(usd, 1e-6)
    for k, each in enumerate(limited):
        takes = each > 0
        if not takes.any():
            continue
        high = ratio[takes].max()
        low = max(high / 20, ratio[~takes].max(initial=0.0))
        if low >= high:
            continue
        rows = np.zeros((BOTH + 1, 2 + len(limited)))
        rows[:, 0] = 1.0
        rows[1:, 1] = np.geomspace(low, high, BOTH)
        rows[0, 1] = 0.0 if takes.all() else low
        left = speed[takes] - rows[:, 1:2] * usd[takes]
        rows[:, 2 + k] = (left / each[takes]).max(axis=1)
        built.append(rows)
    return built


def _limited_rows(speed: Array, limited: Array) -> list[Array]:
    """Return the rows (1, 0, gamma) and (0, 0, 1) of each sum that some machine adds to; each of
    shape (rows, 2 + sums).
    """
    built = []
    for k, each in enumerate(limited):
        if np.any(each > 0):
            rows = np.zeros((MULTIPLIERS + 1, 2 + len(limited)))
            ratio = speed / np.maximum(each, 1e-6)
            rows[:-1, 0] = 1.0
            rows[:-1, 2 + k] = np.geomspace(
                ratio.min() / 20, ratio[each > 0].max() * 5, MULTIPLIERS
            )
            rows[-1, 2 + k] = 1.0
            built.append(rows)
    return built
