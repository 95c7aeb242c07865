"""The plan of a run, from its manifest: ranks with places, seats and hubs, and the exchange; and
the settings of a run, which no manifest has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from placer.cost_model.timing.services import POLL_SECONDS
from placer.documents.manifest import read_manifest
from placer.documents.manifest.types import (
    Bucket,
    Manifest,
    check_executable,
    exchange_of,
    groups_by_worker,
)
from placer.errors import PlacerError
from placer.launch.mesh import (
    apportioned,
    mesh_of,
    priced_software,
    processes_of,
    regions_of,
    weights,
)
from placer.launch.serverless.functions import CloudFunction, functions_of
from placer.market.catalog import OLD_TRANSPORT
from placer.problem.exchange import Phase, strategy, traits
from placer.problem.placement import Exchange
from placer.records import replace
from placer.workload.engines import MODELS
from placer.workload.inner_plan import InnerPlan

Engine = Literal["torch", "torchft", "placer"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run that the manifest does not hold: the options of ``placer run``
    (`placer.cli.launch.run.Options`), checked and completed. Microbatch, threads, device and
    checkpoints that are 0 or empty are the plan's, PyTorch's own choice, the first GPU or else the
    CPU, and none.

    ``may_begin``: resume where there is something to resume. A peer that does not answer for
    ``timeout_s`` is lost; all processes come within ``join_s``. ``endpoints``: addresses of object
    stores by bucket, before ``endpoint_url``. ``processes``: of each machine; 0: one for each GPU.
    """

    train: str
    steps: int
    seed: int = 0
    target_batch_size: int
    microbatch: int = 0
    checkpoints: str = ""
    checkpoint_every: int = 100
    resume: bool = False
    may_begin: bool = False
    device: str = "cpu"
    threads: int = 1
    timeout_s: float = 60.0
    join_s: float = 120.0
    endpoint_url: str = ""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    poll_s: float = POLL_SECONDS
    deployed: bool = False
    processes: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """The place of one process in a run.

    ``process`` counts all processes, worker by worker; hubs are the last. ``rank`` is that of its
    worker in the exchange, or of the hub that it is, and ``member`` counts the processes of the
    worker. ``machine`` is counted as in the manifest, hubs after the workers'. A hub is a world of
    its own. ``each``: the processes of each machine of its worker.
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


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A parameter server or cloud function, which sums the gradients of some ranks."""

    place: str
    gathers: tuple[int, ...]
    function: CloudFunction | None = None

    @property
    def bucket(self) -> Bucket | None:
        """Return the bucket into which they put them; None: a server, which is sent them."""
        return None if self.function is None else self.function.source


