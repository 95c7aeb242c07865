"""The plan as environment variables, the same in every target: ``PLACER_`` and the names of the
manifest; and its parts that start together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass

from msgspec import convert

from placer.documents.manifest.types import Aggregator, Group, Manifest
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources.surroundings import EFA, fabric_of
from placer.launch.mesh import Mesh, mesh_of
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import piece_layers

SERVER = "server"
"""Name of the group that a parameter server's own machine makes."""
JOIN_S = 60.0
"""The lighthouse's own time for more worlds to join (torchft 0.2)."""


def run_environment(plan: ExportPlan, mesh: Mesh) -> dict[str, str]:
    """Return the variables that are the same on all machines."""
    manifest, exchange = plan.manifest, plan.manifest.exchange
    waits = exchange.timeouts
    return {
        "PLACER_RUN": manifest.name,
        "PLACER_MANIFEST_DIGEST": manifest.digest,
        "PLACER_MODEL": manifest.model.name,
        "PLACER_TRAIN": plan.train,
        "PLACER_WORKERS": str(manifest.workers),
        "PLACER_WORLDS": str(len(mesh.worlds)),
        "PLACER_BETWEEN": mesh.between,
        "PLACER_BACKEND": mesh.backend,
        "PLACER_SAMPLES": json.dumps([world.samples for world in mesh.worlds]),
        "PLACER_STRATEGY": exchange.strategy,
        "PLACER_TARGET_BATCH_SIZE": str(exchange.target_batch_size),
        "PLACER_MICROBATCH": str(exchange.microbatch),
        "PLACER_COMPRESSION": exchange.compression,
        "PLACER_STREAMS": str(exchange.streams),
        "PLACER_OVERLAP": str(int(exchange.overlap)),
        "PLACER_LOCAL_STEPS": str(exchange.local_steps),
        "PLACER_MATCHMAKING_S": f"{waits.matchmaking_s:g}",
        "PLACER_AVERAGING_TIMEOUT_S": f"{waits.averaging_s:g}",
        "PLACER_STEP_TIMEOUT_S": f"{waits.step_s:g}",
        "PLACER_ROUND_TIMEOUT_S": f"{waits.round_s:g}",
        "PLACER_JOIN_TIMEOUT_S": f"{manifest.rendezvous.join_s:g}",
        "PLACER_RENDEZVOUS": manifest.rendezvous.method,
        "PLACER_RENDEZVOUS_PORT": str(manifest.rendezvous.port),
        **_job(manifest),
        **_quorum(manifest, mesh),
        **_aggregator(manifest.aggregator),
        **_buckets(manifest),
        "PLACER_MIN_SAMPLES_PER_SECOND": f"{manifest.drift.min_samples_per_second:.6g}",
        "PLACER_MAX_USD_PER_HOUR": f"{manifest.drift.max_usd_per_hour:.6g}",
        "PLACER_MAX_ROUND_SECONDS": f"{manifest.drift.max_round_seconds:.6g}",
    }


def job_steps(manifest: Manifest) -> int | None:
    """Return the optimizer steps of the whole job, whole rounds of local steps at equal progress;
    None: the question said neither samples nor tokens.
    """
    samples = (manifest.question or {}).get("requirements", {}).get("samples")
    if samples is None:
        return None
    exchange, needed = manifest.exchange, samples * manifest.expected.samples_to_target.value
    rounds = math.ceil(needed / (exchange.target_batch_size * exchange.local_steps))
    return int(rounds * exchange.local_steps)


def _job(manifest: Manifest) -> dict[str, str]:
    steps = job_steps(manifest)
    return {} if steps is None else {"PLACER_JOB_STEPS": str(steps)}


def _quorum(manifest: Manifest, mesh: Mesh) -> dict[str, str]:
    """Return how many worlds torchft waits for, and how long its lighthouse for the others."""
    if mesh.between != "torchft":
        return {}
    exchange = manifest.exchange
    grace_s = JOIN_S if exchange.grace_s is None else exchange.grace_s
    return {
        "PLACER_QUORUM": str(exchange.quorum or len(mesh.worlds)),
        "PLACER_GRACE_MS": str(round(grace_s * 1000)),
    }


def _aggregator(aggregator: Aggregator | None) -> dict[str, str]:
    return (
        {}
        if aggregator is None
        else {"PLACER_AGGREGATOR": aggregator.kind, "PLACER_AGGREGATOR_PLACE": aggregator.place}
    )


