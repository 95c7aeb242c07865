"""The request in a document: the user's wishes as they were read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import to_builtins

from placer.problem.problem import FORMER_QUOTA_GPUS, Problem
from placer.problem.words.wishes import WISHES


def request_document(problem: Problem) -> dict[str, Any]:
    """Build the part ``request``: the wishes as they were read, in SI units.

    Notes
    -----
    The keys are those of the table of wishes. Batch, compression and constants are shown as they
    hold, whether they were asked for or come from the profile. Without the key ``quota_gpus`` the
    quota is 8, as in documents that are older than the key. Of language models the parameters that
    are trained are given: with adapters they are few.
    """
    keys = [key for row in WISHES.values() for key in row.keys]
    if problem.requirements.quota_gpus == FORMER_QUOTA_GPUS:
        keys.remove("quota_gpus")
    shape = problem.profile.architecture
    wish = problem.requirements
    if wish.data_source is None:
        keys.remove("data_source")
    return {
        "model": problem.profile.name,
        "sample": problem.profile.sample_size,
        **{
            key: _WRITTEN[key](problem) if key in _WRITTEN else _field(problem, key) for key in keys
        },
        "gradient_bytes": problem.gradient_bytes,
        "batch_assumed": problem.batch_assumed,
        "trainable_parameters": None if shape is None else shape.trainable_parameters,
        **({"copy_seconds": wish.copy_s} if wish.copies_data else {}),
    }


def _field(problem: Problem, name: str) -> Any:
    """Write a field of `Requirements` as it is."""
    value = to_builtins(getattr(problem.requirements, name))
    return list(value) if isinstance(value, tuple) else value


def _local_steps(problem: Problem) -> list[int | None] | None:
    wish = problem.requirements
    return None if wish.max_local_steps is None else [wish.min_local_steps, wish.max_local_steps]


def _island_machines(problem: Problem) -> list[int] | None:
    wish = problem.requirements
    most = wish.max_island_machines
    return None if most is None else [wish.min_island_machines or 1, most]


_WRITTEN: Mapping[str, Callable[[Problem], Any]] = {
    "aggregator": lambda problem: problem.requirements.aggregator_words,
    "calibration": lambda problem: problem.calibration.name,
    "compression": lambda problem: problem.compression,
    "deadline_seconds": lambda problem: problem.requirements.deadline_s,
    "grace_seconds": lambda problem: problem.requirements.grace_s,
    "keep": lambda problem: [
        {"kind": rule.kind, "area": rule.area} for rule in problem.requirements.kept
    ],
    "local_steps": _local_steps,
    "startup_seconds": lambda problem: problem.requirements.startup_s,
    "machines_per_island": _island_machines,
    "max_share": lambda problem: [limit.spec for limit in problem.requirements.max_shares],
    "samples_to_target": lambda problem: dict(problem.requirements.samples_to_target),
    "transport": lambda problem: problem.transport,
    "target_batch_size": lambda problem: problem.batch,
    "use": lambda problem: [rule.spec for rule in problem.requirements.used],
}
"""Keys that are no field of `Requirements`, or are written in another way."""
