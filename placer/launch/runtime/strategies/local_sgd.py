"""Local SGD: every worker steps alone; every H steps the changes of the models are averaged in a
flat butterfly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from placer.launch.runtime.training.context import Context
from placer.launch.runtime.training.quorum import Outcome
from placer.launch.runtime.wire.butterfly import butterfly_sum

WIRED = True
REPLICATED = False
ELASTIC = False


@dataclass(kw_only=True)
class Models:
    """Vectors of a worker: the model that all had after the last average, the worker's own when a
    change was last taken or an average came, and its changes under way, the oldest first.
    """

    common: Any
    own: Any
    sent: list[Any] = field(default_factory=list)


def open(context: Context) -> Models:  # noqa: A001 - the protocol's word
    """Return the first models, which are the same on all workers."""
    vector = context.trainer.vector()
    return Models(common=vector, own=vector)


def calculate(context: Context, state: Models, step: int) -> tuple[Any, float]:
    """Take a step on the own samples."""
    return None, context.local_step(step)


def exchange(context: Context, state: Models, mine: Any) -> Callable[[], Any]:
    """Average the changes that each worker's local steps made.

    Notes
    -----
    What travels is the change since the last average (same bytes as the model): rounded to FP16 it
    keeps more of it. Changes count by samples, so equal shares are Stich's mean (ICLR 2019).
    """
    now, share = (
        context.trainer.vector(),
        context.shares()[context.rank] / context.settings.target_batch_size,
    )
    change = now - state.own
    state.own, state.sent = now, [*state.sent, change]
    quorum = context.quorum
    if quorum is not None:
        return lambda: quorum.mean(change, lambda: (state.common,))
    return lambda: butterfly_sum(context.connected, change * share, context.members)


def apply(context: Context, state: Models, result: Any) -> None:
    """Replace the rank's own change by the average. A later change, which is under way by now,
    stays.
    """
    if isinstance(result, Outcome):
        context.follow(result)
        if result.total is None:
            return
        (state.common,) = result.taken or (state.common,)
        result = result.total
    state.common, state.sent = state.common + result, state.sent[1:]
    state.own = sum(state.sent, state.common)
    context.trainer.load_vector(state.own)


def serve(context: Context, state: Any, step: int) -> None:
    """Do nothing: there is no hub."""


def close(context: Context, state: Any) -> None:
    """Do nothing: nothing is open."""
