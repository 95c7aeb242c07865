"""The child process that measures a framework: a JSON request in, JSON lines out.

It loads the target again by its words, so that no object of the user is pickled. Gloo and hivemind
may hang, and a process that hangs can only be ended from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from typing import Any

from msgspec import to_builtins

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
from placer.profiler.steps.precision import autocast
from placer.profiler.steps.statistics import ranks
from placer.profiler.steps.stopwatch import stopwatch
from placer.profiler.target import Target
from placer.profiler.torch_import import OutOfMemory, load_torch, translate_failures
from placer.profiler.workload import Workload
from placer.records import replace
from placer.workload.profile import Efficiency

MOST_STEPS = 8
"""Most microbatches of one cycle. Longer ones would hide the one that synchronises even better."""
LOADING_S = 600.0
"""Longest time to import PyTorch and to load the target."""
SPARE_S = 30
"""How much later than its parent the child ends itself."""
CONFIDENCE = 0.9
"""Share of intervals that hold the true median."""
LEAST_PAIRS, MOST_PAIRS = 5, 40
"""Fewest pairs for which the whole range is an interval of `CONFIDENCE`: 1 - 2 / 2^5 = 94 %."""
WARM_UP = 2
"""Cycles before the first that counts: DDP builds its buckets anew after one."""
LOOPS: dict[str, Callable[[Accumulation], AbstractContextManager[Cycle]]] = {
    "ddp": ddp,
    "hivemind": hivemind,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the child measures; plain values only.

    Parameters
    ----------
    target
        Loaded by the child; must be a model, not a step function.
    device, framework, precision
        Such as ``cuda:0``, ``ddp``, ``fp32``.
    microbatch, target_batch_size
        Samples; None for those of the workload, else 8 and four microbatches.
    seconds
        Time of the measurement.
    threads
        Of PyTorch.
    silence_s
        Longest time between two messages once the target is loaded.
    """

    target: Target
    device: str
    framework: str
    precision: str
    microbatch: int | None
    target_batch_size: int | None
    seconds: float
    threads: int
    silence_s: float


def main(document: dict[str, Any]) -> None:
    """Answer one request, a `Request` as `dataclasses.asdict` writes it, and end without waiting
    for threads.

    Notes
    -----
    Messages go to what was standard output when the child started; what the user's code prints goes
    to standard error. Each sets an alarm of the system that ends a child whose parent was killed:
    also one whose threads wait for the GIL for ever.
    """
    request = Request(**{**document, "target": Target(**document["target"])})
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.alarm(int(LOADING_S) + SPARE_S)

    def send(**message: Any) -> None:
        signal.alarm(int(request.silence_s) + SPARE_S)
        print(json.dumps(message), file=stream, flush=True)

    with contextlib.suppress(BrokenPipeError):  # the parent has gone
        answer(request, send)
    sys.stderr.flush()
    os._exit(0)


