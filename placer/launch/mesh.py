"""The mesh of a launch: which machines join one `torch.distributed`, how its ranks divide a model
and the batch, and who exchanges between such worlds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, fsum
from typing import Literal

from placer.documents.manifest.types import Group, Manifest, groups_by_worker
from placer.errors import PlacerError
from placer.market.catalog import OLD_TRANSPORT
from placer.problem.exchange import traits
from placer.records import replace
from placer.workload.engines import ENGINES
from placer.workload.inner_plan import InnerPlan


def weights(groups: Sequence[Group], strategy: str) -> dict[int, float]:
    """Return the relative part of each worker in a step, not normalised: by its samples/s where the
    division of the strategy times the round so (`placer.cost_model.timing.round_seconds`). An early
    manifest knows no speeds. Where data has its place, the workers of a place share what lies
    there.
    """
    workers = groups_by_worker(groups)
    known = all(group.samples_per_second for group in workers)
    adaptive = traits(strategy).division == "adaptive" and known
    speeds = [(group.samples_per_second or 1.0) if adaptive else 1.0 for group in workers]
    if any(group.data.place_share is None for group in workers):
        return dict(enumerate(speeds))
    whole: dict[str, float] = defaultdict(float)
    for group, speed in zip(workers, speeds, strict=True):
        whole[group.place] += speed
    return {
        rank: (group.data.place_share or 0.0) * speed / whole[group.place]
        for rank, (group, speed) in enumerate(zip(workers, speeds, strict=True))
    }


def apportioned(batch: int, parts: Mapping[int, float]) -> dict[int, int]:
    """Apportion whole samples by largest remainders: they add up to the batch, none is off by a
    sample or more, and ties go to the first ranks.

    Speeds 3 and 1: 7.5 and 2.5 of ten, the half goes to the first.

    >>> apportioned(10, {0: 3.0, 1: 1.0}), apportioned(10, {0: 1.0, 1: 1.0, 3: 1.0})
    ({0: 8, 1: 2}, {0: 4, 1: 3, 3: 3})
    """
    total = fsum(parts.values())
    exact = {
        rank: batch * part / total if total else batch / len(parts) for rank, part in parts.items()
    }
    shares = {rank: floor(samples) for rank, samples in exact.items()}
    most = sorted(exact, key=lambda rank: (shares[rank] - exact[rank], rank))
    for rank in most[: batch - sum(shares.values())]:
        shares[rank] += 1
    return shares


Between = Literal["", "torchft", "hivemind", "placer"]
BY_REGION = ("leaders", "region-hub", "region-gossip")
"""Transports that average inside a region after each step, and otherwise between regions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machines:
    """Machines of a group in a row, by rank in the plan; each has a process a GPU, or one."""

    group: str
    rank: int
    count: int
    processes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """The processes that one torchrun joins, machine by machine and GPU by GPU.

    ``pp``, ``dp_replicate``, ``dp_shard``, ``cp`` and ``tp`` are the degrees of the device mesh,
    outermost first: stages, copies of the model, ranks that share one copy, a sequence, a matrix.
    Their product is `size`, as in torchtitan and Megatron. Rank ``r`` of a stage takes ``samples[r
    // (cp * tp)]`` in one optimizer step.
    """

    workers: tuple[int, ...]
    machines: tuple[Machines, ...]
    pp: int
    dp_replicate: int
    dp_shard: int
    cp: int
    tp: int
    samples: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return the number of processes."""
        return sum(row.count * row.processes for row in self.machines)

    @property
    def machine_count(self) -> int:
        """Return the number of machines."""
        return sum(row.count for row in self.machines)

    @property
    def first(self) -> int:
        """Return the machine that the others meet at, by its rank among all of the plan."""
        return self.machines[0].rank


@dataclass(frozen=True, kw_only=True, slots=True)
class Mesh:
    """The worlds of a launch, in the order of machines; a parameter server and functions are in
    none.

    ``between`` exchanges between worlds: torchft, hivemind (where it was priced), placer's own
    runtime, or nobody. ``backend`` moves tensors inside a world: nccl, or gloo where a machine has
    no GPU or gloo was priced. ``why`` says what makes several worlds of it.
    """

    worlds: tuple[World, ...]
    between: Between
    backend: str
    why: str = ""

    @property
    def samples(self) -> int:
        """Return the samples of an optimizer step over all worlds: the batch of the plan."""
        return sum(sum(world.samples) for world in self.worlds)

    def world_of(self, machine: int) -> World | None:
        """Return the world of a machine, by its rank; None: that of a parameter server."""
        for world in self.worlds:
            if any(row.rank <= machine < row.rank + row.count for row in world.machines):
                return world
        return None


def mesh_of(manifest: Manifest, processes: int = 0) -> Mesh:
    """Return the worlds that train what was priced, or for a rehearsal with so many ``processes``
    of each machine, which share no matrices.

    Gradients averaged after each step, as PyTorch sends them, make one world of all workers:
    islands too, as hybrid sharding (HSDP) with one copy of the model, or several, in each.
    Exchanges that average inside a region after each step have a world for each region, all others
    one for each worker. Workers that cannot be one device mesh, because their islands differ, are
    worlds of their own: placer averages their gradients. Stages that ranks in the order of `World`
    would tear apart are refused.
    """
    if processes:
        for group in manifest.groups:
            _check_undivided(group)
        manifest = replace(manifest, groups=[_with(group, processes) for group in manifest.groups])
    groups = groups_by_worker(manifest.groups)
    exchange, everyone = manifest.exchange, range(len(groups))
    shares = apportioned(exchange.target_batch_size, weights(manifest.groups, exchange.strategy))
    why = _why_several(manifest) if len(groups) > 1 else ""
    if len(groups) > 1 and not why:
        _check_stages(manifest)
    joined = [tuple(everyone)] if not why else [(worker,) for worker in everyone]
    if why and traits(exchange.strategy).transport in BY_REGION:
        joined = [ranks for _, ranks in regions_of(group.place for group in groups)]
    slow = any(group.on_cpu for group in groups) or priced_software(manifest) == "gloo"
    return Mesh(
        worlds=tuple(_world(manifest, workers, shares) for workers in joined),
        between=_between(manifest) if why else "",
        backend="gloo" if slow else "nccl",
        why=why,
    )


def _check_undivided(group: Group) -> None:
    if group.inner is not None and group.inner.divides_more:
        raise PlacerError(
            f"processes that stand for whole machines divide no model, and group {group.name} "
            f"works by {group.inner.spec[1:]}",
            "use --to torchtitan or megatron, or --to torchrun with a script that divides it",
        )


def _check_stages(manifest: Manifest) -> None:
    """Refuse workers with stages in one world where the ranks of `World` would tear these apart:
    rank by rank it has the first stage of all workers, then the second.
    """
    for group in manifest.groups:
        stages = 1 if group.inner is None else group.inner.pipeline
        if stages > 1 and (group.machines % stages or len({g.place for g in manifest.groups}) > 1):
            raise PlacerError(
                f"one world of several workers needs stages of whole machines in one place, and "
                f"group {group.name} has {stages} on {group.machines} machines",
                "plan with --workers 1, or with --exchange diloco",
            )


def priced_software(manifest: Manifest) -> str:
    """Return the software that averages were priced with; empty without a question."""
    question = manifest.question
    if question is None:
        return ""
    book = {row["setting"]: row["value"] for row in question["catalog"].get("settings", ())}
    return str(question["requirements"].get("transport") or book.get("transport", OLD_TRANSPORT))


def _why_several(manifest: Manifest) -> str:
    """Say what keeps the workers from being one world; empty: nothing."""
    lack = ENGINES["pytorch"].lack(manifest.exchange)
    if lack is not None:
        return f"PyTorch does not do {lack.part}"
    if len({_shape(group) for group in manifest.groups}) > 1:
        return "islands of unequal shape are no device mesh"
    return ""


def _between(manifest: Manifest) -> Between:
    is_priced = priced_software(manifest) == "hivemind" and not manifest.has_islands
    if is_priced and not ENGINES["hivemind"].lack(manifest.exchange):
        return "hivemind"
    return "placer" if ENGINES["torchft"].lack(manifest.exchange) else "torchft"


def _shape(group: Group) -> tuple[object, ...]:
    """Return what must be equal for one device mesh. Without sharding every GPU has a copy of its
    own, with hybrid sharding every machine, and else every island.
    """
    inner = group.inner or InnerPlan()
    alike = replace(inner, checkpointing="none", microbatch=1, software="")
    if inner.sharding == "none" and inner.pipeline == 1:
        return (alike,)
    machines = 1 if inner.sharding == "hybrid" else group.machines
    return alike, machines, processes_of(group)


def regions_of(places: Iterable[str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """List the places with the ranks of their workers.

    >>> regions_of(["US", "EU", "US"])
    (('US', (0, 2)), ('EU', (1,)))
    """
    regions: dict[str, list[int]] = {}
    for rank, place in enumerate(places):
        regions.setdefault(place, []).append(rank)
    return tuple((place, tuple(ranks)) for place, ranks in regions.items())


def _with(group: Group, processes: int) -> Group:
    inner = group.inner and replace(group.inner, tensor_parallel=1)
    offer = replace(group.offer, gpu_count=processes)
    return replace(group, offer=offer, inner=inner)


def _world(manifest: Manifest, workers: tuple[int, ...], shares: dict[int, int]) -> World:
    groups = groups_by_worker(manifest.groups)
    inner = groups[workers[0]].inner or InnerPlan()
    samples: list[int] = []
    for worker in workers:
        ranks = _data_parallel(groups[worker])
        samples += apportioned(shares[worker], dict.fromkeys(range(ranks), 1.0)).values()
    first = groups[workers[0]]
    in_stage = processes_of(first) * first.machines // max(first.machines, inner.pipeline)
    shard = {
        "none": 1,
        "zero-1": 1,
        "hybrid": in_stage // (inner.tensor_parallel * inner.context_parallel),
    }.get(inner.sharding, _data_parallel(first))
    return World(
        workers=workers,
        machines=_rows(manifest, workers),
        pp=inner.pipeline,
        dp_replicate=len(samples) // shard,
        dp_shard=shard,
        cp=inner.context_parallel,
        tp=inner.tensor_parallel,
        samples=tuple(samples),
    )


def _rows(manifest: Manifest, workers: tuple[int, ...]) -> tuple[Machines, ...]:
    rows, first = [], 0
    for group in manifest.groups:
        inside = [worker - first for worker in workers if first <= worker < first + group.count]
        if inside:
            rows.append(
                Machines(
                    group=group.name,
                    rank=group.rank_offset + inside[0] * group.machines,
                    count=len(inside) * group.machines,
                    processes=processes_of(group),
                )
            )
        first += group.count
    return tuple(rows)


def processes_of(group: Group) -> int:
    """Return the processes of a machine: one for each GPU."""
    return 1 if group.on_cpu else group.offer.gpu_count


def _data_parallel(group: Group) -> int:
    gpus = 1 if group.inner is None else group.inner.rank_gpus
    return group.machines * processes_of(group) // gpus
