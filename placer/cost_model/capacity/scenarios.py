"""Zones together: scenarios in which they are short of machines at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from placer.errors import PlacerError

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """Correlation of the latent state of two zones: of one region, and of two regions.

    Notes
    -----
    It is what is left beside each zone's own forecast, which already knows that a zone is short.
    """

    region: float
    across: float
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


def latent(regions: Sequence[str], draws: int, seed: int, likeness: Likeness = RESIDUAL) -> Array:
    """Draw the latent state of zones, standard normal each; shape (draws, zones).

    Parameters
    ----------
    regions
        Region of each zone.
    draws
        Scenarios, an even number: each has its mirror image, which halves the noise of means.
    seed
        The same seed gives the same scenarios.
    likeness
        How alike zones are.
    """
    names = sorted(set(regions))
    at = np.array([names.index(region) for region in regions], dtype=np.intp)
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((draws // 2, 1 + len(names) + len(at)))
    normal = np.concatenate([half, -half])
    built: Array = (
        np.sqrt(likeness.across) * normal[:, :1]
        + np.sqrt(likeness.region - likeness.across) * normal[:, 1 + at]
        + np.sqrt(1 - likeness.region) * normal[:, 1 + len(names) :]
    )
    return built


def launchable(chances: Array, states: Array) -> Array:
    """Turn latent states into machines that can be launched; shape (draws, zones).

    Parameters
    ----------
    chances
        Of 0, 1, ... machines; shape (zones, machines + 1).
    states
        As from `latent`; a low state is a short zone.
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
