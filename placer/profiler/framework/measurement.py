"""Measure in this process what a framework's gradient accumulation leaves of the local rate.

Only `placer.profiler.framework.child` calls this: gloo and hivemind may hang, and a process that
hangs can only be ended from outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from placer.errors import PlacerError
from placer.profiler.framework.accumulation import (
    Accumulation,
    Cycle,
    ddp,
    hivemind,
    installed,
    plain,
)
from placer.profiler.framework.published import published_efficiency
from placer.profiler.framework.ratio import LEAST_PAIRS, Ratio, ratio_of_pairs
from placer.profiler.target.torch_import import load_torch
from placer.records import replace
from placer.workload.profile import Efficiency

if TYPE_CHECKING:
    import torch

MOST_PAIRS = 40
WARM_UP = 2
"""Cycles before the first that counts: DDP builds its buckets anew after one."""
LOOPS: dict[str, Callable[[Accumulation], AbstractContextManager[Cycle]]] = {
    "ddp": ddp,
    "hivemind": hivemind,
}


def measure(
    accumulation: Accumulation,
    framework: str,
    seconds: float,
    progress: Callable[[float], None],
    report: Callable[[Efficiency], None],
) -> None:
    """Time cycles of a plain loop and of a framework in turns, and report their ratio.

    Parameters
    ----------
    accumulation
        The model's parameters stay as they are, and it has no gradients afterwards.
    framework
        ``ddp`` or ``hivemind``.
    seconds
        Time of the measurement. A slow model gets shorter cycles, but never fewer than
        `LEAST_PAIRS` pairs of two microbatches.
    progress
        Called with the share that is done, 0 to 1.
    report
        Called with the result before the framework is shut down, which may hang. The result is
        ``measured``; where the framework is not installed or refuses this model, it is the figure
        of `published_efficiency`, and its source says why.

    Raises
    ------
    PlacerError
        If a process group is open already.
    Exception
        What the model itself raises in a plain loop: it is not blamed on the framework.
    """
    workload = accumulation.workload

    def published(reason: str) -> Efficiency:
        return published_efficiency(workload.name, workload.family, framework, reason)

    if not installed(framework):
        report(published(f"{framework} is not installed; "))
        return
    accumulation = shortened(accumulation, seconds)
    with plain(accumulation) as alone:
        progress(0.0)
        try:
            with LOOPS[framework](accumulation) as together:
                ratio = _take_turns(alone, together, accumulation.device, seconds, progress)
                what = f"{accumulation.steps} x {accumulation.microbatch} samples"
                report(efficiency_of(framework, ratio, f"{what} on {accumulation.device}"))
        except PlacerError:
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
            report(published(f"{framework} failed with this model ({words}); "))


def efficiency_of(framework: str, ratio: Ratio, what: str) -> Efficiency:
    """Turn a measured ratio into an efficiency, cut to 1.

    Notes
    -----
    A framework makes no model faster, so a ratio above 1 is noise, and the source says that it was
    cut. If even its low end is above 1, something else disturbed the machine by that much, and it
    could have been the other way round: the low end becomes the reciprocal of the high end.
    """
    source = (
        f"placer profile --framework {framework}: {ratio.pairs} pairs of cycles of {what}, "
        f"plain over {framework} seconds"
    )
    if ratio.high > 1:
        source += f"; measured {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f}), cut to 1"
    low = ratio.low
    if low > 1:
        low = 1 / ratio.high
        source += ": the machine was disturbed, measure again"
    return Efficiency(
        framework=framework,
        value=min(1.0, ratio.value),
        low=low,
        high=min(1.0, ratio.high),
        basis="measured",
        source=source,
    )


def shortened(accumulation: Accumulation, seconds: float) -> Accumulation:
    """Shorten the cycle of a slow model, so that the fewest pairs take about ``seconds``.

    Two microbatches are the least: of one alone, none would be accumulated.
    """
    with plain(replace(accumulation, steps=1)) as cycle:
        cycle()
        least = 2 * (LEAST_PAIRS + WARM_UP) * _seconds(cycle, accumulation.device)
    return replace(accumulation, steps=min(accumulation.steps, max(2, int(seconds / least))))


def _take_turns(
    alone: Cycle,
    together: Cycle,
    device: torch.device,
    seconds: float,
    progress: Callable[[float], None],
) -> Ratio:
    """Time both cycles in turns, so that a slower or faster machine affects both alike.

    Which one goes first alternates.
    """
    for _ in range(WARM_UP):
        alone()
        together()
    times: tuple[list[float], list[float]] = ([], [])
    start = time.perf_counter()
    while len(times[0]) < LEAST_PAIRS or (
        len(times[0]) < MOST_PAIRS and time.perf_counter() - start < seconds
    ):
        order = ((0, alone), (1, together))
        for i, cycle in order if len(times[0]) % 2 == 0 else order[::-1]:
            times[i].append(_seconds(cycle, device))
        spent = (time.perf_counter() - start) / seconds if seconds > 0 else 1.0
        progress(min(1.0, max(len(times[0]) / MOST_PAIRS, spent)))
    progress(1.0)
    return ratio_of_pairs(*times)


def _seconds(cycle: Cycle, device: torch.device) -> float:
    """Measure the wall-clock seconds of one cycle, with all work that it queued on the device."""
    _synchronize(device)
    start = time.perf_counter()
    cycle()
    _synchronize(device)
    return time.perf_counter() - start


def _synchronize(device: torch.device) -> None:
    torch = load_torch()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
