"""The outer optimizer of DiLoCo: Nesterov momentum over the mean change of the workers' models."""

from __future__ import annotations

from typing import Any

MOMENTUM = 0.9
"""Douillard et al. (DiLoCo, 2023; Streaming DiLoCo, 2025) and Charles et al. (2025)."""
RATE = 0.7
"""Outer learning rate of Douillard et al. (2023); 0.6 to 0.8 is best in Charles et al. (2025)."""
STREAMING_RATE = 0.4
"""Outer learning rate of Douillard et al. (2025)."""
SPARSE_DECAY = 0.95
"""Share of the error that sparse messages feed back: it takes the place of the outer momentum
(SparseLoCo, arXiv 2508.15706; the figure is that of Covenant-72B, arXiv 2603.08163).
"""


class OuterOptimizer:
    """Parameters that all workers agree on, and how a mean change moves them.

    Parameters
    ----------
    common
        The parameters that all begin with; a vector.
    rate, momentum
        theta <- theta + rate (d + momentum v), v <- momentum v + d, d the mean change.
    """

    def __init__(self, common: Any, rate: float, momentum: float = MOMENTUM) -> None:
        self.common, self.rate, self.momentum = common, rate, momentum
        self.velocity = common * 0

    @staticmethod
    def of(common: Any, compression: str, rate: float) -> OuterOptimizer:
        """Return the optimizer for a compression: with sparse messages plain averaging, as error
        feedback is momentum enough.
        """
        if compression == "sparse":
            return OuterOptimizer(common, 1.0, 0.0)
        return OuterOptimizer(common, rate)

    def step(self, change: Any, part: slice = slice(None)) -> None:
        """Move the common parameters, or a part of them, by a mean change, in place."""
        velocity = self.velocity[part]
        velocity.mul_(self.momentum).add_(change)
        self.common[part].add_(change.add(velocity, alpha=self.momentum), alpha=self.rate)

    def vectors(self) -> tuple[Any, ...]:
        """Return what all workers agree on."""
        return self.common, self.velocity

    def take(self, vectors: tuple[Any, ...] | None) -> None:
        """Take over what the others agree on; None: this worker has it."""
        if vectors is not None:
            self.common, self.velocity = vectors

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: tensors."""
        return {"common": self.common, "velocity": self.velocity}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what a checkpoint kept."""
        self.common, self.velocity = state["common"], state["velocity"]
