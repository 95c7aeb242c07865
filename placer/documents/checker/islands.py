"""Islands of several machines, a second time: how many machines, and what a device must hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placer.documents.checker.case import Case, kind_of

FIXED = ("sharding", "tensor_parallel", "checkpointing", "precision", "software")
"""Parts of a plan that are as asked for, or free."""
STATES, LEANER = (8, 4, 4), {"nvidia-te": (8, 2, 4), "torchtune": (4, 2, 2)}
"""Bytes of each trainable parameter: optimizer, gradients and weights of AdamW in mixed precision,
and of software that keeps less. Moments of 8 bits have 2, of any software.
"""
DIVIDED = {"none": 0, "zero-1": 1, "zero-2": 2, "zero-3": 3, "hybrid": 3}
"""How many of them, in that order, the ranks divide among each other."""


def machine_count(row: Mapping[str, Any]) -> int:
    """Return the machines of a group of workers."""
    return int(row["count"] * row.get("machines", 1))


def _rank_gpus(inner: Mapping[str, Any]) -> int:
    """Return the GPUs that take the same sequences."""
    split = inner.get("pipeline", 1) * inner.get("context_parallel", 1)
    return int(inner["tensor_parallel"] * split)


def least_device_bytes(row: Mapping[str, Any], profile: Mapping[str, Any]) -> float:
    """Return the bytes that each device of a group holds at least: the states of its plan, without
    activations; of workers without a plan what the profile says.
    """
    inner, shape = row.get("inner"), profile.get("architecture")
    if not inner or not shape:
        return float(profile["device_memory_bytes"])
    degree, machines = inner["tensor_parallel"], row.get("machines", 1)
    stages = inner.get("pipeline", 1)
    ranks = row["gpu_count"] // degree * (1 if inner["sharding"] == "hybrid" else machines)
    name, cut = inner.get("software") or "", DIVIDED[inner["sharding"]]
    optimizer, *others = LEANER.get(name.removesuffix("-8bit"), STATES)
    sizes = (2 if name.endswith("-8bit") else optimizer, *others)
    divided, whole = sum(sizes[:cut]), sum(sizes[cut:])
    if name == "nvidia-te" and 0 < cut < 3:
        divided, whole = divided + 4, whole - 4  # weights in FP32 too
    # Stages and groups of experts hold parts: at least the equal part of each device.
    parts = degree * stages * max(1, inner.get("expert_parallel", 1) // degree)
    ranks = max(1.0, ranks * degree / parts)
    return float(shape["trainable_parameters"] / parts * (divided / ranks + whole))


def unread(case: Case) -> Iterator[str]:
    """Check that no worker calculates faster than it reads from the dataset's store, and in later
    passes from its disks.
    """
    for row in case.placement["workers"]:
        reading, figures = case.reading(row), case.speeds[kind_of(row)]
        if reading is None:
            continue
        if max(figures["alone"], figures["in_group"]) > reading.mean() * (1 + 1e-9):
            where = f"{row['offer']} in {row['place']}"
            yield (
                f"{where} reads at most {reading.mean():,.6g} samples/s from "
                f"{case.wish['data_store']}"
            )


def wrong_islands(case: Case) -> Iterator[str]:
    """Check how many machines each worker has, and by which plan they work."""
    wish = case.wish
    ranks = sum(
        row["count"] * row.get("machines", 1) * row["gpu_count"] // _rank_gpus(row["inner"])
        for row in case.placement["workers"]
        if row.get("inner")
    )
    if ranks > case.batch:
        yield f"{ranks} ranks share {case.batch} sequences of a step"
    for row in case.placement["workers"]:
        machines, inner = row.get("machines", 1), row.get("inner") or {}
        name = f"an island of {machines} x {row['offer']} in {row['place']}"
        limits = (wish.get("max_island_machines"), case.offer(row).get("max_island_machines"))
        if machines < (wish.get("min_island_machines") or 1):
            yield f"{name} has too few machines"
        if any(limit is not None and machines > limit for limit in limits):
            yield f"{name} has too many machines"
        if machines > 1 and not wish["same_zone"]:
            yield f"{name} is not in several zones"
        for key in FIXED:
            if inner and wish.get(key) not in (None, inner.get(key)):
                yield f"{name} works by {key} {inner.get(key)}"
        most = wish.get("microbatch")
        if inner and most is not None and inner["microbatch"] > most:
            yield f"{name} takes {inner['microbatch']} sequences at once"
