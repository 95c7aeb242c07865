"""The plan as environment variables, the same in every target: ``PLACER_`` and the names of the
manifest; its parts that start together; and what a training needs around it, all by reference.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from msgspec import convert

from placer.documents.manifest.types import Group, Manifest
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.mesh import Mesh, World
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import piece_layers
from placer.workload.island.transports import bucket_mib
from placer.workload.profile import fp32_bytes

SERVER = "server"
"""Name of the group that a parameter server's own machine makes."""
JOIN_S = 60.0
"""The lighthouse's own time for more worlds to join (torchft 0.2)."""


def _texts(variables: Mapping[str, str | float | None]) -> dict[str, str]:
    """Write values as texts; what is None is not set."""
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in variables.items()
        if value is not None
    }


def run_environment(plan: ExportPlan, mesh: Mesh) -> dict[str, str]:
    """Return the variables that are the same on all machines; of buckets those of the one where all
    meet, and where torchft exchanges how many worlds it waits for, and how long for the others.
    """
    manifest, exchange, meeting = plan.manifest, plan.manifest.exchange, plan.manifest.rendezvous
    waits, drift, aggregator = exchange.timeouts, manifest.drift, manifest.aggregator
    bucket = manifest.buckets[0] if manifest.buckets else None
    waits_for_worlds = mesh.between == "torchft"
    ddp_mib = None
    if exchange.strategy == "all-reduce" and not mesh.between:
        ddp_mib = bucket_mib(fp32_bytes(manifest.model.gradient_bytes, exchange.compression))
    grace_s = JOIN_S if exchange.grace_s is None else exchange.grace_s
    return _texts(
        {
            "PLACER_RUN": manifest.name,
            "PLACER_MANIFEST_DIGEST": manifest.digest,
            "PLACER_MODEL": manifest.model.name,
            "PLACER_TRAIN": plan.train,
            "PLACER_WORKERS": manifest.workers,
            "PLACER_WORLDS": len(mesh.worlds),
            "PLACER_BETWEEN": mesh.between,
            "PLACER_BACKEND": mesh.backend,
            "PLACER_SAMPLES": json.dumps([world.samples for world in mesh.worlds]),
            "PLACER_STRATEGY": exchange.strategy,
            "PLACER_TARGET_BATCH_SIZE": exchange.target_batch_size,
            "PLACER_MICROBATCH": exchange.microbatch,
            "PLACER_COMPRESSION": exchange.compression,
            "PLACER_DDP_BUCKET_MIB": ddp_mib,
            "PLACER_STREAMS": exchange.streams,
            "PLACER_OVERLAP": int(exchange.overlap),
            "PLACER_LOCAL_STEPS": exchange.local_steps,
            "PLACER_MATCHMAKING_S": waits.matchmaking_s,
            "PLACER_AVERAGING_TIMEOUT_S": waits.averaging_s,
            "PLACER_STEP_TIMEOUT_S": waits.step_s,
            "PLACER_ROUND_TIMEOUT_S": waits.round_s,
            "PLACER_JOIN_TIMEOUT_S": meeting.join_s,
            "PLACER_RENDEZVOUS": meeting.method,
            "PLACER_RENDEZVOUS_PORT": meeting.port,
            "PLACER_JOB_STEPS": job_steps(manifest),
            "PLACER_QUORUM": (exchange.quorum or len(mesh.worlds)) if waits_for_worlds else None,
            "PLACER_GRACE_MS": round(grace_s * 1000) if waits_for_worlds else None,
            "PLACER_AGGREGATOR": None if aggregator is None else aggregator.kind,
            "PLACER_AGGREGATOR_PLACE": None if aggregator is None else aggregator.place,
            "PLACER_STORE": None if bucket is None else bucket.store,
            "PLACER_BUCKET": None if bucket is None else bucket.name,
            "PLACER_BUCKET_PLACE": None if bucket is None else bucket.place,
            "PLACER_POLL_S": None if bucket is None else waits.poll_s,
            "PLACER_MIN_SAMPLES_PER_SECOND": f"{drift.min_samples_per_second:.6g}",
            "PLACER_MAX_USD_PER_HOUR": f"{drift.max_usd_per_hour:.6g}",
            "PLACER_MAX_ROUND_SECONDS": f"{drift.max_round_seconds:.6g}",
        }
    )