def _buckets(manifest: Manifest) -> dict[str, str]:
    """Return the variables of the bucket where all meet; those of regions are of their groups."""
    if not manifest.buckets:
        return {}
    wait = manifest.exchange.timeouts.poll_s
    bucket = manifest.buckets[0]
    polling = {} if wait is None else {"PLACER_POLL_S": f"{wait:g}"}
    return {
        "PLACER_STORE": bucket.store,
        "PLACER_BUCKET": bucket.name,
        "PLACER_BUCKET_PLACE": bucket.place,
        **polling,
    }


def group_environment(group: Group, manifest: Manifest, mesh: Mesh) -> dict[str, str]:
    """Return the variables of one group."""
    buckets = {b.place: b.name for b in manifest.buckets if b.role == "workers"}
    data = group.data
    return {
        "PLACER_ROLE": "worker",
        "PLACER_GROUP": group.name,
        "PLACER_GROUP_SIZE": str(group.machine_count),
        "PLACER_RANK_OFFSET": str(group.rank_offset),
        "PLACER_PLACE": group.place,
        "PLACER_INSTANCE_TYPE": group.offer.instance_type,
        "PLACER_MARKET": group.offer.market,
        **({"PLACER_REGION_BUCKET": buckets[group.place]} if group.place in buckets else {}),
        **({} if data.store is None else {"PLACER_DATA_STORE": data.store}),
        **({} if data.place_share is None else {"PLACER_DATA_SHARE": f"{data.place_share:.9g}"}),
        **_world(group, mesh),
        **(EFA if fabric_of(group, manifest, mesh) == "efa" else {}),
        **({} if not group.is_island else _inner(group)),
        **(_divided(manifest, group.inner) if group.inner and group.inner.divides_more else {}),
    }


def _divided(manifest: Manifest, inner: InnerPlan) -> dict[str, str]:
    return {
        "PLACER_PIPELINE_PARALLEL": str(inner.pipeline),
        "PLACER_PIECE_LAYERS": " ".join(map(str, piece_layers(architecture_of(manifest), inner))),
        "PLACER_CONTEXT_PARALLEL": str(inner.context_parallel),
        "PLACER_EXPERT_PARALLEL": str(inner.expert_parallel),
    }


def architecture_of(manifest: Manifest) -> Architecture:
    """Return the dimensions of the model, which an early manifest does not have."""
    told = (manifest.question or {}).get("profile", {}).get("architecture")
    if told is None:
        raise PlacerError(
            "the manifest does not have the layers of the model and the length of its sequences",
            "write it again with placer recommend --manifest FILE",
        )
    return convert(told, Architecture)


def _world(group: Group, mesh: Mesh) -> dict[str, str]:
    """Return the world of the group's first machine, and how many of its machines are in each: the
    next ones of the group are in the next world.
    """
    world = mesh.world_of(group.rank_offset)
    assert world is not None
    inside = next(row for row in world.machines if row.group == group.name)
    return {
        "PLACER_PROCESSES": str(inside.processes),
        "PLACER_WORLD_OFFSET": str(mesh.worlds.index(world)),
        "PLACER_WORLD_FIRST": str(world.first),
        "PLACER_WORLD_STEP": str(inside.count),
        "PLACER_WORLD_MACHINES": str(world.machine_count),
        "PLACER_DP_REPLICATE": str(world.dp_replicate),
        "PLACER_DP_SHARD": str(world.dp_shard),
        "PLACER_TENSOR_PARALLEL": str(world.tp),
    }


def _inner(group: Group) -> dict[str, str]:
    inner = group.inner or InnerPlan()
    return {
        "PLACER_SHARDING": inner.sharding,
        "PLACER_CHECKPOINTING": inner.checkpointing,
        "PLACER_PRECISION": inner.precision,
        **({} if group.inner is None else {"PLACER_MICROBATCH": str(inner.microbatch)}),
    }


def server_environment(manifest: Manifest, mesh: Mesh) -> dict[str, str]:
    """Return the variables of the parameter server, which has the last rank and joins no world."""
    assert manifest.server is not None
    assert manifest.aggregator is not None
    return {
        "PLACER_ROLE": SERVER,
        "PLACER_GROUP": SERVER,
        "PLACER_GROUP_SIZE": "1",
        "PLACER_RANK_OFFSET": str(manifest.world_size),
        "PLACER_PLACE": manifest.aggregator.place,
        "PLACER_INSTANCE_TYPE": manifest.server.instance_type,
        "PLACER_MARKET": manifest.server.market,
        "PLACER_PROCESSES": "1",
        "PLACER_WORLD_OFFSET": str(len(mesh.worlds)),
        "PLACER_WORLD_FIRST": str(manifest.world_size),
        "PLACER_WORLD_STEP": "1",
        "PLACER_WORLD_MACHINES": "1",
    }


