"""How fast this machine sums gradients, as a parameter server does: decoded, added up, packed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any

import numpy as np

from placer.errors import PlacerError
from placer.profiler.devices import cpu_name
from placer.profiler.torch_import import torch

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


def measure_sums(progress: Callable[[float], None] = lambda share: None) -> tuple[SumPoint, ...]:
    """Measure sums of FP16 and FP32 messages on one thread and on as many as there are CPUs, at
    most `MOST_THREADS`, which share the `VALUES` of a gradient. CPU seconds of each thread: what
    else runs on the machine counts little.
    """
    counts = sorted({1, min(os.cpu_count() or 1, MOST_THREADS)})
    cases = [(kind, count) for kind in COMPRESSIONS for count in counts]
    points = []
    with one_thread():
        for done, (kind, count) in enumerate(cases, start=1):
            points.append(_sum_point(kind, count))
            progress(done / len(cases))
    return tuple(points)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread for each operation."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _sum_point(compression: str, threads: int) -> SumPoint:
    values = VALUES // threads
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(_sums, compression, values) for _ in range(threads)]
        slowest = max((future.result() for future in futures), key=median)
    return SumPoint(
        compression=compression,
        threads=threads,
        values=values * threads,
        gradients=GRADIENTS,
        seconds=median(slowest),
        least_s=min(slowest),
        most_s=max(slowest),
        rounds=ROUNDS,
    )


def _sums(compression: str, values: int) -> list[float]:
    """Return the CPU seconds of each round in one thread, after a first one that does not count."""
    messages = [_encoded(torch.full((values,), 0.01), compression) for _ in range(GRADIENTS)]
    seconds = []
    for _ in range(ROUNDS + 1):
        began = time.thread_time()
        sum_once(messages, values)
        seconds.append(time.thread_time() - began)
    return seconds[1:]


def sum_once(messages: Sequence[torch.Tensor], values: int) -> torch.Tensor:
    """Decode and add up gradients of one type, and return the sum in this type."""
    total = torch.zeros(values)
    for message in messages:
        total += message.float()
    return total if messages[0].dtype == total.dtype else _encoded(total, "fp16")


def _encoded(gradient: torch.Tensor, compression: str) -> torch.Tensor:
    """Return a gradient as it travels: FP16 is clamped to its range."""
    if compression == "none":
        return gradient
    limits = torch.finfo(torch.float16)
    return gradient.clamp(limits.min, limits.max).half()


PART_BYTES = 2**19
"""Most bytes of a message once compressed: hivemind 1.1.12, ``averaging/partition.py``."""
ELEMENT_BYTES = {"fp16": 2, "none": 4}
"""Bytes of a gradient element in a message."""
HEADER = b"\x00" * 48
"""Stands for the fields of hivemind's protobuf message beside its buffer."""
STAGES = ("serialise", "average", "deserialise")
SIZES = {
    "quick": (2e6, 8e6, 32e6),
    "usual": (2e6, 8e6, 32e6, 64e6),
    "thorough": (2e6, 8e6, 32e6, 128e6),
}
"""Bytes of a gradient in messages."""
SECONDS = {"quick": 8.0, "usual": 30.0, "thorough": 120.0}
TENSORS = (8, 64, 512)
LEAST_ROUNDS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class HostPoint:
    """One gradient averaged: message bytes, number of tensors, and CPU seconds of each stage
    (median of the rounds).
    """

    compression: str
    bytes: int
    tensors: int
    serialise_s: float
    average_s: float
    deserialise_s: float
    rounds: int

    @property
    def total_s(self) -> float:
        """All stages together."""
        return self.serialise_s + self.average_s + self.deserialise_s


@dataclass(frozen=True, kw_only=True, slots=True)
class HostMeasurement:
    """All points of a machine; ``partial`` if Ctrl-C ended the rounds early. ``sums`` are those of
    a parameter server.
    """

    points: tuple[HostPoint, ...]
    partial: bool
    processor: str
    logical_cpus: int
    torch_version: str
    sums: tuple[SumPoint, ...] = ()

    def of(self, compression: str) -> tuple[HostPoint, ...]:
        """Return the points of one compression."""
        return tuple(point for point in self.points if point.compression == compression)

    @property
    def server_sum(self) -> SumPoint | None:
        """The measured sum that counts: FP16 messages on the most threads."""
        measured = [point for point in self.sums if point.compression == "fp16"]
        return max(measured, key=lambda point: point.threads, default=None)