def job_steps(manifest: Manifest) -> int | None:
    """Return the steps of the whole job, in whole rounds; None: nobody said how much it trains."""
    samples = (manifest.question or {}).get("requirements", {}).get("samples")
    if samples is None:
        return None
    exchange, needed = manifest.exchange, samples * manifest.expected.samples_to_target.value
    rounds = math.ceil(needed / (exchange.target_batch_size * exchange.local_steps))
    return int(rounds * exchange.local_steps)


def group_environment(group: Group, manifest: Manifest, mesh: Mesh) -> dict[str, str]:
    """Return the variables of one group: of its machines, of the world of the first, and how many
    are in each world, as the next ones are in the next world; and the inner plan of islands.
    """
    buckets = {b.place: b.name for b in manifest.buckets if b.role == "workers"}
    data, inner, world = group.data, group.inner or InnerPlan(), mesh.world_of(group.rank_offset)
    assert world is not None
    here = next(row for row in world.machines if row.group == group.name)
    efa = EFA if fabric_of(group, manifest, mesh) == "efa" else {}
    variables: dict[str, str | float | None] = {
        "PLACER_ROLE": "worker",
        "PLACER_GROUP": group.name,
        "PLACER_GROUP_SIZE": group.machine_count,
        "PLACER_RANK_OFFSET": group.rank_offset,
        "PLACER_PLACE": group.place,
        "PLACER_INSTANCE_TYPE": group.offer.instance_type,
        "PLACER_MARKET": group.offer.market,
        "PLACER_REGION_BUCKET": buckets.get(group.place),
        "PLACER_DATA_STORE": data.store,
        "PLACER_DATA_SHARE": None if data.place_share is None else f"{data.place_share:.9g}",
        "PLACER_PROCESSES": here.processes,
        "PLACER_WORLD_OFFSET": mesh.worlds.index(world),
        "PLACER_WORLD_FIRST": world.first,
        "PLACER_WORLD_STEP": here.count,
        "PLACER_WORLD_MACHINES": world.machine_count,
        "PLACER_DP_REPLICATE": world.dp_replicate,
        "PLACER_DP_SHARD": world.dp_shard,
        "PLACER_TENSOR_PARALLEL": world.tp,
        **efa,
    }
    if group.is_island:
        variables |= {
            "PLACER_SHARDING": inner.sharding,
            "PLACER_CHECKPOINTING": inner.checkpointing,
            "PLACER_PRECISION": inner.precision,
            "PLACER_MICROBATCH": None if group.inner is None else inner.microbatch,
        }
    if inner.divides_more:
        layers = piece_layers(architecture_of(manifest), inner)
        variables |= {
            "PLACER_PIPELINE_PARALLEL": inner.pipeline,
            "PLACER_PIECE_LAYERS": " ".join(map(str, layers)),
            "PLACER_CONTEXT_PARALLEL": inner.context_parallel,
            "PLACER_EXPERT_PARALLEL": inner.expert_parallel,
        }
    return _texts(variables)


def architecture_of(manifest: Manifest) -> Architecture:
    """Return the dimensions of the model, which a manifest without its question does not have."""
    told = (manifest.question or {}).get("profile", {}).get("architecture")
    if told is None:
        raise PlacerError(
            "the manifest does not have the layers of the model and the length of its sequences",
            "write it again with placer recommend --manifest FILE",
        )
    return convert(told, Architecture)


