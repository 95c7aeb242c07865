"""How workers keep their models alike, executed: one file a strategy, of the same name as in `placer.exchange`."""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

from placer.runtime.context import Context
from placer.runtime.plan import Plan

MODULES = {
    "none": "placer.runtime.strategies.allreduce",
    "all-reduce": "placer.runtime.strategies.allreduce",
    "hierarchical-all-reduce": "placer.runtime.strategies.hierarchical_allreduce",
    "central": "placer.runtime.strategies.central",
    "hierarchical": "placer.runtime.strategies.hierarchical",
    "parameter-server": "placer.runtime.strategies.parameter_server",
    "local-sgd": "placer.runtime.strategies.local_sgd",
    "model-averaging": "placer.runtime.strategies.model_averaging",
    "asgd-ga": "placer.runtime.strategies.asgd_ga",
}
"""Name in the manifest and module that executes it."""


class Executed(Protocol):
    """A strategy in one process.

    Notes
    -----
    ``WIRED``: ranks are connected by gloo. ``REPLICATED``: model and optimizer are the same on all workers after each step, so a
    checkpoint of one serves all. ``ELASTIC``: the others can go on without a worker.
    """

    WIRED: bool
    REPLICATED: bool
    ELASTIC: bool

    @staticmethod
    def open(context: Context) -> Any:
        """Make what lasts from step to step."""

    def step(self, context: Context, state: Any, step: int) -> float:
        """Take one optimizer step of a worker, with the exchange that is due; return its part of the loss."""

    def serve(self, context: Context, state: Any, step: int) -> None:
        """Do the hub's part of one step."""

    def close(self, context: Context, state: Any) -> None:
        """End the run."""


def executed(plan: Plan) -> Executed:
    """Find what executes the strategy of a plan."""
    return cast(Executed, importlib.import_module(MODULES[plan.exchange.strategy]))
