"""Time that a dataset takes to give its batches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping
from typing import Any

from placer.profiler.target.torch_import import load_torch

MOST_BATCHES = 50
"""Batches after which the median is known well enough."""


def loading_seconds_per_sample(samples: Iterable[Any], seconds: float) -> float | None:
    """Measure the median seconds for a batch of a dataset over its samples; the first batch, which
    starts workers and opens files, does not count.

    Parameters
    ----------
    samples
        Batches.
    seconds
        Stop after this long.

    Returns
    -------
    float | None
        None if there are fewer than two batches, or no tensor in them that tells how many samples
        they have.
    """
    times: list[float] = []
    start = time.perf_counter()
    batches = iter(samples)
    last = start
    for number, batch in enumerate(batches):
        now = time.perf_counter()
        count = samples_in(batch)
        if count and number:
            times.append((now - last) / count)
        if number >= MOST_BATCHES or now - start > seconds:
            break
        last = time.perf_counter()
    return statistics.median(times) if times else None


def samples_in(batch: Any) -> int | None:
    """Count the samples of a batch: the first dimension of its first tensor."""
    if isinstance(batch, load_torch().Tensor):
        return int(batch.shape[0]) if batch.dim() else None
    parts = (
        batch.values()
        if isinstance(batch, Mapping)
        else batch
        if isinstance(batch, (list, tuple))
        else ()
    )
    return next((samples for samples in map(samples_in, parts) if samples), None)
