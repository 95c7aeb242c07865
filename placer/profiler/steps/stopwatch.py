"""Marks in time on a device: events on CUDA and Metal, the clock of the process on a CPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

from placer.profiler.target.torch_import import load_torch

Marks = Sequence[tuple[str, Any]]
"""Marks of a step in their order: the phase that ends there, and the mark; the first is its start.
"""


class Stopwatch(Protocol):
    """Marks moments of a device's work; marks are read after `wait`."""

    def mark(self) -> Any:
        """Mark the moment at which the work asked for so far is done."""

    def wait(self) -> None:
        """Wait for all work of the device."""

    def seconds(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks."""


class ProcessClock:
    """The monotonic clock: right where every operation is done when it returns."""

    def mark(self) -> float:
        """Return the present moment."""
        return time.perf_counter()

    def wait(self) -> None:
        """Do nothing: a CPU finishes its work at once."""

    def seconds(self, start: float, end: float) -> float:
        """Return the seconds between two marks."""
        return end - start


class DeviceEvents:
    """Events in the device's queue, so that measuring does not make it wait after every phase.

    Parameters
    ----------
    backend
        ``torch.cuda`` or ``torch.mps``.
    event
        Class of its events.
    """

    def __init__(self, backend: Any, event: Any) -> None:
        self.backend = backend
        self.event = event

    def mark(self) -> Any:
        """Put an event into the queue."""
        event = self.event(enable_timing=True)
        event.record()
        return event

    def wait(self) -> None:
        """Wait until the queue is empty."""
        self.backend.synchronize()

    def seconds(self, start: Any, end: Any) -> float:
        """Time between two events, which the device has in milliseconds."""
        return float(start.elapsed_time(end)) / 1000


def stopwatch(device: Any) -> Stopwatch:
    """Choose the clock of a ``torch.device``."""
    torch = load_torch()
    if device.type == "cuda":
        return DeviceEvents(torch.cuda, torch.cuda.Event)
    if device.type == "mps":
        return DeviceEvents(torch.mps, torch.mps.event.Event)
    return ProcessClock()


def phases(marks: Marks, watch: Stopwatch) -> dict[str, float]:
    """Sum the seconds of each phase of a step, and of the whole as ``step``."""
    phases: dict[str, float] = {}
    for (_, start), (phase, end) in pairwise(marks):
        phases[phase] = phases.get(phase, 0.0) + watch.seconds(start, end)
    return {**phases, "step": watch.seconds(marks[0][1], marks[-1][1])}
