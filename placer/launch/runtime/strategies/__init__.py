"""The exchange strategies, executed: one file per strategy, of the same name as in
`placer.problem.exchange`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.training.rounds import overlapped_step, sequential_step

MODULES = {
    "none": "placer.launch.runtime.strategies.allreduce",
    "all-reduce": "placer.launch.runtime.strategies.allreduce",
    "hierarchical-all-reduce": "placer.launch.runtime.strategies.hierarchical_allreduce",
    "central": "placer.launch.runtime.strategies.central",
    "hierarchical": "placer.launch.runtime.strategies.hierarchical",
    "parameter-server": "placer.launch.runtime.strategies.parameter_server",
    "local-sgd": "placer.launch.runtime.strategies.local_sgd",
    "model-averaging": "placer.launch.runtime.strategies.model_averaging",
    "asgd-ga": "placer.launch.runtime.strategies.asgd_ga",
    "diloco": "placer.launch.runtime.strategies.diloco",
    "streaming-diloco": "placer.launch.runtime.strategies.streaming_diloco",
}
"""Name in the manifest and module that executes it."""


class Executed(Protocol):
    """A strategy in one process.

    Notes
    -----
    ``WIRED``: ranks are connected by gloo. ``REPLICATED``: model and optimizer are the same on all
    workers after each step, so a checkpoint of one serves all. ``ELASTIC``: the others can go on
    without a worker. A worker's step is one function, ``step(context, state, step)``, which returns
    its part of the loss, or where the exchange may run beside the next step the three of
    `placer.launch.runtime.training.rounds.ThreePartStep`: see `step_function`. A strategy whose
    state must outlive the run has a function ``saved(context, state)``: see `saved_state`.
    """

    WIRED: bool
    REPLICATED: bool
    ELASTIC: bool

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


def saved_state(plan: RunPlan, context: Context, state: Any) -> dict[str, Any]:
    """Return what a strategy keeps in a checkpoint beside model and optimizer: tensors and plain
    values, which come back as ``context.kept``.
    """
    saved = getattr(executed(plan), "saved", None)
    kept: dict[str, Any] = {} if saved is None else saved(context, state)
    return kept


def step_function(plan: RunPlan) -> Callable[[Context, Any, int], float]:
    """Find how a worker takes one optimizer step, with the exchange that is due; it returns its
    part of the loss.
    """
    module: Any = executed(plan)
    whole: Callable[[Context, Any, int], float] | None = getattr(module, "step", None)
    return whole or partial(overlapped_step if plan.exchange.overlap else sequential_step, module)
