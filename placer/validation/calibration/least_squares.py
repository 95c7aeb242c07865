"""The robust least squares behind a calibration."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from placer.errors import PlacerError
from placer.validation.calibration.equations import Array, Equations
from placer.validation.calibration.parameter_choice import Pair, choose
from placer.validation.calibration.parameters import Parameter, Values

SOFTEST, HARDEST = 0.03, 0.005
"""Residuals above this share count linearly: at most 3 %, and 0.5 % for runs that repeat very well.
"""
MAD_TO_SIGMA = 1.4826
LEAST_SIGMA = 0.01
"""Samples/s of one run repeat within about 1 %: no fitted figure is more certain than that allows.
"""
NEAR_LIMIT = 1e-3


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Fitted values, their relative standard errors in steps, and how much each run counts (1: in
    full). ``freedom`` is the number of residuals less that of parameters.
    """

    values: dict[Parameter, float]
    errors: dict[Parameter, float]
    weights: tuple[float, ...]
    residuals: Array
    freedom: int

    def at_limit(self, parameter: Parameter) -> bool:
        """Tell whether a value lies at the end of its range."""
        low, high = parameter.limits
        value, slack = self.values[parameter], NEAR_LIMIT * parameter.step
        return value <= low + slack or value >= high - slack


def solve(
    equations: Equations, asked: Collection[Pair] = (), near: Values | None = None
) -> Solution:
    """Fit what the runs tell. soft_l1 loss on relative errors; fitted twice, the second time with a
    scale from the residuals of the first. Raises `PlacerError` if SciPy is not installed.

    asked: Links to be fitted although they are known.
    near: Where to start; None starts from the published figures.
    """
    least_squares = _least_squares()
    chosen = choose(equations, asked)
    start = {p: (near or {}).get(p, value) for p, value in chosen.items()}
    parameters = list(start)
    if not parameters:
        found = equations.residuals({})
        ones = (1.0,) * len(equations.runs)
        return Solution(values={}, errors={}, weights=ones, residuals=found, freedom=equations.size)
    steps = np.array([p.step for p in parameters])
    limits = np.array([p.limits for p in parameters]).T / steps

    def values(x: Array) -> dict[Parameter, float]:
        return dict(zip(parameters, (float(v) for v in x * steps), strict=True))

    x, softness = np.array([start[p] for p in parameters]) / steps, SOFTEST
    for _ in range(2):
        fit = least_squares(
            lambda x: equations.residuals(values(x)),
            np.clip(x, *limits),
            lambda x: equations.jacobian(values(x), parameters),
            bounds=limits,
            loss="soft_l1",
            f_scale=softness,
            ftol=1e-7,
            xtol=1e-7,
        )
        x = fit.x
        softness = float(np.clip(2 * MAD_TO_SIGMA * np.median(np.abs(fit.fun)), HARDEST, softness))
    weights = 1 / np.sqrt(1 + (fit.fun / softness) ** 2)
    freedom = equations.size - len(parameters)
    jacobian = equations.jacobian(values(x), parameters)
    errors = _standard_errors(jacobian, fit.fun, weights, freedom)
    return Solution(
        values={
            p: 0.0 if 0 < value < NEAR_LIMIT * p.step else value for p, value in values(x).items()
        },
        errors=dict(zip(parameters, errors, strict=True)),
        weights=tuple(equations.by_run(weights)),
        residuals=fit.fun,
        freedom=freedom,
    )


def _standard_errors(
    jacobian: Array, residuals: Array, weights: Array, freedom: int
) -> list[float]:
    """Estimate the standard error of each parameter in its steps, from the curvature."""
    sigma = np.sqrt(np.sum(weights * residuals**2) / freedom) if freedom > 0 else LEAST_SIGMA
    weighted = jacobian * np.sqrt(weights)[:, None]
    covariance = np.linalg.pinv(weighted.T @ weighted, rcond=1e-12)
    return [float(v) for v in max(float(sigma), LEAST_SIGMA) * np.sqrt(np.diag(covariance))]


def _least_squares() -> Callable[..., Any]:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise PlacerError("placer profile runs needs SciPy", "pip install scipy") from None
    solver: Callable[..., Any] = least_squares
    return solver