def _server_environment(manifest: Manifest, mesh: Mesh) -> dict[str, str]:
    """Return the variables of the parameter server, which has the last rank and joins no world."""
    assert manifest.server is not None
    assert manifest.aggregator is not None
    return _texts(
        {
            "PLACER_ROLE": SERVER,
            "PLACER_GROUP": SERVER,
            "PLACER_GROUP_SIZE": 1,
            "PLACER_RANK_OFFSET": manifest.world_size,
            "PLACER_PLACE": manifest.aggregator.place,
            "PLACER_INSTANCE_TYPE": manifest.server.instance_type,
            "PLACER_MARKET": manifest.server.market,
            "PLACER_PROCESSES": 1,
            "PLACER_WORLD_OFFSET": len(mesh.worlds),
            "PLACER_WORLD_FIRST": manifest.world_size,
            "PLACER_WORLD_STEP": 1,
            "PLACER_WORLD_MACHINES": 1,
        }
    )


def machines(plan: ExportPlan, mesh: Mesh | None = None) -> dict[str, dict[str, str]]:
    """Return all variables of each group by its name, and of the server where there is one."""
    manifest, mesh = plan.manifest, mesh or plan.mesh
    alike = run_environment(plan, mesh)
    built = {g.name: alike | group_environment(g, manifest, mesh) for g in manifest.groups}
    if manifest.server is not None:
        built[SERVER] = alike | _server_environment(manifest, mesh)
    return built


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
        part = Part(environment=environment, group=groups.get(name))
        whole = environment["PLACER_WORLD_STEP"] == environment["PLACER_GROUP_SIZE"]
        if part.group is None or not part.group.is_island or whole:
            built[name] = part
        else:
            built |= _divided(name, part, part.group.machines, groups, "island")
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
        built |= _divided(name, part, 1, several, "machine")
    return built


def _divided(
    name: str, part: Part, machines: int, taken: Collection[str], what: str
) -> dict[str, Part]:
    """Divide a part into parts of so many machines."""
    built = {}
    for number in range(part.machines // machines):
        own = f"{name}-{number}"
        if own in taken:
            words = f"{what} {number} of group {name} would be called as group {own}"
            raise PlacerError(words, "give that group another name")
        moved = {**part.environment, **_moved(part.environment, number, machines)}
        built[own] = Part(environment=moved, group=part.group)
    return built


def _moved(environment: dict[str, str], number: int, machines: int) -> dict[str, str]:
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


EFA_DEVICES = {
    "p4d.24xlarge": 4,
    "p4de.24xlarge": 4,
    "p5.48xlarge": 32,
    "p5e.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
}
"""Interfaces of Amazon's Elastic Fabric Adapter (Amazon EC2 user guide, network cards)."""
GPU_DIRECT = ("a3-", "a4-")
"""Machines of Google Cloud whose GPUs have a network of their own (GPUDirect-TCPX, TCPXO, RDMA)."""
EFA = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}
"""What NCCL's plugin for EFA reads (github.com/aws/aws-ofi-nccl)."""
SECRETS = (
    "PLACER_CHECKPOINTS",
    "PLACER_DATA",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "HF_TOKEN",
)
"""What a machine may be told by name and never by value."""


def spans_places(manifest: Manifest) -> bool:
    """Return whether machines that meet at an address are in several places."""
    places = {group.place for group in manifest.groups}
    if manifest.aggregator is not None and manifest.server is not None:
        places.add(manifest.aggregator.place)
    return manifest.rendezvous.method == "address" and len(places) > 1


def fabric_of(group: Group, manifest: Manifest, mesh: Mesh) -> str:
    """Return the fast network between the machines of a group's world, ``efa`` or ``gpudirect``;
    empty where there is none, or where a world is one machine or spans places.
    """
    world = mesh.world_of(group.rank_offset)
    if world is None or world.machine_count == 1 or mesh.backend != "nccl":
        return ""
    if len(world_places(world, manifest)) > 1:
        return ""
    machine = group.offer.instance_type
    if group.provider == "aws" and machine in EFA_DEVICES:
        return "efa"
    return "gpudirect" if group.provider == "gcp" and machine.startswith(GPU_DIRECT) else ""


def world_places(world: World, manifest: Manifest) -> set[str]:
    """Return the places of the machines of a world."""
    names = {row.group for row in world.machines}
    return {group.place for group in manifest.groups if group.name in names}
