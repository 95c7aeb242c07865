"""The exchange of one round beside the calculation of the next (``--overlap``): one round of delay,
in one thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Protocol

from placer.launch.runtime.wire.meter import Meter

if TYPE_CHECKING:
    from placer.launch.runtime.training.context import Context


class Parted(Protocol):
    """A strategy whose step comes in three parts, so that its exchange may run beside the next
    step.
    """

    REPLICATED: bool

    def calculate(self, context: Context, state: Any, step: int) -> tuple[Any, float]:
        """Do what a step does without the others; return what the exchange needs of it, and the
        part of the loss.
        """

    def exchange(self, context: Context, state: Any, mine: Any) -> Callable[[], Any]:
        """Take what is to be sent out of the model, as it is now, and return the exchange of it: it
        uses the wire alone.
        """

    def apply(self, context: Context, state: Any, result: Any) -> None:
        """Bring what an exchange gave into the model, after what the next one needs was taken out
        of it.
        """


class Beside:
    """At most one exchange under way.

    Parameters
    ----------
    meter
        Of the process: gets the figures of an exchange when it has ended.
    aside
        Of the wire: the thread alone uses it while an exchange is under way.

    Notes
    -----
    ``step`` is that of the exchange under way, None without one: its update is not in the model.
    ``seen`` are the parameters with which its gradient was calculated, where these are not the
    model's: what another process needs to do this step again.
    """

    def __init__(self, meter: Meter, aside: Meter) -> None:
        self.meter, self.aside = meter, aside
        self.thread = ThreadPoolExecutor(1, "exchange")  # one: all ranks exchange in the same order
        self.future: Future[tuple[Any, float]] | None = None
        self.step: int | None = None
        self.seen: Any = None

    def begin(self, step: int, exchange: Callable[[], Any], seen: Any = None) -> None:
        """Start an exchange and go on."""
        self.step, self.seen = step, seen
        self.future = self.thread.submit(_timed, exchange)

    def check(self) -> None:
        """Raise what the exchange under way failed with, if it has."""
        if self.future is not None and self.future.done():
            self.future.result()

    def pause(self, seconds: float) -> None:
        """Wait so long, but no longer than until the exchange under way has failed."""
        until = time.perf_counter() + seconds
        if self.future is not None:
            wait([self.future], seconds)
            self.check()
        time.sleep(max(0.0, until - time.perf_counter()))

    def end(self, *, flush: bool = False) -> Any:
        """Wait for the exchange under way; returns what came of it, or raises what it failed with.

        Parameters
        ----------
        flush
            It is waited for at once, not after the calculation of the next round.
        """
        assert self.future is not None
        began = time.perf_counter()
        result, seconds = self.future.result()
        waited = time.perf_counter() - began
        self.future, self.step, self.seen = None, None, None
        self.meter.absorb(self.aside)
        self.meter.beside(*((0.0, 0.0, waited) if flush else (seconds, waited, 0.0)))
        return result


def _timed(exchange: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return exchange(), time.perf_counter() - began


def in_turn(parts: Parted, context: Context, state: Any, step: int) -> float:
    """Calculate, exchange where it is due, apply; returns the part of the loss."""
    mine, loss = parts.calculate(context, state, step)
    if context.ends_round(step):
        parts.apply(context, state, parts.exchange(context, state, mine)())
    return loss


def delayed(parts: Parted, context: Context, state: Any, step: int) -> float:
    """Calculate while the exchange of the round before runs, begin the next, apply what that one
    gave; returns the part of the loss.

    Notes
    -----
    Before a checkpoint and at the end nothing stays under way, so a checkpoint is a model that all
    agree on.
    """
    beside, trainer = context.beside, context.trainer
    assert beside is not None
    seen, context.seen = context.seen, None
    now = None if seen is None else trainer.vector()
    if now is not None:  # as the run that was ended had calculated it
        trainer.load_vector(seen)
    mine, loss = parts.calculate(context, state, step)
    if now is not None:
        trainer.load_vector(now)
    if not context.ends_round(step):
        return loss
    exchange = parts.exchange(context, state, mine)
    if beside.step is None:
        beside.begin(step, exchange, seen)
    else:
        seen = trainer.vector() if parts.REPLICATED and context.settings.checkpoints else None
        late = beside.end()
        beside.begin(step, exchange, seen)  # first, so that links do not wait for the update
        parts.apply(context, state, late)
    if context.keeps(step) or step + 1 == context.settings.steps:
        parts.apply(context, state, beside.end(flush=True))
    return loss
