"""Measure how well `placer profile` measures: against a plain training loop, and against itself.

    python tests/benchmarks/profiling.py

Run it on a quiet machine. It takes turns, so that a machine that gets slower affects both alike.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch

from placer.profiler.builtin import builtin
from placer.profiler.steps.statistics import MedianInterval
from placer.profiler.steps.timing import Effort, Stopwatch, Timing, measure, stopwatch
from placer.profiler.steps.training_step import TrainingStep
from placer.profiler.workload import Workload

MODELS = ("cnn-small", "transformer-small", "lstm")


class CpuTime(Stopwatch):
    """Seconds in which this process computed: what a machine that others use takes nothing away
    from.
    """

    def mark(self) -> float:
        """So far."""
        return time.process_time()


def profiled(
    workload: Workload, device: Any, watch: Stopwatch, batch_size: int, seconds: float
) -> tuple[float, MedianInterval]:
    """Samples/s as `placer profile` measures them, and the interval of a step's seconds."""
    timing = Timing(batch_size=batch_size)
    step = TrainingStep(workload, device, "fp32", batch_size)
    measure(step, watch, timing, Effort(half_width=0.0, seconds=seconds))
    return timing.samples_per_second, timing.interval


def by_hand(
    workload: Workload, device: Any, clock: Callable[[], float], batch_size: int, seconds: float
) -> float:
    """Return samples/s of a plain training loop: samples over seconds after a warm-up."""
    module, batch = workload.module.to(device), workload.batch(batch_size, device)
    optimizer = workload.optimizer(module.parameters())
    for group in optimizer.param_groups:
        group["lr"] = 1e-6
    samples, start, end = 0, 0.0, 0.0
    for step in range(10**9):
        if step == 3:
            wait(device)
            samples, start, end = 0, clock(), time.perf_counter() + seconds
        optimizer.zero_grad()
        workload.loss(module, batch).backward()
        optimizer.step()
        samples += batch_size
        if step > 3 and time.perf_counter() > end:
            break
    wait(device)
    return samples / (clock() - start)


def wait(device: Any) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count the process's own CPU time: for a machine that others use (CPU only)",
    )
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    device = torch.device(given.device)
    watch, clock = (
        (CpuTime(), time.process_time) if given.cpu_time else (stopwatch(device), time.perf_counter)
    )
    clock_words = "CPU time of the process" if given.cpu_time else "wall clock"
    print(f"{clock_words}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print(
        f"torch {torch.__version__}, {device}, {given.threads} threads, batch "
        f"{given.batch_size}, {given.rounds} x {given.seconds:g} s each"
    )
    print(
        f"{'model':18s} {'placer/s':>10s} {'by hand/s':>10s} {'ratio':>7s} {'± of one':>9s} "
        f"{'intervals that overlap':>23s}"
    )
    for name in given.models.split(","):
        workload = builtin(name)
        workload.module.to(device)
        measured, plain = [], []
        for number in range(given.rounds):
            for which in ("placer", "hand") if number % 2 == 0 else ("hand", "placer"):
                if which == "placer":
                    measured.append(
                        profiled(workload, device, watch, given.batch_size, given.seconds)
                    )
                else:
                    plain.append(by_hand(workload, device, clock, given.batch_size, given.seconds))
        ratio = statistics.median(m[0] / p for m, p in zip(measured, plain, strict=True))
        pairs = list(combinations([interval for _, interval in measured], 2))
        overlap = sum(a.low <= b.high and b.low <= a.high for a, b in pairs)
        rate, hand = statistics.median(m[0] for m in measured), statistics.median(plain)
        width = statistics.median(interval.half_width for _, interval in measured)
        print(
            f"{name:18s} {rate:10.2f} {hand:10.2f} {ratio:7.3f} {width:9.1%} {overlap:>13d} of "
            f"{len(pairs)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
