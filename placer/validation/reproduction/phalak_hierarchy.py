"""Claims P24 to P26 of Phalak et al. (2024): one global aggregator against regional ones and a
global one.
"""

from __future__ import annotations

from placer.cost_model.estimate import Estimate
from placer.validation.reproduction.comparison import (
    Finding,
    Verdict,
    decided,
    percent_range,
    within,
)
from placer.validation.reproduction.phalak_placements import (
    CITIES,
    Choice,
    Study,
    placed,
    usd_per_step,
)
from placer.validation.reproduction.published import PublishedClaim

MODEL = "niser"
MOST_WORKERS_PER_CITY = 8
"""The paper does not say how many workers a region has in figure 8: one to this many may be."""


def placed_with_regional(
    model: str, choice: Choice, study: Study, workers_per_city: int
) -> Estimate:
    """Estimate as `phalak_placements.placed`, but every city aggregates first."""
    return placed(model, choice, study, workers_per_city, exchange="hierarchical")


def one_aggregator_is_faster(claim: PublishedClaim, study: Study) -> Finding:
    """Compare both ways with one AWS worker in each city, for both functions in all cities."""
    margins = []
    for choice in _choices():
        regional = placed_with_regional(MODEL, choice, study, 1)
        margins.append(regional.step.total / study.seconds(MODEL, choice) - 1)
    ours = f"regional and global together take {percent_range(margins)} against global alone"
    return Finding(
        verdict=decided(min(margins)),
        ours=ours,
        why="one worker in each city, AWS VMs; store and function times are assumed",
    )


def lambda_is_faster(claim: PublishedClaim, study: Study) -> Finding:
    """Compare Lambda beside S3 with the GCP function beside GCS in each city, for both ways."""
    alone = [_behind(study.estimates[MODEL][a], study.estimates[MODEL][g]) for a, g in _beside()]
    ours = (
        f"global aggregator alone, GCF beside GCS against Lambda beside S3: "
        f"{percent_range(alone)} seconds"
    )
    margins = list(alone)
    for choice_aws, choice_gcp in _beside():
        pair = [
            placed_with_regional(MODEL, choice, study, 1) for choice in (choice_aws, choice_gcp)
        ]
        margins.append(_behind(pair[0], pair[1]))
    ours += f"; with regional ones {percent_range(margins[len(alone) :])}"
    why = "placer assumes the same network and speed for both functions: nobody published them"
    return Finding(verdict=decided(min(margins)), ours=ours, why=why)


def one_aggregator_costs_half_more(claim: PublishedClaim, study: Study) -> Finding:
    """Work out the ratio of costs in London on AWS for each number of workers that a city may have:
    decided only where all of them agree, as the paper does not say it.
    """
    choice, wanted, ratios = Choice("aws", "aws", "aws", "London"), float(claim.value), {}
    for workers in range(1, MOST_WORKERS_PER_CITY + 1):
        regional = placed_with_regional(MODEL, choice, study, workers)
        ratios[workers] = usd_per_step(placed(MODEL, choice, study, workers)) / usd_per_step(
            regional
        )
    verdicts = {within(claim, ratio) for ratio in ratios.values()}
    ours = (
        f"{ratios[1]:.2f} with one worker in each city, as P24 has it; "
        f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f} with one to "
        f"{MOST_WORKERS_PER_CITY}, {wanted:g} among them"
    )
    return Finding(
        verdict=verdicts.pop() if len(verdicts) == 1 else Verdict.UNDECIDED,
        ours=ours,
        why="the ratio follows from the workers of a region, which figure 8 does not tell",
    )


CHECKS = {
    "P24": one_aggregator_is_faster,
    "P25": lambda_is_faster,
    "P26": one_aggregator_costs_half_more,
}
"""The function that judges each claim of claims.csv about regional aggregators."""


def _choices() -> list[Choice]:
    return [choice for pair in _beside() for choice in pair]


def _beside() -> list[tuple[Choice, Choice]]:
    """Put Lambda beside S3 and the GCP function beside GCS in each city, for AWS VMs."""
    return [
        (Choice("aws", "aws", "aws", city), Choice("aws", "gcp", "gcp", city)) for city in CITIES
    ]


def _behind(first: Estimate, second: Estimate) -> float:
    """Share of time that the second takes more than the first."""
    return second.step.total / first.step.total - 1
