"""DiLoCo: every worker steps alone; every H steps the mean change of the models drives an outer
optimizer, and all go on from the model that it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from placer.launch.runtime.training.context import Context
from placer.launch.runtime.training.outer_optimizer import RATE, SPARSE_DECAY, OuterOptimizer
from placer.launch.runtime.training.quorum import Outcome
from placer.launch.runtime.wire.butterfly import butterfly_sum
from placer.launch.runtime.wire.feedback import Feedback

WIRED = True
REPLICATED = False
ELASTIC = False


@dataclass(kw_only=True)
class Outer:
    """What lasts from round to round: the outer optimizer, and what compression lost."""

    optimizer: OuterOptimizer
    feedback: Feedback | None


def open(context: Context) -> Outer:  # noqa: A001 - the protocol's word
    """Begin with the first model, or with what a checkpoint kept."""
    compression = context.plan.exchange.compression
    state = Outer(
        optimizer=OuterOptimizer.of(context.trainer.vector(), compression, RATE),
        feedback=feedback_of(compression, context.trainer.elements),
    )
    if context.kept:
        state.optimizer.load_state(context.kept["outer"])
        if state.feedback is not None:
            state.feedback.load_state(context.kept["feedback"])
    return state


def feedback_of(compression: str, elements: int) -> Feedback | None:
    """Return what feeds the errors of a compression back; None where nothing is lost."""
    if compression == "none":
        return None
    return Feedback(elements, SPARSE_DECAY if compression == "sparse" else 1.0)


def calculate(context: Context, state: Outer, step: int) -> tuple[Any, float]:
    """Take an inner step on the own samples."""
    return None, context.local_step(step)


def share_of(context: Context) -> float:
    """Return the rank's share of the samples, by which its change counts."""
    return context.shares()[context.rank] / context.settings.target_batch_size


def exchange(context: Context, state: Outer, mine: Any) -> Callable[[], Any]:
    """Average the changes of all since the last outer step, each by its samples."""
    change = context.trainer.vector() - state.optimizer.common
    quorum = context.quorum
    if quorum is not None:
        return lambda: quorum.mean(change, state.optimizer.vectors, state.feedback)
    change *= share_of(context)
    return lambda: butterfly_sum(
        context.connected, change, context.members, feedback=state.feedback
    )


def apply(context: Context, state: Outer, result: Any) -> None:
    """Take the outer step and go on from its model, the same on all workers."""
    if isinstance(result, Outcome):
        context.follow(result)
        if result.total is None:
            return
        state.optimizer.take(result.taken)
        result = result.total
    state.optimizer.step(result)
    context.trainer.load_vector(state.optimizer.common)


def saved(context: Context, state: Outer) -> dict[str, Any]:
    """Return what a checkpoint keeps beside model and inner optimizer."""
    lost = {} if state.feedback is None else {"feedback": state.feedback.state()}
    return {"outer": state.optimizer.state(), **lost}


def serve(context: Context, state: Any, step: int) -> None:
    """Do nothing: there is no hub."""


def close(context: Context, state: Any) -> None:
    """Do nothing: nothing is open."""
