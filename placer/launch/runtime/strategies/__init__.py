"""The exchanges that no engine of PyTorch does."""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.training.context import Context

ROOM = "placer.launch.runtime.strategies"
MODULES = {
    "all-reduce": f"{ROOM}.all_reduce",
    "hierarchical-all-reduce": f"{ROOM}.all_reduce",
    "central": f"{ROOM}.central",
    "hierarchical": f"{ROOM}.central",
    "parameter-server": f"{ROOM}.parameter_server",
    "model-averaging": f"{ROOM}.model_averaging",
    "asgd-ga": f"{ROOM}.asgd_ga",
}
"""Name in the manifest and module that executes it."""


class Executed(Protocol):
    """A strategy in one process.

    Notes
    -----
    ``WIRED``: first processes of worlds, and hubs, are connected by gloo. A worker's step is
    ``step(context, state, step)``, which returns its part of the loss and which the first process
    of a world takes; the others take ``follow(context, state, step)``. Where a step is a gradient,
    its sum and an update, ``exchange(context, state)`` returns the function that sums, and all
    processes take `Context.gradient_step`.
    """

    WIRED: bool

    @staticmethod
    def open(context: Context) -> Any:
        """Make what lasts from step to step."""

    def serve(self, context: Context, state: Any, step: int) -> None:
        """Do the hub's part of one step."""

    def close(self, context: Context, state: Any) -> None:
        """End the run."""


def executed(plan: RunPlan) -> Executed:
    """Find what executes the strategy of a plan."""
    return cast(Executed, importlib.import_module(MODULES[plan.exchange.strategy]))


def take_step(strategy: Any, context: Context, state: Any, step: int) -> float:
    """Take one optimizer step of a worker; return its part of the loss."""
    if hasattr(strategy, "exchange"):
        return context.gradient_step(strategy.exchange(context, state), step)
    if context.seat.leads:
        return float(strategy.step(context, state, step))
    return float(strategy.follow(context, state, step))
