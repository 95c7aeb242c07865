"""Which figures some runs can tell, and the robust least squares behind a calibration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placer.errors import installed
from placer.validation.calibration.parameters import (
    CONSTANTS,
    SCALE,
    Array,
    Equations,
    Mask,
    Parameter,
    Values,
    constant,
    kappa,
    links_of,
    rates_of,
    scale,
)
from placer.validation.calibration.runs import MeasuredRun
from placer.workload.constants import peer_of

INFORMATION = 0.02
"""A figure is fitted if its doubling moves the residuals by this much in a way that no other figure
does.

Samples/s repeat within about 1 %: with less the fitted figure would be uncertain by more than half
of itself.
"""
Pair = tuple[str, str]


def choose(equations: Equations, asked: Collection[Pair] = ()) -> dict[Parameter, float]:
    """Pick the parameters that the runs identify, with their published values. In this order, each
    only if it changes the expected steps in a way that those before it cannot: speeds whose
    calculation time was logged, links, kappa, one factor on the averaging time of each class of
    hosts or ring (from runs in one region), speeds that are only estimates, single constants of the
    host classes, the other speeds. One run therefore fits the link or kappa if it spans regions,
    and else the averaging time as a whole.

    asked: Links that are to be fitted although they are measured or published.
    """
    choice = _Choice(equations)
    direct, estimated, other = _rates(equations.runs)
    one_region = equations.rows([run.one_region and not run.alone for run in equations.runs])
    between = equations.rows([not run.one_region for run in equations.runs])
    for parameter in direct:
        choice.take(parameter)
    software = equations.runs[0].problem.transport
    for parameter in (*_links(equations.runs, asked), kappa(software)):
        choice.take(parameter, between)
    hosts = sorted({host for run in equations.runs for host in run.hosts()})
    for host in hosts:
        if _is_logged(host, equations.runs):
            choice.chosen[scale(host)] = scale(host).published
        else:
            choice.take(scale(host), one_region)
    for parameter in estimated:
        choice.take(parameter)
    for host in hosts:
        if scale(host) in choice.chosen and peer_of(host) is None:
            choice.split(host, one_region)
    for parameter in other:
        choice.take(parameter)
    return choice.chosen


def candidates(equations: Equations, asked: Collection[Pair] = ()) -> Iterator[Parameter]:
    """Yield every figure that plays a part in the runs, fitted or not."""
    yield from dict.fromkeys(p for run in equations.runs for p in rates_of(run))
    yield from _links(equations.runs, asked)
    if any(not run.one_region for run in equations.runs):
        yield kappa(equations.runs[0].problem.transport)
    for host in sorted({host for run in equations.runs if not run.alone for host in run.hosts()}):
        ring = peer_of(host) is not None
        yield from [scale(host)] if ring else (constant(host, name) for name in CONSTANTS)


def _is_logged(host: str, runs: Sequence[MeasuredRun]) -> bool:
    """Tell whether a run says the time of a ring itself, which may be a hundredth of a step by its
    bandwidth and most of it in truth.
    """
    return peer_of(host) is not None and any(
        run.communication_s is not None and run.one_region and run.hosts() == {host} for run in runs
    )


def _rates(runs: Sequence[MeasuredRun]) -> tuple[list[Parameter], list[Parameter], list[Parameter]]:
    """Split the speeds: read off directly, only estimated, and the others."""
    logged = dict.fromkeys(
        p for run in runs if run.calculation_s is not None or run.alone for p in rates_of(run)
    )
    left = [p for p in dict.fromkeys(p for run in runs for p in rates_of(run)) if p not in logged]
    return (
        sorted(logged, key=lambda p: p.known),
        [p for p in left if not p.known],
        [p for p in left if p.known],
    )


def _links(runs: Sequence[MeasuredRun], asked: Collection[Pair]) -> list[Parameter]:
    """List the links that were asked for, then those that are only estimates."""
    links = dict.fromkeys(p for run in runs for p in links_of(run))
    named = {(min(pair), max(pair)) for pair in asked}
    return [p for p in links if p.key in named] + [
        p for p in links if p.key not in named and not p.known
    ]


class _Choice:
    """Parameters that were chosen so far, and what each does to the residuals."""

    def __init__(self, equations: Equations) -> None:
        self.chosen: dict[Parameter, float] = {}
        self._equations = equations
        self._columns: dict[tuple[Parameter, tuple[Parameter, ...]], Array] = {}

    def take(self, parameter: Parameter, mask: Mask | None = None) -> None:
        """Add a parameter if the runs tell it from those that are chosen."""
        if self._information(parameter, list(self.chosen), (), mask) >= INFORMATION:
            self.chosen[parameter] = parameter.published

    def split(self, host: str, mask: Mask) -> None:
        """Take those constants out of the common factor that the runs tell from the rest."""
        factor = scale(host)
        free: list[Parameter] = []
        for name in CONSTANTS:
            one = constant(host, name)
            trial, others = (*free, one), [p for p in self.chosen if p != factor]

            def told(p: Parameter, beside: list[Parameter], trial: Any = trial) -> bool:
                return self._information(p, beside, trial, mask) >= INFORMATION

            scaled = factor in self.chosen and told(factor, [])
            separated = told(one, [*others, factor] if scaled else others)
            if separated and (not scaled or told(factor, [*others, one])):
                free.append(one)
                self.chosen[one] = one.published
                if not scaled:
                    self.chosen.pop(factor, None)
        each = (constant(host, name) for name in CONSTANTS)
        left = [p for p in each if p not in free and p.published]
        if factor in self.chosen and len(left) == 1:
            self.chosen.pop(factor)
            self.chosen[left[0]] = left[0].published

    def _information(
        self,
        parameter: Parameter,
        others: Sequence[Parameter],
        free: tuple[Parameter, ...],
        mask: Mask | None,
    ) -> float:
        """Measure what a parameter does to the residuals that no other can do."""
        own = self._column(parameter, free)
        rows = slice(None) if mask is None else mask
        own = own[rows]
        if others and own.size:
            rest = np.column_stack([self._column(p, free) for p in others])[rows]
            own = own - rest @ np.linalg.lstsq(rest, own, rcond=1e-6)[0]
        return float(np.linalg.norm(own))

    def _column(self, parameter: Parameter, free: tuple[Parameter, ...]) -> Array:
        """Change of the residuals; of a factor by the constants that are free of it."""
        key = (parameter, free if parameter.kind == SCALE else ())
        if key not in self._columns:
            at = {p: p.published for p in (*key[1], parameter)}
            self._columns[key] = self._equations.jacobian(at, [parameter])[:, 0]
        return self._columns[key]


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
    scale from the residuals of the first.
    """
    optimize = installed("scipy.optimize", "placer profile runs needs SciPy", "calibrate")
    chosen = choose(equations, asked)
    start = {p: (near or {}).get(p, value) for p, value in chosen.items()}
    parameters = list(start)
    if not parameters:
        ones = (1.0,) * len(equations.runs)
        return Solution(values={}, errors={}, weights=ones, freedom=equations.size)
    steps = np.array([p.step for p in parameters])
    limits = np.array([p.limits for p in parameters]).T / steps

    def values(x: Array) -> dict[Parameter, float]:
        return dict(zip(parameters, (float(v) for v in x * steps), strict=True))

    x, softness = np.array([start[p] for p in parameters]) / steps, SOFTEST
    for _ in range(2):
        fit = optimize.least_squares(
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
