"""Marks in time on a device: events on CUDA and Metal, the clock of the process on a CPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from placer.profiler.torch_import import load_torch

Marks = Sequence[tuple[str, Any]]
"""Marks of a step in their order: the phase that ends there, and the mark; the first is its start.
"""


class Stopwatch:
    """Marks moments of a device's work; marks are read after `wait`.

    Parameters
    ----------
    backend
        ``torch.cuda`` or ``torch.mps``, whose events stand in the device's queue, so that measuring
        does not make it wait after every phase. None: the monotonic clock, which is right on a CPU,
        where every operation is done when it returns.
    event
        Class of the backend's events.
    """

    def __init__(self, backend: Any = None, event: Any = None) -> None:
        self.backend, self.event = backend, event

    def mark(self) -> Any:
        """Mark the moment at which the work asked for so far is done."""
        if self.backend is None:
            return time.perf_counter()
        event = self.event(enable_timing=True)
        event.record()
        return event

    def wait(self) -> None:
        """Wait for all work of the device."""
        if self.backend is not None:
            self.backend.synchronize()

    def seconds(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks; events have milliseconds."""
        if self.backend is None:
            return float(end - start)
        return float(start.elapsed_time(end)) / 1000


def stopwatch(device: Any) -> Stopwatch:
    """Choose the clock of a ``torch.device``."""
    torch = load_torch()
    if device.type == "cuda":
        return Stopwatch(torch.cuda, torch.cuda.Event)
    return Stopwatch(torch.mps, torch.mps.event.Event) if device.type == "mps" else Stopwatch()


def phases(marks: Marks, watch: Stopwatch) -> dict[str, float]:
    """Sum the seconds of each phase of a step, and of the whole as ``step``."""
    phases: dict[str, float] = {}
    for (_, start), (phase, end) in pairwise(marks):
        phases[phase] = phases.get(phase, 0.0) + watch.seconds(start, end)
    return {**phases, "step": watch.seconds(marks[0][1], marks[-1][1])}
