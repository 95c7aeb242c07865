"""How much of a device's speed a framework's gradient accumulation leaves: measured where it is
installed, else from tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError, unknown
from placer.profiler.steps.accumulation import Accumulation, Cycle, ddp, hivemind, installed, plain
from placer.profiler.steps.comparison import LEAST_PAIRS, Ratio, ratio_of_pairs
from placer.profiler.target.torch_import import load_torch
from placer.profiler.target.workload import Workload
from placer.workload.profile import Efficiency, load_profile, profile_names

if TYPE_CHECKING:
    import torch

FRAMEWORKS = ("none", "ddp", "hivemind")
MOST_STEPS = 8
"""Most microbatches of one measured cycle; a longer accumulation hides the one that synchronises
even better.
"""
MOST_PAIRS = 40
WARM_UP = 2
"""Cycles before the first that counts: DDP builds its buckets anew after one."""
LOOPS: dict[str, Callable[[Accumulation], AbstractContextManager[Cycle]]] = {
    "ddp": ddp,
    "hivemind": hivemind,
}
UNPUBLISHED = (1.0, 0.8, 1.0)
"""Value, low, high of a framework that nobody published: assumed, as `ModelProfile.rate` does."""


def measured_efficiency(
    workload: Workload,
    device: torch.device | str,
    framework: str,
    *,
    microbatch: int | None = None,
    target_batch_size: int | None = None,
    seconds: float = 10.0,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    progress: Callable[[float], None] = lambda share: None,
) -> Efficiency:
    """Local rate of a workload while it accumulates gradients under a framework, over that of a
    plain loop.

    Parameters
    ----------
    workload
        Its module is moved to the device; its parameters stay as they are.
    device
        Such as ``cpu`` or ``cuda:0``.
    framework
        ``none``, ``ddp`` or ``hivemind``.
    microbatch, target_batch_size
        Samples at once and samples of a whole accumulation; None takes the workload's, else 8 and
        four microbatches.
    seconds
        Time of the measurement; a slow model gets shorter cycles, but at least five pairs of two
        microbatches are measured.
    autocast
        Makes the context of each forward pass, such as ``lambda: torch.autocast("cuda",
        torch.float16)``.
    progress
        Called with the share that is done, 0 to 1.

    Returns
    -------
    Efficiency
        ``measured``: median of the ratios of cycles that took turns, with a 90 % interval
        (`ratio_of_pairs`). Where the framework is not installed or does not take this model, the
        figure of `published_efficiency`, and ``source`` says why.

    Raises
    ------
    PlacerError
        If the framework is unknown, a size is below 1 or PyTorch is missing.

    Notes
    -----
    A cycle is some forward and backward passes and what the framework adds to each. Updates are
    left out on both sides: in the model of a step they belong to the exchange. One process has
    nobody to wait for, so this is the local rate.
    """
    if framework not in FRAMEWORKS:
        raise unknown("framework", framework, FRAMEWORKS)
    if framework == "none":
        return Efficiency(
            framework="none",
            value=1.0,
            low=1.0,
            high=1.0,
            basis="measured",
            source="the plain loop itself",
        )
    torch = load_torch()
    given = _accumulation(workload, torch.device(device), microbatch, target_batch_size, autocast)
    if not installed(framework):
        return published_efficiency(
            workload.name, workload.family, framework, f"{framework} is not installed; "
        )
    given = _in_time(
        given, seconds
    )  # what fails here is the model's own failure and is not blamed on the framework
    with plain(given) as alone:
        try:
            with LOOPS[framework](given) as together:
                ratio = _take_turns(alone, together, given.device, seconds, progress)
        except PlacerError:
            raise
        except Exception as error:
            reason = (
                f"{framework} failed with this model ({type(error).__name__}: "
                f"{' '.join(str(error).split())[:120]}); "
            )
            return published_efficiency(workload.name, workload.family, framework, reason)
    return efficiency_of(
        framework, ratio, f"{given.steps} x {given.microbatch} samples on {given.device}"
    )


def efficiency_of(framework: str, ratio: Ratio, what: str) -> Efficiency:
    """Build the efficiency of a measured ratio; what is above 1 is cut to 1, and the source says
    so.

    Notes
    -----
    A framework makes no model faster. If even the low end is above 1, something else disturbed the
    machine by that much, and it could as well have been the other way round: the low end becomes
    the reciprocal of the high end.
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