def measure_host(
    sizes: Sequence[float] = SIZES["usual"],
    tensors: Sequence[int] = TENSORS,
    seconds: float = SECONDS["usual"],
    progress: Callable[[float], None] = lambda share: None,
) -> HostMeasurement:
    """Measure serialising, averaging and deserialising of gradients on one core of this machine.
    CPU seconds of one thread: what else runs on the machine counts little. Ctrl-C after the first
    round ends it early, marked partial. Raises `PlacerError` if PyTorch is missing or there are too
    few sizes.

    sizes: Bytes of a gradient in messages, at least two different ones.
    tensors: Numbers of equal tensors that a gradient has, at least two different ones.
    seconds: Time of the measurement; at least three rounds over all points are made however long
        they take.
    """
    if len(set(sizes)) < 2 or len(set(tensors)) < 2 or min(*sizes, *tensors) < 1:
        raise PlacerError(
            "at least two sizes and two tensor counts are needed",
            "give numbers from 1, at least two of each",
        )
    cases = [(kind, int(size), int(n)) for kind, size, n in product(COMPRESSIONS, sizes, tensors)]
    rounds: list[dict[tuple[str, int, int], tuple[float, ...]]] = []
    partial = False
    start = time.perf_counter()
    try:
        with one_thread():
            average_once(make_gradient(*cases[0]), cases[0][0])
            while len(rounds) < LEAST_ROUNDS or time.perf_counter() - start < seconds:
                rounds.append({})
                for i, case in enumerate(cases):
                    rounds[-1][case] = average_once(make_gradient(*case), case[0])
                    done = (len(rounds) - 1 + (i + 1) / len(cases)) / LEAST_ROUNDS
                    spent = (time.perf_counter() - start) / seconds if seconds > 0 else 1.0
                    progress(min(done, spent, 1.0))
    except KeyboardInterrupt:
        if not rounds or len(rounds[0]) < len(cases):
            raise
        partial = True
    points = tuple(
        _point(case, [seconds[case] for seconds in rounds if case in seconds]) for case in cases
    )
    return HostMeasurement(
        points=points,
        partial=partial,
        processor=cpu_name(),
        logical_cpus=os.cpu_count() or 1,
        torch_version=str(torch.__version__),
    )


def average_once(tensors: Sequence[torch.Tensor], compression: str) -> tuple[float, float, float]:
    """Average one gradient with a copy of itself and return CPU seconds of `STAGES`. A part is
    serialised and sent; what comes from a peer is deserialised and added; the difference from the
    mean is serialised for that peer; differences that come are deserialised and added to the
    gradient. So a peer of a large group treats every part of its gradient: (N - 1) / N of it in a
    group of N, counted as all of it. What is sent to the peer is what comes from it: no copy passes
    through a network.
    """
    clock, length = time.thread_time, PART_BYTES // ELEMENT_BYTES[compression]
    serialise_s = average_s = deserialise_s = 0.0
    for tensor in tensors:
        flat: Any = tensor.view(-1)
        for part in flat.split(length):
            t0 = clock()
            sent = serialise(part, compression)
            t1 = clock()
            received = deserialise(sent, compression)
            t2 = clock()
            difference = mean_of(part, received).sub_(part)
            t3 = clock()
            returned = serialise(difference, compression)
            t4 = clock()
            change = deserialise(returned, compression)
            t5 = clock()
            part.add_(change)
            t6 = clock()
            serialise_s += t1 - t0 + t4 - t3
            deserialise_s += t2 - t1 + t5 - t4
            average_s += t3 - t2 + t6 - t5
    return serialise_s, average_s, deserialise_s


def serialise(part: torch.Tensor, compression: str) -> bytes:
    """Serialise as hivemind does: clamped to FP16, converted, copied twice."""
    if compression == "fp16":
        limits = torch.finfo(torch.float16)
        part = part.to(torch.float32, copy=True).clamp_(limits.min, limits.max).to(torch.float16)
    return b"".join((HEADER, part.numpy().tobytes()))


def deserialise(message: bytes, compression: str) -> torch.Tensor:
    """Deserialise a message to FP32: copied out of it, as protobuf does, and converted."""
    kind = np.float16 if compression == "fp16" else np.float32
    array = np.frombuffer(message[len(HEADER) :], dtype=kind).astype(np.float32)
    tensor: torch.Tensor = torch.from_numpy(array)
    return tensor


def mean_of(part: torch.Tensor, received: torch.Tensor) -> torch.Tensor:
    """Compute the running mean of two peers of equal weight."""
    total: torch.Tensor = torch.zeros_like(part)
    return total.add_(part, alpha=1.0).add_(received, alpha=1.0).div_(2.0)


def make_gradient(compression: str, size: int, count: int) -> list[torch.Tensor]:
    """Build ``count`` equal FP32 tensors that take about ``size`` bytes in messages."""
    elements = max(1, round(size / ELEMENT_BYTES[compression] / count))
    return [torch.full((elements,), 0.01 * (1 + i % 7)) for i in range(count)]


def _point(case: tuple[str, int, int], rounds: Sequence[tuple[float, ...]]) -> HostPoint:
    kind, size, count = case
    serialise_s, average_s, deserialise_s = (median(column) for column in zip(*rounds, strict=True))
    whole = max(1, round(size / ELEMENT_BYTES[kind] / count)) * count * ELEMENT_BYTES[kind]
    return HostPoint(
        compression=kind,
        bytes=whole,
        tensors=count,
        serialise_s=serialise_s,
        average_s=average_s,
        deserialise_s=deserialise_s,
        rounds=len(rounds),
    )
