"""The seats of a run: which process belongs to which worker, world, machine and GPU."""

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
        Number among all processes of the run, worker by worker, from 0; hubs are the last.
    rank
        Rank in the exchange: of the worker, or of the hub that the process is.
    member, members
        Number among the processes of its worker, and how many these are.
    machine
        Rank of its machine, as the manifest counts them; hubs come after the workers' machines.
    world
        Number of the world that it joins; each hub is a world of its own.
    world_rank, world_size
        Its rank in that world, and the processes of the world.
    each
        Processes of each machine of its worker.
    """

    process: int
    rank: int
    member: int
    members: int
    machine: int
    world: int
    world_rank: int
    world_size: int
    each: int

    @property
    def leads(self) -> bool:
        """Return whether it speaks for its world."""
        return self.world_rank == 0


def seats_of(
    groups: Sequence[Group], hubs: int, worlds: Sequence[Sequence[int]], processes: int
) -> tuple[Seat, ...]:
    """List the seats of a run by world and by rank in it.

    Parameters
    ----------
    hubs
        Servers or functions of the exchange.
    worlds
        Workers of each world.
    processes
        Of each machine of the workers; 0: one for each of its GPUs.
    """
    by_worker = groups_by_worker(groups)
    each = [processes or (1 if group.on_cpu else group.offer.gpu_count) for group in by_worker]
    members = [group.machines * n for group, n in zip(by_worker, each, strict=True)]
    machines = [0]
    for group in by_worker:
        machines.append(machines[-1] + group.machines)
    seats: list[Seat] = []
    for number, workers in enumerate(worlds):
        places = [(worker, member) for worker in workers for member in range(members[worker])]
        seats += [
            Seat(
                process=sum(members[:worker]) + member,
                rank=worker,
                member=member,
                members=members[worker],
                machine=machines[worker] + member // each[worker],
                world=number,
                world_rank=world_rank,
                world_size=len(places),
                each=each[worker],
            )
            for world_rank, (worker, member) in enumerate(places)
        ]
    for hub in range(hubs):
        seats.append(
            Seat(
                process=sum(members) + hub,
                rank=len(by_worker) + hub,
                member=0,
                members=1,
                machine=machines[-1] + hub,
                world=len(worlds) + hub,
                world_rank=0,
                world_size=1,
                each=1,
            )
        )
    return tuple(seats)
