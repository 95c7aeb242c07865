"""What it costs that samples reach their workers: reads from a store, or datasets that move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from placer.cost_model.dollars import components as cost
from placer.cost_model.timing.site_groups import EXPECTED, site_group_of
from placer.errors import PlacerError
from placer.problem.data.data_shares import Move, moves
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.workers.pool import Pool


def data_usd_per_sample(
    machines: Sequence[tuple[Pool, int]], placement: Placement, problem: Problem
) -> float:
    """Price the way of one sample to its worker, averaged by the samples of each worker and over
    all passes: what a local disk keeps is paid once.
    """
    if problem.requirements.datasets:
        part = site_group_of(machines, placement, (), problem, EXPECTED).shares()
        total = problem.requirements.passes * fsum(
            data.samples for data in problem.requirements.datasets
        )
        return fsum(move.usd for move in moves_of(part, problem)) / total
    if problem.data_store is None and not problem.data_copies:
        return 0.0
    site_group = site_group_of(machines, placement, (), problem, EXPECTED)
    return fsum(
        share * worker_sample_usd(pool, problem)
        for (pool, _), share in zip(machines, site_group.group_shares(), strict=True)
    )


def worker_sample_usd(pool: Pool, problem: Problem) -> float:
    """Price the way of one sample to a kind of worker, with its share of a copy."""
    if problem.data_store is None and problem.data_copies:
        return problem.least_copy(pool.place)[0]
    copied = 0.0 if problem.data_copy is None else problem.data_copy.usd_per_sample
    return pool.streamed * sample_usd(pool.place, problem) + copied


def sample_usd(place: str, problem: Problem) -> float:
    """Price of reading one sample from the dataset's store at a place; 0 if no store is named.
    `PlacerError` if nobody measured how many bytes a sample has.
    """
    if problem.data_store is None:
        return 0.0
    return cost.data_usd_per_sample(
        _bytes_per_sample(problem), problem.data_store.place, place, problem.network
    )


def moves_of(part: Mapping[str, float], problem: Problem) -> tuple[Move, ...]:
    """Return the data that has to move before the run."""
    datasets = problem.requirements.datasets
    if not problem.requirements.data_moves:
        return ()
    return moves(datasets, part, _bytes_per_sample(problem), problem.network)


def _bytes_per_sample(problem: Problem) -> int:
    if problem.profile.bytes_per_sample is None:
        raise PlacerError(
            f"profile {problem.profile.name} does not say how many bytes a sample has",
            "leave --data out, or add bytes_per_sample",
            exit_code=5,
        )
    return problem.profile.bytes_per_sample
