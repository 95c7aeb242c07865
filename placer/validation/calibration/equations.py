"""The equations of a fit: how far expected steps are from measured ones, and what each parameter
does to that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from placer.validation.calibration.parameters import (
    CONSTANT,
    KAPPA,
    LINK,
    RATE,
    SCALE,
    Parameter,
    Values,
    overlay_of,
)
from placer.validation.calibration.runs import MeasuredRun

COMMUNICATION_WEIGHT = 0.2
"""Exchange times scatter about five times as much as samples/s: 8 % against 1.5 % in the logs of
Erben et al. (2024).
"""
NUDGE = 1e-4
"""Share of a figure by which it is changed to see what it does."""
MOST_KEPT = 200_000
"""Residuals that are kept for reuse."""
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Equations:
    """Residuals of some runs: relative errors of samples/s, of the calculation and, weighted, of
    the exchange.

    runs: Measured runs; each gives one row, and one more for each part of its step that was logged.
    known: Equations of more runs, whose work is reused.
    """

    def __init__(self, runs: Sequence[MeasuredRun], known: Equations | None = None) -> None:
        self.runs = tuple(runs)
        self._found: dict[tuple[int, tuple[tuple[Parameter, float], ...]], Array] = (
            known._found if known else {}
        )
        self._touching: dict[tuple[Parameter, int], bool] = known._touching if known else {}
        parts = ((run.calculation_s, run.communication_s) for run in self.runs)
        ends = np.cumsum([0, *(1 + sum(part is not None for part in each) for each in parts)])
        self._of_run = [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
        self.size = int(ends[-1])

    def without(self, left: Collection[MeasuredRun]) -> Equations:
        """Build the equations of all other runs."""
        gone = {id(run) for run in left}
        return Equations([run for run in self.runs if id(run) not in gone], self)

    def residuals(self, values: Values) -> Array:
        """Compute the relative errors, run after run."""
        return np.concatenate([self._residuals(run, values) for run in self.runs])

    def jacobian(self, values: Values, parameters: Sequence[Parameter]) -> Array:
        """Change of the residuals by a change of each parameter, in steps of `Parameter.step`."""
        result = np.zeros((self.size, len(parameters)))
        for column, parameter in enumerate(parameters):
            at = values.get(parameter, parameter.published)
            changed = {**values, parameter: at + NUDGE * parameter.step}
            for run, rows in zip(self.runs, self._of_run, strict=True):
                if self._touches(parameter, run):
                    moved = self._residuals(run, changed) - self._residuals(run, values)
                    result[rows, column] = moved / NUDGE
        return result

    def rows(self, chosen: Sequence[bool]) -> Mask:
        """Return the mask of the residuals of some runs."""
        mask = np.zeros(self.size, dtype=bool)
        for rows, wanted in zip(self._of_run, chosen, strict=True):
            mask[rows] = wanted
        return mask

    def by_run(self, figures: Array) -> list[float]:
        """Return the smallest figure of each run, its exchange apart."""
        pairs = zip(self.runs, self._of_run, strict=True)
        return [
            float(np.min(figures[rows.start : rows.stop - (run.communication_s is not None)]))
            for run, rows in pairs
        ]

    def _residuals(self, run: MeasuredRun, values: Values) -> Array:
        """Compute the residuals of a run, once for each value that it depends on."""
        near = tuple((p, v) for p, v in values.items() if self._touches(p, run))
        key = (id(run), near)
        if key not in self._found:
            if len(self._found) >= MOST_KEPT:
                self._found.clear()
            self._found[key] = _residuals_of(run, dict(near))
        return self._found[key]

    def _touches(self, parameter: Parameter, run: MeasuredRun) -> bool:
        key = (parameter, id(run))
        if key not in self._touching:
            self._touching[key] = touches(parameter, run)
        return self._touching[key]


def touches(parameter: Parameter, run: MeasuredRun) -> bool:
    """Tell whether a parameter can change the expected step of a run."""
    if parameter.kind == RATE:
        return parameter.key[0] == run.model and any(
            (g.gpu, str(g.gpu_count)) == parameter.key[1:3] for g in run.placement.groups
        )
    if parameter.kind == LINK:
        return parameter.key in run.pairs
    if parameter.kind == KAPPA:
        return not run.one_region
    return parameter.kind in (SCALE, CONSTANT) and not run.alone and parameter.key[0] in run.hosts()


def _residuals_of(run: MeasuredRun, values: Values) -> Array:
    step = run.step(overlay_of(values, (run,)))
    residuals = [run.step_s / step.total - 1]
    if run.calculation_s is not None:
        residuals.append(run.calculation_s / step.calculation - 1)
    if run.communication_s is not None:
        error = (run.communication_s - step.communication) / run.communication_s
        residuals.append(COMMUNICATION_WEIGHT * error)
    return np.array(residuals)
