"""Multipliers of the Lagrangian bound: the price of a dollar, a gram or a device in samples/s."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Array

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
        [priced, *_limited_rows(speed, limited), [[0.0, 1.0, *np.zeros(len(limited))]]]
    )


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
