"""Islands in a rehearsal: a worker is one shaped host, as links between places are rehearsed."""

from __future__ import annotations

from placer.cost_model.estimate import pool_of
from placer.errors import PlacerError
from placer.problem.placement import Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.records import replace
from placer.workload.profile import Rate

SOFTWARE = ("hivemind", "nccl", "gloo")
"""Frameworks under which a machine's rate may be looked up."""


def as_hosts(placement: Placement, where: str) -> Placement:
    """Return a placement whose workers are single hosts, whatever they do inside.

    Parameters
    ----------
    where
        Name of the manifest, for errors.

    Raises
    ------
    PlacerError
        If an island has several machines: they send to other islands side by side, which one host
        cannot show.
    """
    most = max(group.machines for group in placement.groups)
    if most > 1:
        raise PlacerError(
            f"{where}: a rehearsal runs workers of one machine, and an island of the plan has "
            f"{most}",
            "run it on this machine with placer run --local; its links are not shaped",
        )
    return replace(placement, groups=tuple(replace(g, inner=None) for g in placement.groups))


def host_rates(problem: Problem, placement: Placement) -> tuple[Rate, ...]:
    """List samples/s of the plan's machines as rows of a profile, those of an architecture too."""
    if problem.profile.architecture is None:
        return problem.profile.rates
    return tuple(
        rate for group in placement.groups for rate in _rates(group, problem, placement.workers)
    )


def _rates(group: WorkerGroup, problem: Problem, workers: int) -> list[Rate]:
    """List what one worker calculates alone, and with each software of exchanges."""
    pool, gpu, count = pool_of(group, problem, workers), group.gpu, group.gpu_count
    alone = replace(pool.alone, gpu=gpu, gpu_count=count, framework="none")
    shared = [replace(pool.shared, gpu=gpu, gpu_count=count, framework=name) for name in SOFTWARE]
    return [alone, *shared]
