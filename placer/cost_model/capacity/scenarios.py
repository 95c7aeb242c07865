"""Zones together: scenarios in which they are short of machines at once, also over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from placer.errors import PlacerError
from placer.records import Share

Array = npt.NDArray[Any]


class Likeness(Struct, frozen=True, kw_only=True):
    """Correlation of the latent state of two zones: of one region, and of two regions. It is what
    is left beside each zone's own forecast, which already knows that a zone is short.
    """

    region: Share
    across: Share
    source: str

    def __post_init__(self) -> None:
        if not 0 <= self.across <= self.region <= 1:
            raise PlacerError(
                f"correlations of {self.region} in a region and {self.across} across regions are "
                f"not possible",
                "give 0 <= across <= region <= 1",
            )


RESIDUAL = Likeness(
    region=0.30,
    across=0.04,
    source="fitted to launches of 16 H100 spot machines in 13 zones of Google Cloud, October 2025 "
    "(SkyNomad artifact)",
)


DAY = 0.3
"""Standard deviation of what all zones have in common on a day that is unlike those of the log, in
units of a latent state: fitted on seven days of the same launches, each left out in turn.
"""


def latent(
    regions: Sequence[str],
    draws: int,
    seed: int,
    likeness: Likeness = RESIDUAL,
    zones: Sequence[str] | None = None,
) -> Array:
    """Draw the latent state of zones, standard normal each; shape (draws, zones). A name has the
    same states whatever else is drawn, so that a zone more changes nothing about the others, and a
    placement meets the scenarios of the market that it was chosen from. Each of an even number of
    draws has its mirror image, which halves the noise of means. No ``zones`` are alike in name;
    None: region and number.
    """
    names = [f"{region}/{at}" for at, region in enumerate(regions)] if zones is None else zones
    return mixed(regions, names, likeness, lambda name: _normal(name, draws, seed))


def mixed(
    regions: Sequence[str], zones: Sequence[str], likeness: Likeness, draw: Callable[[str], Array]
) -> Array:
    """Add up what all zones, those of a region, and each alone have of a draw."""
    near = {region: draw(region) for region in dict.fromkeys(regions)}
    everywhere = np.sqrt(likeness.across) * draw("")
    own = [
        everywhere
        + np.sqrt(likeness.region - likeness.across) * near[region]
        + np.sqrt(1 - likeness.region) * draw(f"zone {name}")
        for region, name in zip(regions, zones, strict=True)
    ]
    return np.stack(own, -1)


def unlike_day(states: Array, seed: int) -> Array:
    """Add what all zones have in common on a day to come that is unlike those of the log."""
    built: Array = states + DAY * _normal("day", len(states), seed)[:, None]
    return built


def _normal(name: str, draws: int, seed: int) -> Array:
    half = np.random.default_rng([seed, crc32(name.encode())]).standard_normal(draws // 2)
    return np.concatenate([half, -half])


def launchable(chances: Array, states: Array) -> Array:
    """Turn latent states (low: a short zone) into machines that can be launched; shape (draws,
    zones). ``chances`` of 0, 1, ... machines have shape (zones, machines + 1).
    """
    below = np.cumsum(chances, axis=1)[:, :-1].clip(0.0, 1.0)
    normal = NormalDist()
    edges = np.array([[_edge(normal, share) for share in row] for row in below.tolist()]).reshape(
        below.shape
    )
    built: Array = (states[:, :, None] > edges[None]).sum(2)
    return built


def _edge(normal: NormalDist, share: float) -> float:
    if share <= 0.0:
        return -np.inf
    return np.inf if share >= 1.0 else normal.inv_cdf(share)


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
    """Draw the latent states of zones over time; shape (steps, draws, zones). A name has the same
    path whatever else is drawn, and each of an even number of draws its mirror image.
    """
    return mixed(regions, zones, likeness, lambda name: _path(name, steps, draws, step_h, seed))


def _path(name: str, steps: int, draws: int, step_h: float, seed: int) -> Array:
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