def machines(plan: ExportPlan, mesh: Mesh | None = None) -> dict[str, dict[str, str]]:
    """Return all variables of each group by its name, and of the server where there is one."""
    manifest, mesh = plan.manifest, mesh or mesh_of(plan.manifest)
    alike = run_environment(plan, mesh)
    built = {
        group.name: {**alike, **group_environment(group, manifest, mesh)}
        for group in manifest.groups
    }
    return (
        built
        if manifest.server is None
        else {**built, SERVER: {**alike, **server_environment(manifest, mesh)}}
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Machines that a target starts as one, with their variables: the first of
    ``PLACER_GROUP_SIZE`` has rank ``PLACER_RANK_OFFSET``. A parameter server has no group in the
    manifest.
    """

    environment: dict[str, str]
    group: Group | None

    @property
    def machines(self) -> int:
        """Return the number of machines."""
        return int(self.environment["PLACER_GROUP_SIZE"])

    @property
    def rank(self) -> int:
        """Return the rank of its first machine."""
        return int(self.environment["PLACER_RANK_OFFSET"])

    @property
    def meets_at(self) -> int | None:
        """Return the rank of the machine at which they meet as a world; None: each is a world."""
        alone = self.environment["PLACER_WORLD_MACHINES"] == "1"
        return None if alone else int(self.environment["PLACER_WORLD_FIRST"])


def parts(plan: ExportPlan) -> dict[str, Part]:
    """List the parts by name, in the order of ranks; of islands that are worlds, each island."""
    groups = {group.name: group for group in plan.manifest.groups}
    built: dict[str, Part] = {}
    for name, environment in machines(plan).items():
        group = groups.get(name)
        whole = environment["PLACER_WORLD_STEP"] == environment["PLACER_GROUP_SIZE"]
        if group is None or not group.is_island or whole:
            built[name] = Part(environment=environment, group=group)
            continue
        for number in range(group.count):
            _check_free(f"{name}-{number}", groups, f"island {number} of group {name}")
            built[f"{name}-{number}"] = Part(
                environment={**environment, **_moved(environment, number, group.machines)},
                group=group,
            )
    return built


def holder(several: dict[str, Part], rank: int) -> tuple[str, int]:
    """Return the name of the part that holds a machine, and the machine's number in it."""
    return next(
        (name, rank - part.rank)
        for name, part in several.items()
        if part.rank <= rank < part.rank + part.machines
    )


def one_by_one(several: dict[str, Part], providers: Collection[str]) -> dict[str, Part]:
    """Divide the parts at some providers into their machines; an island is refused."""
    built: dict[str, Part] = {}
    for name, part in several.items():
        if part.group is None or part.group.provider not in providers or part.machines == 1:
            built[name] = part
            continue
        if part.group.machines > 1:
            raise PlacerError(
                f"machines of {part.group.provider} cannot be joined to islands, as {name} needs",
                "plan with --machines-per-island 1, or use --to torchrun",
            )
        for number in range(part.machines):
            _check_free(f"{name}-{number}", several, f"machine {number} of group {name}")
            built[f"{name}-{number}"] = Part(
                environment={**part.environment, **_moved(part.environment, number)},
                group=part.group,
            )
    return built


def _check_free(name: str, taken: Collection[str], what: str) -> None:
    if name in taken:
        raise PlacerError(f"{what} would be called as group {name}", "give that group another name")


def _moved(environment: dict[str, str], number: int, machines: int = 1) -> dict[str, str]:
    """Return the variables of a part that begins so many machines further in its group."""
    before = number * machines
    moved = {
        "PLACER_GROUP_SIZE": str(machines),
        "PLACER_RANK_OFFSET": str(int(environment["PLACER_RANK_OFFSET"]) + before),
    }
    if environment["PLACER_WORLD_STEP"] != str(machines):
        return moved  # all are in one world
    return {
        **moved,
        "PLACER_WORLD_OFFSET": str(int(environment["PLACER_WORLD_OFFSET"]) + number),
        "PLACER_WORLD_FIRST": str(int(environment["PLACER_WORLD_FIRST"]) + before),
    }
