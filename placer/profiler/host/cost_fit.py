"""Seconds a gigabyte and seconds a tensor from measured points, by least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.cost_model.timing.averaging import GB
from placer.errors import PlacerError
from placer.units import Interval
from placer.workload.constants import NINETY_PERCENT

LEAST_RELATIVE = 0.02
"""Least relative half-width of an interval: what a processor's clock varies from day to day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFit:
    """``seconds = s_per_gb x GB + s_per_tensor x tensors``: 90 % intervals, and the mean relative
    residual.
    """

    s_per_gb: Interval
    s_per_tensor: Interval
    relative_residual: float
    points: int


def fit(points: Sequence[tuple[float, float, float]]) -> HostFit:
    """Fit the two costs.

    Parameters
    ----------
    points
        (bytes, tensors, seconds) each, seconds above 0; at least three, of different sizes and
        counts.

    Returns
    -------
    HostFit
        Least squares of the relative errors, no cost below 0; standard errors from the residuals,
        times Student's quantile.

    Raises
    ------
    PlacerError
        If there are fewer than three points, a time is not positive, or the points do not tell the
        costs apart.

    Examples
    --------
    >>> # 3 s/GB and 1 ms a tensor
    >>> costs = fit([(1e9, 10, 3.01), (2e9, 10, 6.01), (1e9, 1000, 4.0)])
    >>> round(costs.s_per_gb.value, 6), round(costs.s_per_tensor.value, 6)
    (3.0, 0.001)
    """
    if len(points) < 3:
        raise PlacerError(
            f"{len(points)} points are too few for two costs",
            "measure at least three sizes or tensor counts",
        )
    data = np.array(points, dtype=float)
    if not (np.isfinite(data).all() and (data > 0).all()):
        raise PlacerError("a measured point is not above 0", "measure larger gradients, or longer")
    seconds = data[:, 2]
    rows = np.stack([data[:, 0] / GB / seconds, data[:, 1] / seconds], axis=1)
    scale = np.linalg.norm(rows, axis=0)
    if np.linalg.matrix_rank(rows / scale, tol=1e-6) < 2:
        raise PlacerError(
            "the points cannot separate the cost of a GB from the cost of a tensor",
            "vary sizes and tensor counts",
        )
    values = _nonnegative(rows)
    residuals = rows @ values - 1.0
    freedom = len(points) - 2
    sigma = math.sqrt(float(residuals @ residuals) / freedom) * student(freedom)
    scaled = rows / scale
    errors = sigma * np.sqrt(np.diag(np.linalg.inv(scaled.T @ scaled))) / scale
    return HostFit(
        s_per_gb=_interval(float(values[0]), float(errors[0])),
        s_per_tensor=_interval(float(values[1]), float(errors[1])),
        relative_residual=float(np.mean(np.abs(residuals))),
        points=len(points),
    )


def student(freedom: int) -> float:
    """Return the 95 % quantile of Student's distribution, by the expansion around the normal one.

    Examples
    --------
    >>> # tables: 2.13, 1.81, 1.70; below 4 it is too narrow
    >>> [round(student(n), 2) for n in (4, 10, 30)]
    [2.13, 1.81, 1.7]
    """
    z, n = NINETY_PERCENT, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / n + second / n**2 + third / n**3


def _nonnegative(rows: NDArray[Any]) -> NDArray[Any]:
    """Solve ``rows @ x = 1`` for x of 0 or more: if one cost would be negative it is 0, and the
    other is fitted alone.
    """
    ones = np.ones(len(rows))
    scale = np.linalg.norm(rows, axis=0)
    values: NDArray[Any] = np.linalg.lstsq(rows / scale, ones, rcond=None)[0] / scale
    for i in (0, 1):
        if values[i] < 0:
            alone = np.zeros(2)
            column = rows[:, 1 - i]
            alone[1 - i] = float(column @ ones / (column @ column))
            return alone
    return values


def _interval(value: float, error: float) -> Interval:
    half = max(error, LEAST_RELATIVE * value)
    return Interval(value=value, low=max(0.0, value - half), high=value + half)
