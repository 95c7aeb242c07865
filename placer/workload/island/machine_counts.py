"""How many machines of an offer an island may have."""

from __future__ import annotations

from functools import lru_cache

from placer.market.catalog import Gpu
from placer.workload.architecture import Architecture
from placer.workload.island.plans import Island, island
from placer.workload.island.wishes import FREE, PlanWishes

MOST_ISLAND_MACHINES = 16
"""Machines of one island where the book names no limit; assumed."""
WORTHWHILE = 1.01
"""Gain of the rate of each machine for which an island of more machines is offered."""


@lru_cache(maxsize=2**13)
def machine_counts(
    architecture: Architecture,
    gpu: Gpu,
    gpu_count: int,
    network_gbps: float | None,
    fabric: str,
    wishes: PlanWishes = FREE,
    batch_sequences: int = 1,
    transport_name: str = "nccl",
    *,
    most: int = MOST_ISLAND_MACHINES,
    all_counts: bool = False,
) -> tuple[int, ...]:
    """List the machines that an island of an offer may have; empty if the model fits none.

    Parameters
    ----------
    architecture, gpu, gpu_count, network_gbps, fabric, wishes, batch_sequences, transport_name
        As for `island`.
    most
        Most machines of one island.
    all_counts
        List every power of two that fits: for local steps, or where the user asks for a count.

    Notes
    -----
    The smallest power of two that fits, and each larger one whose machines are each more than 1 %
    faster than in every smaller island: several small islands do the rest as well.
    """
    counts, best = [], 0.0
    for machines in powers_of_two(most):
        answer = island(
            architecture,
            gpu,
            gpu_count,
            network_gbps,
            fabric,
            machines,
            wishes,
            batch_sequences
            if all_counts
            else equal_share(batch_sequences, gpu_count, machines, most),
            transport_name,
        )
        if isinstance(answer, Island):
            each = answer.samples_per_second / machines
            if all_counts or each > best * WORTHWHILE:
                counts.append(machines)
            best = max(best, each)
        elif machines > 1 and answer.code == "network":
            break
    return tuple(counts)


def powers_of_two(most: int) -> list[int]:
    """List 1, 2, 4 ... up to ``most``."""
    return [2**i for i in range(most.bit_length())]


def equal_share(batch: int, gpu_count: int, machines: int, most: int) -> int:
    """Return the sequences of an island where each machine of the largest has as many.

    Notes
    -----
    Many small islands and a few large ones divide a batch over the same machines: they are
    compared with the same share of each machine, one sequence a device at least.
    """
    each = max(batch // powers_of_two(most)[-1], gpu_count)
    return min(batch, each * machines)