def answer(request: Request, send: Callable[..., None]) -> None:
    """Measure what is asked for; every failure becomes a message."""
    try:
        workload = request.target.load()
        if not isinstance(workload, Workload):
            raise PlacerError(
                "--framework needs a model: a step function hides its gradients",
                "leave out --framework",
            )
        load_torch().set_num_threads(request.threads)
        size = request.microbatch or workload.microbatch or 8
        batch = request.target_batch_size or workload.target_batch_size or 4 * size
        device = load_torch().device(request.device)
        if device.type == "cuda":
            load_torch().cuda.set_device(device)  # whose work a stopwatch waits for
        accumulation = Accumulation(
            workload=workload,
            device=device,
            microbatch=size,
            steps=max(1, min(MOST_STEPS, batch // size)),
            autocast=lambda: autocast(request.precision, device),
        )
        send(kind="loaded")
        with translate_failures(f"while batches of {size:,} are accumulated"):
            measure(
                accumulation,
                request.framework,
                request.seconds,
                lambda share: send(kind="progress", share=share),
                lambda efficiency: send(kind="result", efficiency=to_builtins(efficiency)),
            )
    except OutOfMemory as error:
        send(kind="memory", message=str(error))
    except PlacerError as error:
        send(kind="error", message=error.message, hint=error.hint, exit_code=error.exit_code)


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

    def published(reason: str) -> None:
        report(published_efficiency(workload.name, workload.family, framework, reason))

    if not installed(framework):
        published(f"{framework} is not installed; ")
        return
    accumulation = shortened(accumulation, seconds)
    with plain(accumulation) as alone:
        progress(0.0)
        try:
            with LOOPS[framework](accumulation) as together:
                pairs = _take_turns(alone, together, accumulation.device, seconds, progress)
                what = f"{accumulation.steps} x {accumulation.microbatch} samples"
                report(efficiency_of(framework, *pairs, what=f"{what} on {accumulation.device}"))
        except PlacerError:
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
            published(f"{framework} failed with this model ({words}); ")


def efficiency_of(
    framework: str, alone: Sequence[float], together: Sequence[float], *, what: str
) -> Efficiency:
    """Turn seconds of runs that took turns into an efficiency: the median of ratios, cut to 1.

    Parameters
    ----------
    alone, together
        Seconds of the plain loop and of the framework, pair by pair; at least `LEAST_PAIRS` each.
    what
        What a cycle is, in words.

    Raises
    ------
    PlacerError
        If there are too few pairs or a time is not positive.

    Notes
    -----
    The interval is that of the sign test: order statistics of the ratios, at least `CONFIDENCE`
    whatever their distribution. A pair that something else on the machine disturbed moves it by one
    place at most.

    A framework makes no model faster, so a ratio above 1 is noise, and the source says that it was
    cut. If even its low end is above 1, something else disturbed the machine by that much, and it
    could have been the other way round: the low end becomes the reciprocal of the high end.
    """
    ratios = sorted(a / b for a, b in zip(alone, together, strict=True) if a > 0 and b > 0)
    if len(ratios) < max(LEAST_PAIRS, len(alone)):
        raise PlacerError(
            f"{len(ratios)} pairs of times above 0 are too few", f"measure at least {LEAST_PAIRS}"
        )
    lowest, highest, _ = ranks(len(ratios), CONFIDENCE)
    value, low, high = median(ratios), ratios[lowest - 1], ratios[highest - 1]
    source = (
        f"placer profile --framework {framework}: {len(ratios)} pairs of cycles of {what}, "
        f"plain over {framework} seconds"
    )
    if high > 1:
        source += f"; measured {value:.3f} ({low:.3f} to {high:.3f}), cut to 1"
    if low > 1:
        low = 1 / high
        source += ": the machine was disturbed, measure again"
    return Efficiency(
        framework=framework,
        value=min(1.0, value),
        low=low,
        high=min(1.0, high),
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
    alone: Cycle, together: Cycle, device: Any, seconds: float, progress: Callable[[float], None]
) -> tuple[list[float], list[float]]:
    """Time both cycles in turns, so that a slower or faster machine affects both alike.

    Which one goes first alternates.
    """
    for _ in range(WARM_UP):
        alone()
        together()
    times: tuple[list[float], list[float]] = ([], [])
    start, spent = time.perf_counter(), 0.0
    while (done := len(times[0])) < LEAST_PAIRS or (done < MOST_PAIRS and spent < seconds):
        order = ((0, alone), (1, together))
        for i, cycle in order if done % 2 == 0 else order[::-1]:
            times[i].append(_seconds(cycle, device))
        spent = time.perf_counter() - start
        progress(min(1.0, max((done + 1) / MOST_PAIRS, spent / seconds if seconds > 0 else 1.0)))
    progress(1.0)
    return times


def _seconds(cycle: Cycle, device: Any) -> float:
    """Measure the wall-clock seconds of one cycle, with all work that it queued on the device."""
    watch = stopwatch(device)
    watch.wait()
    start = time.perf_counter()
    cycle()
    watch.wait()
    return time.perf_counter() - start
