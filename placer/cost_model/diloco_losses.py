"""How many more samples DiLoCo needs for the loss of data-parallel training: from the published
losses of both at equal tokens, catalogs/diloco.csv.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import fmean

from msgspec import Struct

from placer.market.books.folders import shipped_folder

PARAMETERS = (35e6, 10e9)
"""Sizes of the models whose losses are published."""
REPLICAS = (2, 4, 8)
"""Workers with published losses: the low end, the value and the high end are taken there."""
KNOWN_STEPS = 30
"""Local steps of Charles et al. (2025); fewer are taken to be as good, no better."""
TOKEN_EXPONENT = 0.0953 / 2
"""Share by which the loss falls when tokens grow by a share, at 20 tokens a parameter.

Charles et al. (2025), Table 7: loss falls with N^-0.0953 where tokens are 20 N. Where that split of
the calculation is optimal, parameters and tokens lower the loss alike, so half of it is the
tokens'.
"""
TOKEN_EXPONENTS = (0.034, 0.09)
"""Low end: half the slope between 4 B and 10 B parameters of the same paper (Table 5). High end:
Hoffmann et al. (2022) at 35 M. In between lie Hoffmann et al. at 10 B (0.037), Douillard et al.
(2025, Table 1) at 1 B and 25 to 100 B tokens (0.042).
"""
LOSS_SPREAD = 0.002
"""Relative difference of two losses that means nothing: Charles et al., Table 12, find as much
between two choices of the hyperparameters.
"""
DELAY_LOSS = (0.001, 0.0, 0.002)
"""Loss from applying a fragment late: Douillard et al. (2025), fig. 8, find under 0.2 % up to ten
steps; value, low, high.
"""
ROUNDED = 1.05
"""Sizes are published as round figures: models as much larger or smaller count as trained."""
OUTSIDE_SPREAD = 1.5
"""Factor on the high end for models that the papers did not train: assumed."""


class Loss(Struct, frozen=True, kw_only=True):
    """A published loss of DiLoCo beside that of data-parallel training at the same tokens."""

    parameters: float
    replicas: int
    local_steps: int
    excess: float


def was_trained(parameters: int) -> bool:
    """Return whether the papers trained decoders of such a size.

    >>> was_trained(10_211_381_248), was_trained(70_000_000_000)
    (True, False)
    """
    return PARAMETERS[0] / ROUNDED <= parameters <= PARAMETERS[1] * ROUNDED


def times_samples(
    parameters: int, local_steps: int, *, delayed: bool, known: bool
) -> tuple[float, float, float]:
    """Return the samples to target of DiLoCo over those of data-parallel training: value, low,
    high; none is below 1, and none falls with the local steps. At equal tokens the loss is higher
    by a share x(N, M, H) = x(N, M, 30) + b(M) ln(H / 30); m times the tokens lower it by m^-e, so m
    = exp(x / e), e from `TOKEN_EXPONENT`. The number of workers M is in the interval: a search
    compares strategies before it knows M. Outside `PARAMETERS` N is the nearest size that was
    trained; the high end is farther off where no such model is ``known``.

    10 B parameters at 30 steps: 2.096 with four replicas over 2.090 is 0.29 % more, exp(0.0029 /
    0.0477).

    >>> value, low, high = times_samples(10**10, 30, delayed=False, known=True)
    >>> round(value, 2), low
    (1.06, 1.0)
    """
    least, middle, most = (_excess(parameters, m, local_steps) for m in REPLICAS)
    late = DELAY_LOSS if delayed else (0.0, 0.0, 0.0)
    value = _times(middle + late[0], TOKEN_EXPONENT)
    low = _times(least + late[1] - LOSS_SPREAD, TOKEN_EXPONENTS[1])
    high = _times(max(middle, most) + late[2] + LOSS_SPREAD, TOKEN_EXPONENTS[0])
    return value, min(low, value), high * (1.0 if known else OUTSIDE_SPREAD)


def times_samples_of(parameters: int, replicas: int, local_steps: int) -> float:
    """Return the value for a known number of workers, between those that were trained.

    >>> two, eight = (times_samples_of(10**10, m, 100) for m in (2, 8))
    >>> round(two, 2), round(eight, 2)
    (1.11, 1.73)
    """
    at = math.log(min(max(replicas, REPLICAS[0]), REPLICAS[-1]))
    points = [(math.log(m), _excess(parameters, m, local_steps)) for m in REPLICAS]
    return _times(_between(at, points), TOKEN_EXPONENT)


def _times(excess: float, exponent: float) -> float:
    return math.exp(max(0.0, excess) / exponent)


def _excess(parameters: float, replicas: int, local_steps: int) -> float:
    points = [
        (math.log(row.parameters), row.excess)
        for row in published()["diloco"]
        if row.replicas == replicas
    ]
    within = _between(math.log(parameters), sorted(points))
    return within + _slope(replicas) * math.log(max(local_steps, KNOWN_STEPS) / KNOWN_STEPS)


@lru_cache(maxsize=8)
def _slope(replicas: int) -> float:
    """Return how the share grows with the logarithm of the local steps: the mean over models from
    30 to 100 steps; where no such runs are published, on the line through those that are.
    """
    pairs: dict[int, dict[tuple[float, int], float]] = defaultdict(dict)
    for row in published()["streaming-diloco"]:
        pairs[row.replicas][row.parameters, row.local_steps] = row.excess
    slopes = {}
    for count, losses in pairs.items():
        grown = [
            losses[size, steps] - losses[size, KNOWN_STEPS]
            for size, steps in losses
            if steps != KNOWN_STEPS and (size, KNOWN_STEPS) in losses
        ]
        slopes[math.log(count)] = fmean(grown) / math.log(100 / KNOWN_STEPS)
    (a, low), (b, high) = sorted(slopes.items())
    return low + (math.log(replicas) - a) / (b - a) * (high - low)


def _between(at: float, points: Sequence[tuple[float, float]]) -> float:
    """Interpolate linearly; outside the points the nearest counts."""
    if at <= points[0][0]:
        return points[0][1]
    for (a, low), (b, high) in pairwise(points):
        if at <= b:
            return low + (at - a) / (b - a) * (high - low)
    return points[-1][1]


@lru_cache(maxsize=1)
def published() -> dict[str, tuple[Loss, ...]]:
    """Return the published losses by strategy."""
    rows: dict[str, list[Loss]] = defaultdict(list)
    with (shipped_folder("catalogs") / "diloco.csv").open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            rows[row["strategy"]].append(
                Loss(
                    parameters=float(row["parameters"]),
                    replicas=int(row["replicas"]),
                    local_steps=int(row["local_steps"]),
                    excess=math.log(float(row["loss"]) / float(row["data_parallel_loss"])),
                )
            )
    return {strategy: tuple(losses) for strategy, losses in rows.items()}
