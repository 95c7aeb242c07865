"""Measure how long stages wait: blocks that sleep instead of calculating, on processes of this
machine, beside the formula of placer/workload/island/divisions.py.

    python tests/benchmarks/stages.py

Blocks sleep 20 ms forward and 40 ms backward, so that one core is enough. Prints for each plan the
seconds of a step, those of the formula, and their ratio.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from train_stages import WIDTH, pieces, staged

from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import bubble

FORWARD_S, BACKWARD_S = 0.02, 0.04
BLOCKS, STEPS = 8, 3
PLANS = ((4, 1, 8), (4, 2, 8), (4, 1, 16), (2, 1, 8), (2, 4, 8))
"""Stages, pieces of each, microbatches."""


class _Sleep(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        time.sleep(FORWARD_S)
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(BACKWARD_S)
        return gradient


class Block(torch.nn.Module):  # type: ignore[misc]
    """A layer that sleeps."""

    def __init__(self, number: int) -> None:
        """Give it one parameter."""
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale the input, and sleep."""
        slept: torch.Tensor = _Sleep.apply(x * self.scale)
        return slept


def train(rank: int, stages: int, cut: int, microbatches: int, port: int, told: Any) -> None:
    """Train some steps in one process; the first also tells the seconds of the fastest."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=stages)
    model = pieces([BLOCKS // (stages * cut)] * (stages * cut), Block)
    schedule = staged(model, rank, stages, microbatches)
    x = torch.ones(microbatches, WIDTH)
    seconds = []
    for _ in range(STEPS):
        dist.barrier()
        began = time.perf_counter()
        schedule.step(*([x] if rank == 0 else []), **({"target": x} if rank == stages - 1 else {}))
        dist.barrier()
        seconds.append(time.perf_counter() - began)
    if rank == 0:
        told.put(min(seconds))
    dist.destroy_process_group()


def main() -> None:
    """Print a row for each plan."""
    print("stages  pieces  microbatches  measured s  formula s  ratio")
    for number, (stages, cut, microbatches) in enumerate(PLANS):
        told = mp.get_context("spawn").SimpleQueue()
        mp.spawn(train, (stages, cut, microbatches, 29510 + number, told), nprocs=stages)
        plan = InnerPlan(sharding="zero-1", pipeline=stages, virtual_stages=cut)
        work_s = microbatches * BLOCKS / stages * (FORWARD_S + BACKWARD_S)
        formula_s, measured_s = work_s * (1 + bubble(plan, microbatches)), told.get()
        print(
            f"{stages:6} {cut:7} {microbatches:13} {measured_s:11.3f} {formula_s:10.3f} "
            f"{measured_s / formula_s:6.3f}"
        )


if __name__ == "__main__":
    main()
