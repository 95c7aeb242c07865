"""Islands of several machines, a second time: how many machines, and what a device must hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATES = {"none": (0, 16), "zero-1": (8, 8), "zero-2": (12, 4), "zero-3": (16, 0)}
"""Bytes of each trainable parameter that are divided among the ranks, and that each rank holds:
AdamW in mixed precision has 8 of optimizer, 4 of gradients, 4 of weights.
"""


def machine_count(row: Mapping[str, Any]) -> int:
    """Return the machines of a group of workers."""
    return int(row["count"] * row.get("machines", 1))


def least_device_bytes(row: Mapping[str, Any], profile: Mapping[str, Any]) -> float:
    """Return the bytes that each device of a group holds at least: the states of its plan, without
    activations; of workers without a plan what the profile says.
    """
    inner, shape = row.get("inner"), profile.get("architecture")
    if not inner or not shape:
        return float(profile["device_memory_bytes"])
    degree, machines = inner["tensor_parallel"], row.get("machines", 1)
    ranks = row["gpu_count"] // degree * (1 if inner["sharding"] == "hybrid" else machines)
    divided, whole = STATES["zero-3" if inner["sharding"] == "hybrid" else inner["sharding"]]
    return float(shape["trainable_parameters"] / degree * (divided / ranks + whole))
