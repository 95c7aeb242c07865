"""Islands of a manifest: a worker of several machines in one zone, with its inner plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placer.documents.manifest.types import Group
from placer.errors import PlacerError, unknown
from placer.problem.placement import LARGEST_ISLAND
from placer.workload.inner_plan import InnerPlan

INNER_KEYS = InnerPlan.__struct_fields__


def check_inner_keys(groups: Sequence[Mapping[str, Any]]) -> None:
    """Refuse an inner plan with a key that nobody would execute.

    Raises
    ------
    PlacerError
        Names the key and the nearest known one.
    """
    for group in groups:
        for key in group.get("inner") or ():
            if key not in INNER_KEYS:
                raise unknown("key of an inner plan", str(key), INNER_KEYS)


def check_island(group: Group, where: str) -> None:
    """Refuse an island that no machine room can hold.

    Parameters
    ----------
    where
        Name of the manifest, for errors.

    Raises
    ------
    PlacerError
        If its number of machines is absurd, it is in more than one zone, or its tensor parallel
        groups do not divide the GPUs of one machine.
    """
    if not 1 <= group.machines <= LARGEST_ISLAND:
        raise PlacerError(
            f"{where}: an island of group {group.name} has {group.machines:,} machines",
            f"give 1 to {LARGEST_ISLAND:,}",
        )
    if group.place != f"{group.provider}/{group.region}" and group.is_island:
        raise PlacerError(
            f"{where}: the islands of group {group.name} are in {group.place} and "
            f"{group.provider}/{group.region}",
            "an island is in one zone of one region: write one group for each",
        )
    degree = 1 if group.inner is None else group.inner.tensor_parallel
    if group.offer.gpu_count % degree:
        raise PlacerError(
            f"{where}: {degree} GPUs of group {group.name} share each matrix, but a machine has "
            f"{group.offer.gpu_count}",
            "give a tensor parallel degree that divides the GPUs of one machine",
        )
