"""The seats of a run: which process belongs to which worker, machine and GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placer.documents.manifest.types import Group, groups_by_worker


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """The place of one process in a run.

    Parameters
    ----------
    process
        Number among all processes of the run, from 0.
    rank
        Rank in the exchange: of the worker, or of the hub that the process is.
    member
        Number among the processes of its island; 0 is the island's first process.
    members
        Processes of its island; 1: a worker or a hub of one process.
    machines
        Machines of its island.
    machine
        Rank of its machine, as the manifest counts them; hubs come after the workers' machines.
    island_machine
        Number of its machine in the island.
    gpu
        Number among the processes of its machine.
    """

    process: int
    rank: int
    member: int
    members: int
    machines: int
    machine: int
    island_machine: int
    gpu: int


def seats_of(groups: Sequence[Group], hubs: int, processes: int) -> tuple[Seat, ...]:
    """List the seats of a run: worker by worker, machine by machine, GPU by GPU, then hubs.

    Parameters
    ----------
    hubs
        Servers or functions of the exchange.
    processes
        Of each machine of an island; 0: one for each of its GPUs. Other workers are one process.
    """
    seats: list[Seat] = []
    machine = 0
    workers = groups_by_worker(groups)
    for rank, group in enumerate(workers):
        each = processes_of(group, processes)
        for member in range(group.machines * each):
            seats.append(
                Seat(
                    process=len(seats),
                    rank=rank,
                    member=member,
                    members=group.machines * each,
                    machines=group.machines,
                    machine=machine + member // each,
                    island_machine=member // each,
                    gpu=member % each,
                )
            )
        machine += group.machines
    for hub in range(hubs):
        seats.append(
            Seat(
                process=len(seats),
                rank=len(workers) + hub,
                member=0,
                members=1,
                machines=1,
                machine=machine + hub,
                island_machine=0,
                gpu=0,
            )
        )
    return tuple(seats)


def processes_of(group: Group, processes: int) -> int:
    """Return the processes of one machine of a group; see `seats_of`."""
    return (processes or group.offer.gpu_count) if group.is_island else 1


def are_alike(groups: Sequence[Group], processes: int) -> bool:
    """Return whether all workers are islands that cut the model alike: then equal processes of two
    islands hold equal parts of it.
    """
    return len({_cut(group, processes) for group in groups}) == 1 and groups[0].is_island


def _cut(group: Group, processes: int) -> tuple[object, ...]:
    sharding = "none" if group.inner is None else group.inner.sharding
    return group.is_island, group.machines, processes_of(group, processes), sharding