def published_efficiency(name: str, family: str, framework: str, reason: str = "") -> Efficiency:
    """Efficiency of a model from what others published.

    Parameters
    ----------
    name, family
        Of the model. A shipped profile of that name counts; else the mean of the measured models of
        its family, else of all.
    framework
        ``hivemind`` is published (Erben et al., PVLDB 17(6), 2024); ``ddp`` is not.
    reason
        Put before the source: why nothing was measured.

    Returns
    -------
    Efficiency
        The shipped figure as ``published``; a mean over other models as ``assumed``, from the
        lowest to the highest of them.
    """
    rows = [
        (p.name, p.family, e)
        for p in map(load_profile, profile_names())
        for e in p.efficiency
        if e.framework == framework
    ]
    for other, _, row in rows:
        if other == name and row.basis == "measured":
            return Efficiency(
                framework=framework,
                value=row.value,
                low=row.low,
                high=row.high,
                basis="published",
                source=f"{reason}{row.source}",
            )
    measured = [(kind, row) for _, kind, row in rows if row.basis in ("measured", "published")]
    alike = [row for kind, row in measured if kind == family]
    taken = alike or [row for _, row in measured]
    if not taken:
        value, low, high = UNPUBLISHED
        source = f"{reason}nobody published {framework}'s share: taken as {value:g}"
        return Efficiency(
            framework=framework, value=value, low=low, high=high, basis="assumed", source=source
        )
    which = f"{len(taken)} {family} models" if alike else f"all {len(taken)} models"
    return Efficiency(
        framework=framework,
        value=round(fmean(row.value for row in taken), 3),
        low=min(row.low for row in taken),
        high=max(row.high for row in taken),
        basis="assumed",
        source=f"{reason}mean of {which} of Erben et al. (PVLDB 17(6), 2024) under {framework}; "
        f"not measured for this one",
    )


def _accumulation(
    workload: Workload,
    device: torch.device,
    microbatch: int | None,
    target: int | None,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> Accumulation:
    size = microbatch if microbatch is not None else workload.microbatch or 8
    whole = target if target is not None else workload.target_batch_size or 4 * size
    for what, value in (("microbatch", size), ("target batch size", whole)):
        if value < 1:
            raise PlacerError(f"{what} is {value}", "give a whole number from 1")
    steps = max(1, min(MOST_STEPS, whole // size))
    return Accumulation(
        workload=workload, device=device, microbatch=size, steps=steps, autocast=autocast
    )


def _in_time(given: Accumulation, seconds: float) -> Accumulation:
    """Shorten the cycle of a slow model, so that the fewest pairs take about as long as asked for;
    not below two microbatches.
    """
    with plain(replace(given, steps=1)) as one:
        one()
        least = 2 * (LEAST_PAIRS + WARM_UP) * _seconds(one, given.device)
    return replace(given, steps=min(given.steps, max(2, int(seconds / least))))


def _take_turns(
    alone: Cycle,
    together: Cycle,
    device: torch.device,
    seconds: float,
    progress: Callable[[float], None],
) -> Ratio:
    """Time both cycles in turns, so that a slower or faster machine meets both alike; which one
    goes first alternates.
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
        progress(
            min(
                1.0,
                max(
                    len(times[0]) / MOST_PAIRS,
                    (time.perf_counter() - start) / seconds if seconds > 0 else 1.0,
                ),
            )
        )
    progress(1.0)
    return ratio_of_pairs(*times)


def _seconds(cycle: Cycle, device: torch.device) -> float:
    """Wall-clock seconds of one cycle, with all that it left to the device."""
    _finish(device)
    start = time.perf_counter()
    cycle()
    _finish(device)
    return time.perf_counter() - start


def _finish(device: torch.device) -> None:
    torch = load_torch()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
