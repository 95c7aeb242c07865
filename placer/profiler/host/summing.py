"""How fast this machine sums gradients, as a parameter server does: decoded, added up, packed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from placer.profiler.torch_import import load_torch

if TYPE_CHECKING:
    import torch

VALUES = 24_000_000
"""Values of a gradient: 96 MB in FP32, more than a processor's caches hold."""
GRADIENTS = 4
"""Gradients of one sum: a small group. The time to pack the result is divided among them."""
ROUNDS = 5
MOST_THREADS = 8
COMPRESSIONS = ("fp16", "none")


@dataclass(frozen=True, kw_only=True, slots=True)
class SumPoint:
    """One sum on some threads side by side: the median CPU seconds of the slowest thread, and those
    of its quickest and slowest round.
    """

    compression: str
    threads: int
    values: int
    gradients: int
    seconds: float
    least_s: float
    most_s: float
    rounds: int

    def bytes_per_s(self, seconds: float | None = None) -> float:
        """Return the FP32 bytes that all threads sum per second."""
        return 4 * self.values * self.gradients / (self.seconds if seconds is None else seconds)


def measure_sums(
    values: int | None = None,
    rounds: int = ROUNDS,
    threads: Sequence[int] = (),
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[SumPoint, ...]:
    """Measure sums of FP16 and FP32 messages on one thread and on as many as there are CPUs. CPU
    seconds of each thread: what else runs on the machine counts little. Raises `PlacerError` if
    PyTorch is missing.

    values: Values of one gradient; the threads share them. None: `VALUES`.
    rounds: Sums of which the median counts.
    threads: Numbers of threads; by default 1 and the CPUs of this machine, at most `MOST_THREADS`.
    """
    torch = load_torch()
    counts = sorted({*threads} or {1, min(os.cpu_count() or 1, MOST_THREADS)})
    cases = [(kind, count) for kind in COMPRESSIONS for count in counts]
    points = []
    with one_thread(torch):
        for done, (kind, count) in enumerate(cases, start=1):
            points.append(_point(kind, count, values or VALUES, rounds))
            progress(done / len(cases))
    return tuple(points)


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Let PyTorch use one thread for each operation."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _point(compression: str, threads: int, values: int, rounds: int) -> SumPoint:
    with ThreadPoolExecutor(threads) as pool:
        futures = [
            pool.submit(_sums, compression, values // threads, rounds) for _ in range(threads)
        ]
        slowest = max((future.result() for future in futures), key=median)
    return SumPoint(
        compression=compression,
        threads=threads,
        values=values // threads * threads,
        gradients=GRADIENTS,
        seconds=median(slowest),
        least_s=min(slowest),
        most_s=max(slowest),
        rounds=rounds,
    )


def _sums(compression: str, values: int, rounds: int) -> list[float]:
    """Return the CPU seconds of each round in one thread, after a first one that does not count."""
    torch = load_torch()
    messages = [_encoded(torch.full((values,), 0.01), compression) for _ in range(GRADIENTS)]
    seconds = []
    for _ in range(rounds + 1):
        began = time.thread_time()
        sum_once(messages, values)
        seconds.append(time.thread_time() - began)
    return seconds[1:]


def sum_once(messages: Sequence[torch.Tensor], values: int) -> torch.Tensor:
    """Decode and add up gradients of one type, and return the sum in this type."""
    torch = load_torch()
    total = torch.zeros(values)
    for message in messages:
        total += message.float()
    return total if messages[0].dtype == total.dtype else _encoded(total, "fp16")


def _encoded(gradient: torch.Tensor, compression: str) -> torch.Tensor:
    """Return a gradient as it travels: FP16 is clamped to its range."""
    if compression == "none":
        return gradient
    limits = load_torch().finfo(load_torch().float16)
    return gradient.clamp(limits.min, limits.max).half()
