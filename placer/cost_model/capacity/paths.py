"""Paths of the latent state of zones over time: what is short now is likely to be short in an hour.

The state of each zone is the sum of a part that changes within an hour and one that lasts for days.
At any hour it is standard normal, and alike in zones of one region as `scenarios.latent` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from placer.cost_model.capacity.scenarios import RESIDUAL, Likeness, mixed

Array = npt.NDArray[Any]
MEMORIES = ((0.3, 1.0), (0.7, 48.0))
"""Shares of the variance with the hours after which a part keeps 1 / e of its state: what fitted
launches of 16 H100 spot machines in 13 zones of Google Cloud, October 2025 (SkyNomad artifact).
"""


def state_paths(
    regions: Sequence[str],
    zones: Sequence[str],
    *,
    steps: int,
    step_h: float,
    draws: int,
    seed: int,
    likeness: Likeness = RESIDUAL,
) -> Array:
    """Draw the latent states of zones over time; shape (steps, draws, zones).

    Parameters
    ----------
    regions, zones
        Region and name of each zone. A name has the same path whatever else is drawn.
    steps, step_h
        Moments, and the hours between two of them.
    draws
        Scenarios, an even number: each has its mirror image.
    """
    return mixed(regions, zones, likeness, lambda name: _path(name, steps, draws, step_h, seed))


def _path(name: str, steps: int, draws: int, step_h: float, seed: int) -> Array:
    """Draw what belongs to a name over time; shape (steps, draws)."""
    generator = np.random.default_rng([seed, crc32(name.encode()), 1])
    built = np.zeros((steps, draws))
    for share, memory_h in MEMORIES:
        kept = math.exp(-step_h / memory_h)
        half = generator.standard_normal((steps, draws // 2))
        half[1:] *= math.sqrt(1 - kept * kept)
        for at in range(1, steps):
            half[at] += kept * half[at - 1]
        built += math.sqrt(share) * np.concatenate([half, -half], axis=1)
    return built
