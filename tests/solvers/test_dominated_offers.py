"""Offers that are dropped before a search, and workers that are made once for those alike."""

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from instances import carbon_problem, random_problem, vcpu_problem
from placer.market.scaled_market import with_offers
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.solve import solve
from proofs import PROOF, WHOLE, agrees

DRAWN = [WHOLE[name] for name in ["carbon", "island", "random", "reading", "site", "used", "vcpus"]]
TWINS = 2
"""Offers that get a twin: each doubles what is enumerated, or more."""


def with_twins(problem: Problem, draw: random.Random) -> Problem:
    """Add twins of some offers to a book: other types of machines in the same place, with another
    price, and sometimes with other vCPUs.
    """
    offers = problem.catalog.offers
    twins = [
        replace(
            offer,
            instance_type=f"{offer.instance_type}-twin",
            usd_per_hour=offer.usd_per_hour * draw.choice((0.9, 1.0, 1.2)),
            vcpus=offer.vcpus * draw.choice((0.5, 1, 2)),
        )
        for offer in draw.sample(offers, min(TWINS, len(offers)))
    ]
    return replace(problem, catalog=with_offers(problem.catalog, (*offers, *twins)))


@given(st.sampled_from(DRAWN), st.integers(0, 10_000))
def test_workers_of_like_offers_are_those_made_one_by_one(
    drawn: Callable[[int], Problem], seed: int
) -> None:
    """What is worked out once for all offers of a kind is what each offer would have by itself."""
    problem = with_twins(drawn(seed), random.Random(seed))
    if problem.fixed_workers is not None and problem.island_question is not None:
        return
    one_by_one = [
        pool
        for offer in problem.admitted_offers()
        for pool in problem.pools_of(offer)
        if pool.max_count >= 1
    ]
    assert list(problem.pools) == one_by_one


@given(st.sampled_from((carbon_problem, random_problem, vcpu_problem)), st.integers(0, 10_000))
def test_the_best_of_all_offers_is_among_those_that_are_kept(
    drawn: Callable[[int], Problem], seed: int
) -> None:
    """A dearer twin is dropped, and enumerating the whole book finds nothing better."""
    problem = with_twins(drawn(seed), random.Random(seed))
    agrees(solve(problem, "exact", PROOF), solve(problem, "exhaustive"), seed)
