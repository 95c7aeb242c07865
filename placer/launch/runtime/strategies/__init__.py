"""What is exchanged between workers: by PyTorch, by torchft, or by placer."""

from __future__ import annotations

from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.strategies.replicas import Replicas
from placer.launch.runtime.strategies.serverless import Serverless
from placer.launch.runtime.strategies.strategy import (
    AllReduce,
    Gossip,
    ModelAveraging,
    ParameterServer,
    Strategy,
)

OWN: dict[str, type[Strategy]] = {
    "all-reduce": AllReduce,
    "hierarchical-all-reduce": AllReduce,
    "parameter-server": ParameterServer,
    "central": Serverless,
    "hierarchical": Serverless,
    "model-averaging": ModelAveraging,
    "asgd-ga": Gossip,
}
"""What placer does itself, by the name in the manifest."""


def strategy_of(plan: RunPlan) -> type[Strategy]:
    """Find what executes a plan."""
    engines = {"torch": Strategy, "torchft": Replicas}
    return engines.get(plan.engine) or OWN[plan.exchange.strategy]
