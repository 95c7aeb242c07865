"""What knowing one figure exactly would be worth: how much the expected regret falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from placer.advice.robustness.candidates import Candidate
from placer.advice.robustness.uncertainty import Factor
from placer.cost_model.objective import Objective

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

BROKEN_LOSS = 1.0
"""Loss of a placement that breaks a limit in a world: as bad as giving up everything."""
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Where in its range a measured figure may come out, equally likely: middles of five strips."""
INNER = 48
"""Worlds of the other figures: the same for every figure and level, so differences are no noise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Worth:
    """One figure: expected relative regret before and after it is measured."""

    factor: Factor
    before: float
    after: float

    @property
    def gain(self) -> float:
        """Expected relative regret that measuring saves; never below 0."""
        return max(0.0, self.before - self.after)


def values_of(candidates: Sequence[Candidate], worlds: Sequence[Sequence[float]]) -> Matrix:
    """Return the value of each candidate in each world: worlds x candidates, NaN if broken."""
    import numpy as np

    rows = [[candidate.value(world) for candidate in candidates] for world in worlds]
    return np.array(rows, dtype=float).reshape(len(worlds), len(candidates))


def losses_of(values: Matrix, objective: Objective, solved: Sequence[float] = ()) -> Matrix:
    """Return relative regrets: worlds x candidates, `BROKEN_LOSS` where a limit is broken, 0 in a
    world where nothing fits. ``solved`` are the best values of worlds, NaN where not known; without
    any, the best candidate stands for them, and the regret is a lower bound.
    """
    import numpy as np

    gains = np.where(np.isnan(values), -np.inf, objective.sign * values)
    best = gains.max(axis=1, keepdims=True)
    if len(solved):
        column = np.array(solved, dtype=float)[:, None]
        best = np.maximum(best, np.where(np.isnan(column), -np.inf, objective.sign * column))
    nothing = np.isneginf(best)
    scale = np.where(nothing | (best == 0), 1.0, np.abs(best))
    shares = (np.where(nothing, 0.0, best) - np.where(np.isneginf(gains), 0.0, gains)) / scale
    losses: Matrix = np.where(
        nothing, 0.0, np.where(np.isneginf(gains), BROKEN_LOSS, np.maximum(0.0, shares))
    )
    return losses


def worth_of(
    candidates: Sequence[Candidate],
    factors: Sequence[Factor],
    worlds: Sequence[Sequence[float]],
    objective: Objective,
) -> tuple[Worth, ...]:
    """Return what measuring each figure alone is worth, most first.

    The expected value of partial perfect information (Raiffa and Schlaifer, 1961; Felli and Hazen,
    1998, Medical Decision Making 18): with c the candidates, x the figure and y all others, min_c
    E[loss(c)] - E_x[min_c E[loss(c) | x]]. Both expectations are worked out by conditional
    resampling, two nested levels with common random numbers (Strong, Oakley and Brennan, 2014,
    Medical Decision Making 34, describe and compare such estimators): x at `LEVELS`, y as in the
    first `INNER` worlds. The first term is the mean over the same worlds, so the difference is
    exact for this sample and never below 0. The choice is one of the candidates. Other prices that
    move with a figure stay as they were drawn: what it says of them is not counted.
    """
    import numpy as np

    inner = [list(world) for world in worlds[:INNER]]
    base = values_of(candidates, inner)
    worths = []
    for i, factor in enumerate(factors):
        touched = [c for c, candidate in enumerate(candidates) if i in candidate.uses]
        levels = []
        for share in LEVELS:
            values = base.copy()
            for w, world in enumerate(inner):
                there = [*world[:i], share, *world[i + 1 :]]
                values[w, touched] = [candidates[c].value(there) for c in touched]
            levels.append(losses_of(values, objective).mean(axis=0))
        means = np.array(levels)
        worths.append(
            Worth(
                factor=factor,
                before=float(means.mean(axis=0).min()),
                after=float(means.min(axis=1).mean()),
            )
        )
    return tuple(sorted(worths, key=lambda worth: (-worth.gain, worth.factor.words)))
