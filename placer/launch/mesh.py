"""The mesh of a launch: which machines join one `torch.distributed`, how its ranks divide a model
and the batch, and who exchanges between such worlds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from placer.documents.manifest.types import Group, Manifest, groups_by_worker
from placer.errors import PlacerError
from placer.launch.batch_shares import apportioned, weights
from placer.market.catalog import OLD_TRANSPORT
from placer.problem.exchange import traits
from placer.records import replace
from placer.workload.inner_plan import InnerPlan

Between = Literal["", "torchft", "hivemind", "placer"]
ENGINES: dict[Between, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": (("all-reduce",), ("none", "fp16")),
    "torchft": (("local-sgd", "diloco", "streaming-diloco"), ("none",)),
    "hivemind": (("all-reduce", "local-sgd"), ("none", "fp16", "int8")),
}
"""Exchanges of each engine and how it compresses them; placer's own runtime does all others.

Notes
-----
Nothing between worlds: PyTorch averages gradients in 4 bytes, or in 2 by DDP's hook
``fp16_compress_hook`` and ``reduce_dtype`` of FSDP2 (2.13). torchft (0.2) averages parameters as
they are; its quantization is of FP8, which placer does not price. hivemind (1.1) has the classes of
`placer.launch.export.targets.hivemind`.
"""
BY_REGION = ("leaders", "region-hub", "region-gossip")
"""Transports that average inside a region after each step, and otherwise between regions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machines:
    """Machines of one group in a row.

    Parameters
    ----------
    group
        Name of the group.
    rank
        Of the first, among all machines of the plan.
    processes
        Of each machine: one a GPU; one on a machine without.
    """

    group: str
    rank: int
    count: int
    processes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """The processes that one torchrun joins; rank 0 is on the first machine.

    Parameters
    ----------
    workers
        Numbers of the plan's workers in it.
    machines
        In the order of ranks: machine by machine, GPU by GPU.
    dp_replicate, dp_shard, tp
        Degrees of the device mesh, outermost first: copies of the model, ranks that share one copy,
        ranks that share each matrix. Their product is `size`.
    samples
        Of each data-parallel rank in one optimizer step, whole; rank ``r`` of the world has
        ``samples[r // tp]``.
    """

    workers: tuple[int, ...]
    machines: tuple[Machines, ...]
    dp_replicate: int
    dp_shard: int
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
    """The worlds of a launch.

    Parameters
    ----------
    worlds
        In the order of machines. A parameter server and functions are in none.
    between
        Who exchanges between worlds: torchft, hivemind (where it was priced), placer's own runtime,
        or nobody, as one world needs none.
    backend
        What moves tensors inside a world: nccl; gloo where a machine has no GPU or gloo was priced.
    why
        What makes several worlds of it; empty of one.
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
    """Return the worlds that train what was priced.

    Parameters
    ----------
    processes
        Of each machine, for a rehearsal: they share no matrices. 0: one for each GPU.

    Notes
    -----
    Gradients averaged after each step, as PyTorch sends them, make one world of all workers:
    islands too, as hybrid sharding (HSDP) with one copy of the model, or several, in each.
    Exchanges that average inside a region after each step have a world for each region, all others
    one for each worker. Workers that cannot be one device mesh, because their islands differ, are
    worlds of their own: placer averages their gradients.
    """
    for group in manifest.groups:
        _check_divided(group)
    if processes:
        manifest = replace(manifest, groups=[_with(group, processes) for group in manifest.groups])
    groups = groups_by_worker(manifest.groups)
    exchange, everyone = manifest.exchange, range(len(groups))
    shares = apportioned(exchange.target_batch_size, weights(manifest.groups, exchange.strategy))
    why = _why_several(manifest) if len(groups) > 1 else ""
    joined = [tuple(everyone)] if not why else [(worker,) for worker in everyone]
    if why and traits(exchange.strategy).transport in BY_REGION:
        joined = _regions(groups)
    slow = any(group.on_cpu for group in groups) or priced_software(manifest) == "gloo"
    return Mesh(
        worlds=tuple(_world(manifest, workers, shares) for workers in joined),
        between=_between(manifest) if why else "",
        backend="gloo" if slow else "nccl",
        why=why,
    )


def _check_divided(group: Group) -> None:
    """Refuse plans whose degrees no target is told: their files would train something else."""
    inner = group.inner
    if inner is None or (inner.rank_gpus == inner.tensor_parallel and inner.expert_parallel == 1):
        return
    raise PlacerError(
        f"no target is told of stages, divided experts or divided sequences, and group "
        f"{group.name} works by {inner.spec[1:]}",
        "start it with Megatron or torchtitan by hand: the plan stands in the manifest",
    )


def does(engine: Between, manifest: Manifest) -> bool:
    """Return whether an engine has the exchange of a manifest with its compression."""
    exchange = manifest.exchange
    strategies, compressions = ENGINES[engine]
    return exchange.strategy in strategies and exchange.compression in compressions


def priced_software(manifest: Manifest) -> str:
    """Return the software that a plan's average inside a zone was priced with: nccl, gloo, hivemind
    or, where an early manifest does not say it, an empty text.
    """
    question = manifest.question
    if question is None:
        return ""
    book = {row["setting"]: row["value"] for row in question["catalog"].get("settings", ())}
    return str(question["requirements"].get("transport") or book.get("transport", OLD_TRANSPORT))


def _why_several(manifest: Manifest) -> str:
    """Say what keeps the workers from being one world; empty: nothing."""
    exchange = manifest.exchange
    strategies, compressions = ENGINES[""]
    if exchange.strategy not in strategies:
        return f"the exchange is {exchange.strategy}"
    if exchange.compression not in compressions:
        return f"PyTorch does not average in {exchange.compression}"
    if len({_shape(group) for group in manifest.groups}) > 1:
        return "islands of unequal shape are no device mesh"
    return ""


def _between(manifest: Manifest) -> Between:
    priced = priced_software(manifest) == "hivemind" and not manifest.has_islands
    if priced and does("hivemind", manifest):
        return "hivemind"
    return "torchft" if does("torchft", manifest) else "placer"


def _shape(group: Group) -> tuple[object, ...]:
    """Return what must be equal for one device mesh. Without sharding every GPU has a copy of its
    own, with hybrid sharding every machine, and else every island.
    """
    inner = group.inner or InnerPlan()
    alike = (inner.sharding, inner.tensor_parallel, inner.precision)
    if inner.sharding == "none":
        return alike
    machines = 1 if inner.sharding == "hybrid" else group.machines
    return *alike, machines, processes_of(group)


def _regions(groups: tuple[Group, ...]) -> list[tuple[int, ...]]:
    places = dict.fromkeys(group.place for group in groups)
    return [
        tuple(worker for worker, group in enumerate(groups) if group.place == place)
        for place in places
    ]


def _with(group: Group, processes: int) -> Group:
    """Return a group whose machines have some processes, and do not share matrices."""
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
    shard = {
        "none": 1,
        "zero-1": 1,
        "hybrid": processes_of(groups[workers[0]]) // inner.tensor_parallel,
    }.get(inner.sharding, _data_parallel(groups[workers[0]]))
    return World(
        workers=workers,
        machines=_rows(manifest, workers),
        dp_replicate=len(samples) // shard,
        dp_shard=shard,
        tp=inner.tensor_parallel,
        samples=tuple(samples),
    )


def _rows(manifest: Manifest, workers: tuple[int, ...]) -> tuple[Machines, ...]:
    """List the machines of some workers, those of one group together."""
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
    """Return the ranks of a worker that take samples of their own."""
    degree = 1 if group.inner is None else group.inner.tensor_parallel
    return group.machines * processes_of(group) // degree