def _hubs(
    manifest: Manifest,
    regions: Sequence[tuple[str, tuple[int, ...]]],
    functions: Sequence[CloudFunction],
    where: str,
) -> tuple[Hub, ...]:
    """List the hubs by rank, after the workers: a function of each region, then the global one."""
    workers = tuple(range(manifest.workers))
    if traits(manifest.exchange.strategy).hub == "server" and manifest.aggregator is not None:
        return (Hub(place=manifest.aggregator.place, gathers=workers),)
    if not functions:
        return ()
    *sums, last = functions
    by_place = {function.place: function for function in sums}
    hubs = []
    for place, ranks in regions if sums else ():
        if place not in by_place:
            raise PlacerError(
                f"{where}: no bucket of the workers in {place}", "write it again with --manifest"
            )
        hubs.append(Hub(place=place, gathers=ranks, function=by_place[place]))
    gathers = tuple(range(len(workers), len(workers) + len(hubs))) or workers
    return (*hubs, Hub(place=last.place, gathers=gathers, function=last))


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A manifest in the terms of the runtime.

    ``places`` are those of the workers, by rank; ``worlds`` the workers whose processes PyTorch
    joins (`placer.launch.mesh`). ``engine`` exchanges between workers: ``torch``, which averages
    the gradients of one world; ``torchft``, between worlds; or ``placer``. Ranks of ``hubs`` come
    after the workers'. Without a ``quorum`` exchanges wait for all. ``deployed``: the functions run
    in the cloud, and are no processes of this run.
    """

    manifest: Manifest
    places: tuple[str, ...]
    worlds: tuple[tuple[int, ...], ...]
    engine: Engine
    exchange: Exchange
    hubs: tuple[Hub, ...]
    target_batch_size: int
    microbatch: int
    quorum: int | None = None
    grace_s: float = 0.0
    deployed: bool = False

    @property
    def name(self) -> str:
        """Return the name of the manifest."""
        return self.manifest.name

    @cached_property
    def backend(self) -> str:
        """Return what moves tensors inside a world on the plan's machines: nccl or gloo."""
        return mesh_of(self.manifest).backend

    @property
    def workers(self) -> int:
        """Return the number of workers."""
        return len(self.places)

    @property
    def hub(self) -> str:
        """Return ``server`` or ``function`` if the strategy needs a hub, else an empty text."""
        return traits(self.exchange.strategy).hub if self.hubs else ""

    @property
    def ranks(self) -> int:
        """Return the number of workers and hubs that are processes of this run."""
        return self.workers + self.hub_processes

    @property
    def hub_processes(self) -> int:
        """Return the number of hubs that are processes of this run."""
        return 0 if self.deployed else len(self.hubs)

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """List the buckets of the object stores, in the order of the functions that read them."""
        return tuple(hub.bucket for hub in self.hubs if hub.bucket is not None)

    @property
    def machines(self) -> tuple[str, ...]:
        """List the places of workers and hubs by rank, then of the object stores."""
        hubs = [hub.place for hub in self.hubs]
        return (*self.places, *hubs, *(bucket.place for bucket in self.buckets))

    @property
    def regions(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """List the places with the ranks of their workers; the first rank of each is its leader."""
        return regions_of(self.places)

    @property
    def machine_ranks(self) -> int:
        """Return the number of machines as the manifest counts them, hubs at the end."""
        return sum(group.machine_count for group in self.manifest.groups) + self.hub_processes

    def inner_of(self, rank: int) -> InnerPlan | None:
        """Return the inner plan of a worker; None: it has none, or is a hub."""
        return groups_by_worker(self.manifest.groups)[rank].inner if rank < self.workers else None

    def seats(self, processes: int) -> tuple[Seat, ...]:
        """List the seats by world and rank: of each machine so many processes, 0: one a GPU."""
        by_worker, hubs = groups_by_worker(self.manifest.groups), self.hub_processes
        each = [processes or processes_of(group) for group in by_worker] + [1] * hubs
        machines = [group.machines for group in by_worker] + [1] * hubs
        members = [count * n for count, n in zip(machines, each, strict=True)]
        seats: list[Seat] = []
        alone = [(rank,) for rank in range(self.workers, self.ranks)]
        for world, ranks in enumerate([*self.worlds, *alone]):
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

    def place_of(self, rank: int) -> str:
        """Return the place of a worker or of a hub."""
        return self.machines[rank]

    def hub_at(self, rank: int) -> Hub:
        """Return the hub of a rank after the workers."""
        return self.hubs[rank - self.workers]

    def hub_over(self, rank: int) -> int:
        """Return the rank of the hub that gathers from a rank."""
        over = (number for number, hub in enumerate(self.hubs) if rank in hub.gathers)
        return self.workers + next(over)

    def rank_name(self, rank: int) -> str:
        """Return the name of a rank in messages."""
        kind = f"{self.hub} rank" if rank >= self.workers else "rank"
        if rank < self.workers and groups_by_worker(self.manifest.groups)[rank].is_island:
            kind = "island"
        return f"{kind} {rank} ({self.place_of(rank)})"

    def phases(self, payload_bytes: float) -> tuple[Phase, ...]:
        """List the transfers of one round for a payload of some bytes, as in the cost model."""
        if self.workers == 1:
            return ()
        counted = [(place, len(ranks)) for place, ranks in self.regions]
        return strategy(self.exchange.strategy).phases(counted, payload_bytes, self.exchange)

    def shares(self, batch: int) -> dict[int, int]:
        """Return the samples of each worker in one step, divided as in the plan's timing."""
        return apportioned(batch, weights(self.manifest.groups, self.exchange.strategy))


def plan_from(document: Any, where: str, *, deployed: bool = False) -> RunPlan:
    """Build the plan of a manifest; see `RunPlan.deployed`."""
    manifest = read_manifest(document, where)
    check_executable(manifest, where)
    exchange = manifest.exchange
    places = tuple(group.place for group in groups_by_worker(manifest.groups))
    worlds, engine = _worlds(manifest)
    return RunPlan(
        manifest=manifest,
        places=places,
        worlds=worlds,
        engine=engine,
        exchange=replace(
            exchange_of(manifest), transport=priced_software(manifest) or OLD_TRANSPORT
        ),
        hubs=_hubs(manifest, regions_of(places), functions_of(manifest, document), where),
        deployed=deployed,
        target_batch_size=exchange.target_batch_size,
        microbatch=exchange.microbatch,
        quorum=exchange.quorum if manifest.workers > 1 else None,
        grace_s=exchange.grace_s or 0.0,
    )


def _worlds(manifest: Manifest) -> tuple[tuple[tuple[int, ...], ...], Engine]:
    """Return the workers of each world, and who exchanges; placer compresses for torchft."""
    if traits(manifest.exchange.strategy).hub in ("server", "function"):
        return tuple((rank,) for rank in range(manifest.workers)), "placer"
    mesh = mesh_of(manifest)
    worlds = tuple(world.workers for world in mesh.worlds)
    if not mesh.between:
        return worlds, "torch"
    return worlds, "torchft" if manifest.exchange.strategy in MODELS else "placer"
