"""Random placements of one strategy, on shipped price books and on random markets."""

import random
from collections.abc import Sequence
from functools import cache

from instances import wide_problem, wishing
from placer.cost_model.estimate import evaluate
from placer.market.books.book_reader import load_catalog
from placer.problem.admitted_exchanges import exchanges_of
from placer.problem.datasets import Dataset
from placer.problem.exchange import traits
from placer.problem.placement import Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.problem.workers.pool import Pool
from placer.records import replace
from placer.workload.profile import load_profile

book, profile = cache(load_catalog), cache(load_profile)
"""One object each: a catalog keeps the offers that a request of the same profile admits."""
BOOKS = ("default", "erben-2023", "phalak-2023")
MODELS = (
    "imdb-lstm",
    "niser",
    "resnet18",
    "resnet50",
    "roberta-base",
    "roberta-xlm",
    "whisper-small",
)


def random_placement(strategy: str, seed: int) -> tuple[Placement, Problem]:
    """Draw 2 to 12 workers of one or more kinds in up to four regions, with any streams, local
    steps, overlap and placed data.
    """
    draw = random.Random(f"{strategy} {seed}")
    while True:
        problem = _problem(draw, strategy)
        groups = _groups(draw, problem, traits(strategy).least_regions)
        if groups:
            drawn = _exchanged(draw, strategy, groups, problem)
            if drawn is not None:
                return drawn


def ring_placement(strategy: str, seed: int) -> tuple[Placement, Problem]:
    """Return a draw of `random_placement` as PyTorch or torchft averages it over NCCL or gloo."""
    (placement, problem), draw = random_placement(strategy, seed), random.Random(seed)
    transport, late = draw.choice(["nccl", "gloo"]), traits(strategy).always_overlaps
    sent = draw.choice(["none", "fp16"]) if strategy == "all-reduce" else "none"
    wish = replace(
        problem.requirements, transport=transport, compression=sent, streams=1, overlap=False
    )
    exchange = replace(
        placement.exchange, transport=transport, compression=sent, streams=1, overlap=late
    )
    return replace(placement, exchange=exchange), replace(problem, requirements=wish)


def _problem(draw: random.Random, strategy: str) -> Problem:
    """Half of the markets are those of shipped books, half are random ones with measured links."""
    if draw.random() < 0.5:
        problem = Problem(
            profile=profile(draw.choice(MODELS)),
            catalog=book(draw.choice(BOOKS)),
            requirements=Requirements(),
        )
    else:
        problem = wide_problem(draw.randrange(10_000), most=10**9)
    wish = Requirements(
        exchange=strategy,
        # As hivemind averages: the draws, and what their tolerances hold for, stay the same.
        transport="hivemind",
        streams=draw.choice([1, 1, 2, 4, 8]),
        overlap=traits(strategy).may_overlap and draw.random() < 0.3,
        compression=draw.choice(["none", "fp16", "int8"]),
        target_batch_size=draw.choice([256, 2048, 32768]),
        places_in=("*/*", "onprem/*"),
    )
    return replace(problem, requirements=wish)


def _groups(draw: random.Random, problem: Problem, least_regions: int) -> tuple[WorkerGroup, ...]:
    """Draw groups; none if the market has too few regions."""
    pools: dict[str, list[Pool]] = {}
    for pool in problem.pools:
        pools.setdefault(pool.offer.place, []).append(pool)
    regions = draw.randint(least_regions, 4)
    if len(pools) < regions:
        return ()
    places = draw.sample(sorted(pools), regions)
    kinds = [
        pool
        for place in places
        for pool in draw.sample(pools[place], min(len(pools[place]), draw.choice([1, 1, 2])))
    ]
    workers = max(2, len(kinds), draw.randint(2, 12))
    extra = [draw.randrange(len(kinds)) for _ in range(workers - len(kinds))]
    return tuple(WorkerGroup.of(pool.offer, 1 + extra.count(k)) for k, pool in enumerate(kinds))


def _exchanged(
    draw: random.Random, strategy: str, groups: Sequence[WorkerGroup], problem: Problem
) -> tuple[Placement, Problem] | None:
    """Draw where the exchange meets and where data lies; None if it cannot meet."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.place] = counts.get(group.place, 0) + group.count
    steps = draw.choice([1, 2, 4, 8]) if traits(strategy).local_steps else 1
    if traits(strategy).hub == "server":
        wanted = draw.choice([None, *sorted(counts)])
        problem = wishing(problem, aggregator=wanted)
    options = list(exchanges_of(strategy, steps, problem, counts))
    if not options:
        return None
    if problem.profile.bytes_per_sample and draw.random() < 0.3:
        data = tuple(
            Dataset(
                place=p, samples=draw.choice([10**4, 10**5, 10**6]), may_move=draw.random() < 0.3
            )
            for p in sorted(counts)
        )
        problem = wishing(problem, datasets=data)
    placement = Placement(groups=tuple(groups), exchange=draw.choice(options))
    return (placement, problem) if evaluate(placement, problem).step.total < 10**6 else None
