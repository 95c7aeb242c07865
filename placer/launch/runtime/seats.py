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
    each += [1] * hubs
    machines = [*(group.machines for group in by_worker), *[1] * hubs]
    members = [count * n for count, n in zip(machines, each, strict=True)]
    seats: list[Seat] = []
    for world, ranks in enumerate(
        [*worlds, *((rank,) for rank in range(len(by_worker), len(each)))]
    ):
        places = [(rank, member) for rank in ranks for member in range(members[rank])]
        seats += [
            Seat(
                process=sum(members[:rank]) + member,
                rank=rank,
                member=member,
                members=members[rank],
                machine=sum(machines[:rank]) + member // each[rank],
                world=world,
                world_rank=world_rank,
                world_size=len(places),
                each=each[rank],
            )
            for world_rank, (rank, member) in enumerate(places)
        ]
    return tuple(seats)
