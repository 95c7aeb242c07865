"""The plan of a run, from its manifest: ranks with their places, shares of the batch, exchange and
expected figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from placer.documents.manifest import read_manifest
from placer.documents.manifest.question import exchange_of
from placer.documents.manifest.runtime_support import check_executable
from placer.documents.manifest.types import (
    Bucket,
    Manifest,
    groups_by_worker,
)
from placer.errors import PlacerError
from placer.files.bounded_file import bounded
from placer.files.json_text import parse_json
from placer.launch.batch_shares import apportioned, weights
from placer.launch.mesh import mesh_of
from placer.launch.runtime.hubs import Hub, hubs_of
from placer.launch.runtime.seats import Seat, seats_of
from placer.launch.serverless.functions import functions_of
from placer.problem.exchange import Phase, strategy, traits
from placer.problem.placement import Exchange
from placer.workload.engines import MODELS
from placer.workload.inner_plan import InnerPlan

WRITE_MANIFEST = "give a file of placer recommend --manifest"
Engine = Literal["torch", "torchft", "placer"]


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """A manifest in the terms of the runtime.

    Parameters
    ----------
    manifest
        As it was read.
    places
        Place of each worker, by rank.
    worlds
        Workers of each world, whose processes PyTorch joins; see `placer.launch.mesh`.
    engine
        Who exchanges between workers: ``torch``, which averages the gradients of one world;
        ``torchft``, between worlds; or ``placer``.
    exchange
        Strategy, compression, local steps, streams, aggregator, storage.
    hubs
        Server or functions; their ranks come after the workers'.
    target_batch_size, microbatch
        Samples of an optimizer step over all workers; samples that one worker takes at once.
    quorum, grace_s
        As in the manifest; no quorum: exchanges wait for all.
    deployed
        The functions run in the cloud, and are no processes of this run.
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
        """Return the number of processes: workers, then hubs."""
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
        """List the places of the processes by rank, then of the object stores."""
        return (
            *self.places,
            *(hub.place for hub in self.hubs),
            *(bucket.place for bucket in self.buckets),
        )

    @property
    def steps_per_round(self) -> int:
        """Return the optimizer steps from exchange to exchange."""
        return self.exchange.local_steps

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
        """List the processes; see `placer.launch.runtime.seats.seats_of`."""
        return seats_of(self.manifest.groups, self.hub_processes, self.worlds, processes)

    def place_of(self, rank: int) -> str:
        """Return the place of a worker or of a hub."""
        return self.places[rank] if rank < self.workers else self.hub_at(rank).place

    def hub_at(self, rank: int) -> Hub:
        """Return the hub of a rank after the workers."""
        return self.hubs[rank - self.workers]

    def hub_over(self, rank: int) -> int:
        """Return the rank of the hub that gathers from a rank."""
        return self.workers + next(
            number for number, hub in enumerate(self.hubs) if rank in hub.gathers
        )

    def rank_name(self, rank: int) -> str:
        """Return the name of a rank in messages."""
        kind = f"{self.hub} rank" if rank >= self.workers else "rank"
        if rank < self.workers and groups_by_worker(self.manifest.groups)[rank].is_island:
            kind = "island"
        return f"{kind} {rank} ({self.place_of(rank)})"

    def phases(self, payload_bytes: float) -> tuple[Phase, ...]:
        """List the transfers of one round for a payload of some bytes, as in the cost model."""
        counted = [(place, len(ranks)) for place, ranks in self.regions]
        return (
            ()
            if self.workers == 1
            else strategy(self.exchange.strategy).phases(counted, payload_bytes, self.exchange)
        )

    def shares(self, batch: int) -> dict[int, int]:
        """Return the samples of each worker in one step, divided as in the plan's timing; see
        `placer.launch.batch_shares`.
        """
        return apportioned(batch, weights(self.manifest.groups, self.exchange.strategy))


def regions_of(places: Sequence[str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """List the places with the ranks of their workers.

    Examples
    --------
    >>> regions_of(["US", "EU", "US"])
    (('US', (0, 2)), ('EU', (1,)))
    """
    regions: dict[str, list[int]] = {}
    for rank, place in enumerate(places):
        regions.setdefault(place, []).append(rank)
    return tuple((place, tuple(ranks)) for place, ranks in regions.items())


def read_document(path: str) -> Any:
    """Read the JSON of a manifest file without checking it."""
    try:
        return parse_json(bounded(path, WRITE_MANIFEST))
    except (OSError, ValueError, RecursionError) as error:
        words = getattr(error, "strerror", None) or f"not valid JSON: {error}"
        raise PlacerError(f"cannot read '{path}': {words}", WRITE_MANIFEST) from None


def plan_from(document: Any, where: str, *, deployed: bool = False) -> RunPlan:
    """Build the plan of a manifest; see `RunPlan.deployed`."""
    manifest = read_manifest(document, where)
    check_executable(manifest, where)
    exchange = manifest.exchange
    places = tuple(group.place for group in manifest.groups for _ in range(group.count))
    worlds, engine = worlds_of(manifest)
    return RunPlan(
        manifest=manifest,
        places=places,
        worlds=worlds,
        engine=engine,
        exchange=exchange_of(manifest),
        hubs=hubs_of(manifest, regions_of(places), functions_of(manifest, document), where),
        deployed=deployed,
        target_batch_size=exchange.target_batch_size,
        microbatch=exchange.microbatch,
        quorum=exchange.quorum if manifest.workers > 1 else None,
        grace_s=exchange.grace_s or 0.0,
    )


def worlds_of(manifest: Manifest) -> tuple[tuple[tuple[int, ...], ...], Engine]:
    """Return the workers of each world of a plan, and who exchanges between them.

    Notes
    -----
    torchft exchanges models also where they are compressed, which placer does for it.
    """
    strategy = manifest.exchange.strategy
    if traits(strategy).hub in ("server", "function"):
        return tuple((rank,) for rank in range(manifest.workers)), "placer"
    mesh = mesh_of(manifest)
    worlds = tuple(world.workers for world in mesh.worlds)
    if not mesh.between:
        return worlds, "torch"
    return worlds, "torchft" if strategy in MODELS else "placer"
