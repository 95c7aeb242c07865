"""The exchange of one round in a thread of its own, overlapped with the calculation of the next
(``--overlap``): gradients are applied with a delay of one round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from placer.launch.runtime.wire.meter import Meter


class OverlappedExchange:
    """A thread with at most one exchange under way.

    Parameters
    ----------
    meter
        Meter of the process. It gets the figures of an exchange when that has ended.
    wire_meter
        Meter of the wire. Only the thread uses it while an exchange is under way.

    Notes
    -----
    ``step`` is that of the exchange under way, None without one: its update is not in the model.
    ``parameters`` are those with which its gradient was calculated, where they are no longer the
    model's: another process needs them to do this step again.
    """

    def __init__(self, meter: Meter, wire_meter: Meter) -> None:
        self.meter, self.wire_meter = meter, wire_meter
        self.thread = ThreadPoolExecutor(1, "exchange")  # one: all ranks exchange in the same order
        self.future: Future[tuple[Any, float]] | None = None
        self.step: int | None = None
        self.parameters: Any = None

    def begin(self, step: int, exchange: Callable[[], Any], parameters: Any = None) -> None:
        """Start an exchange and return at once."""
        self.step, self.parameters = step, parameters
        self.future = self.thread.submit(_timed, exchange)

    def check(self) -> None:
        """Raise the error of the exchange under way, if it has failed."""
        if self.future is not None and self.future.done():
            self.future.result()

    def pause(self, seconds: float) -> None:
        """Sleep, but raise as soon as the exchange under way has failed."""
        until = time.perf_counter() + seconds
        if self.future is not None:
            wait([self.future], seconds)
            self.check()
        time.sleep(max(0.0, until - time.perf_counter()))

    def end(self, *, flush: bool = False) -> Any:
        """Wait for the exchange under way and return its result, or raise its error.

        Parameters
        ----------
        flush
            The wait begins right after the exchange: nothing was calculated meanwhile.
        """
        assert self.future is not None
        began = time.perf_counter()
        result, seconds = self.future.result()
        waited = time.perf_counter() - began
        self.future, self.step, self.parameters = None, None, None
        self.meter.absorb(self.wire_meter)
        self.meter.overlap(*((0.0, 0.0, waited) if flush else (seconds, waited, 0.0)))
        return result


def _timed(exchange: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return exchange(), time.perf_counter() - began
