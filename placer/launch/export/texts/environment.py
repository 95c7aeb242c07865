"""The plan as environment variables, the same in every target: ``PLACER_`` and the names of the
manifest.
"""

from __future__ import annotations

from placer.documents.manifest.types import Aggregator, Group, Manifest
from placer.launch.export.export_plan import ExportPlan
from placer.workload.inner_plan import InnerPlan

SERVER = "server"
"""Name of the group that a parameter server's own machine makes."""


def run_environment(plan: ExportPlan) -> dict[str, str]:
    """Return the variables that are the same on all machines."""
    manifest, exchange = plan.manifest, plan.manifest.exchange
    waits = exchange.timeouts
    return {
        "PLACER_RUN": manifest.name,
        "PLACER_MANIFEST_DIGEST": manifest.digest,
        "PLACER_MODEL": manifest.model.name,
        "PLACER_TRAIN": plan.train,
        "PLACER_WORLD_SIZE": str(manifest.world_size),
        "PLACER_MACHINES": str(manifest.rendezvous.machines),
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
        **_aggregator(manifest.aggregator),
        **_buckets(manifest),
        "PLACER_MIN_SAMPLES_PER_SECOND": f"{manifest.drift.min_samples_per_second:.6g}",
        "PLACER_MAX_USD_PER_HOUR": f"{manifest.drift.max_usd_per_hour:.6g}",
        "PLACER_MAX_ROUND_SECONDS": f"{manifest.drift.max_round_seconds:.6g}",
    }


def _aggregator(aggregator: Aggregator | None) -> dict[str, str]:
    return (
        {}
        if aggregator is None
        else {"PLACER_AGGREGATOR": aggregator.kind, "PLACER_AGGREGATOR_PLACE": aggregator.place}
    )


def _buckets(manifest: Manifest) -> dict[str, str]:
    """Return the variables of the bucket where all meet; that of a region is a variable of its
    groups.
    """
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


def group_environment(group: Group, manifest: Manifest) -> dict[str, str]:
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
        "PLACER_PROCESSES": str(1 if group.on_cpu else group.offer.gpu_count),
        **({"PLACER_REGION_BUCKET": buckets[group.place]} if group.place in buckets else {}),
        **({} if data.store is None else {"PLACER_DATA_STORE": data.store}),
        **({} if data.place_share is None else {"PLACER_DATA_SHARE": f"{data.place_share:.9g}"}),
        **_island(group, manifest),
    }


def _island(group: Group, manifest: Manifest) -> dict[str, str]:
    """Return the variables of islands, where the plan has any: how many they are, the number of the
    group's first, and the inner plan.
    """
    if not manifest.has_islands:
        return {}
    before = sum(other.count for other in manifest.groups if other.rank_offset < group.rank_offset)
    inner = group.inner or InnerPlan(microbatch=manifest.exchange.microbatch)
    return {
        "PLACER_ISLANDS": str(manifest.workers),
        "PLACER_ISLAND_OFFSET": str(before),
        "PLACER_ISLAND_MACHINES": str(group.machines),
        "PLACER_SHARDING": inner.sharding,
        "PLACER_TENSOR_PARALLEL": str(inner.tensor_parallel),
        "PLACER_CHECKPOINTING": inner.checkpointing,
        "PLACER_PRECISION": inner.precision,
        "PLACER_MICROBATCH": str(inner.microbatch),
    }


def server_environment(manifest: Manifest) -> dict[str, str]:
    """Return the variables of the parameter server's machine, which has the last rank."""
    assert manifest.server is not None
    assert manifest.aggregator is not None
    islands = {"PLACER_ISLAND_OFFSET": str(manifest.workers), "PLACER_ISLAND_MACHINES": "1"}
    return {
        **(islands if manifest.has_islands else {}),
        "PLACER_ROLE": SERVER,
        "PLACER_GROUP": SERVER,
        "PLACER_GROUP_SIZE": "1",
        "PLACER_RANK_OFFSET": str(manifest.world_size),
        "PLACER_PLACE": manifest.aggregator.place,
        "PLACER_INSTANCE_TYPE": manifest.server.instance_type,
        "PLACER_MARKET": manifest.server.market,
        "PLACER_PROCESSES": "1",
    }


def machines(plan: ExportPlan) -> dict[str, dict[str, str]]:
    """Return all variables of each group by its name, and of the server where there is one."""
    manifest, alike = plan.manifest, run_environment(plan)
    built = {
        group.name: {**alike, **group_environment(group, manifest)} for group in manifest.groups
    }
    return (
        built
        if manifest.server is None
        else {**built, SERVER: {**alike, **server_environment(manifest)}}
    )
