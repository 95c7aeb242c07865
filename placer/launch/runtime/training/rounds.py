"""Optimizer steps of strategies in three parts: in sequence, or with an overlapped exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from placer.launch.runtime.training.context import Context


class ThreePartStep(Protocol):
    """A strategy whose step comes in three parts, so that its exchange can overlap the next one."""

    REPLICATED: bool

    def calculate(self, context: Context, state: Any, step: int) -> tuple[Any, float]:
        """Do the local part of a step; return what to exchange, and the rank's part of the loss."""

    def exchange(self, context: Context, state: Any, mine: Any) -> Callable[[], Any]:
        """Copy what is sent out of the model now, and return a function that exchanges it.

        That function uses nothing but the wire, so it can run in another thread.
        """

    def apply(self, context: Context, state: Any, result: Any) -> None:
        """Apply the result of an exchange to the model.

        The next exchange has already copied what it sends.
        """


def sequential_step(strategy: ThreePartStep, context: Context, state: Any, step: int) -> float:
    """Calculate, exchange where it is due, apply; return the rank's part of the loss."""
    mine, loss = strategy.calculate(context, state, step)
    if context.ends_round(step):
        strategy.apply(context, state, context.together(strategy.exchange(context, state, mine)))
    return loss


def overlapped_step(strategy: ThreePartStep, context: Context, state: Any, step: int) -> float:
    """Calculate while the exchange of the previous round runs, begin the next one, then apply the
    previous result; return the rank's part of the loss.

    Notes
    -----
    Nothing stays under way before a checkpoint or at the end, so a checkpoint is a model on which
    all ranks agree.
    """
    overlapped, trainer = context.overlapped, context.trainer
    assert overlapped is not None
    older, context.resume_parameters = context.resume_parameters, None
    now = None if older is None else trainer.vector()
    if now is not None:  # repeat the calculation of the run that was ended
        trainer.load_vector(older)
    mine, loss = strategy.calculate(context, state, step)
    if now is not None:
        trainer.load_vector(now)
    if not context.ends_round(step):
        return loss
    exchange = strategy.exchange(context, state, mine)
    if overlapped.step is None:
        overlapped.begin(step, exchange, older)
    else:
        keeps = strategy.REPLICATED and context.settings.checkpoints
        parameters = trainer.vector() if keeps else None
        late = context.together(overlapped.end)
        overlapped.begin(step, exchange, parameters)  # first, so that links do not wait
        strategy.apply(context, state, late)
    if context.saves_checkpoint(step) or step + 1 == context.settings.steps:
        flushed = context.together(lambda: overlapped.end(flush=True))
        strategy.apply(context, state, flushed)
    return loss
