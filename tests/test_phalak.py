"""The 48 placements of Phalak et al.: 3 VM clouds x (Lambda, GCP function) x (S3, GCS) x 4 cities."""

import pytest

from placer.by_hand import place_by_hand
from placer.catalog import Catalog
from placer.estimator import Estimate, estimate
from placer.problem import Problem
from placer.profile import load_profile
from placer.requirements import Requirements
from placer.units import GIB

CITIES = {
    "Mumbai": {"aws": "aws/ap-south-1", "gcp": "gcp/asia-south1", "azure": "azure/westindia"},
    "London": {"aws": "aws/eu-west-2", "gcp": "gcp/europe-west2", "azure": "azure/uksouth"},
    "Oregon": {"aws": "aws/us-west-2", "gcp": "gcp/us-west1", "azure": "azure/westus2"},
    "Sydney": {"aws": "aws/ap-southeast-2", "gcp": "gcp/australia-southeast1", "azure": "azure/australiaeast"},
}
Choice = tuple[str, str, str, str]


def placed(model: str, choice: Choice, book: Catalog) -> Estimate:
    """One worker in each city on one cloud; function and store in one city on any two clouds."""
    vms, function, store, city = choice
    workers = ",".join(f"{places[vms]}=1xCPU-2" for places in CITIES.values())
    wish = Requirements(exchange="central", aggregator=CITIES[city][function], storage=CITIES[city][store])
    problem = Problem(profile=load_profile(model), catalog=book, requirements=wish)
    return estimate(place_by_hand(workers, problem), problem)


def all_48(model: str, book: Catalog) -> dict[Choice, Estimate]:
    """Every placement the paper compares."""
    choices = [(v, f, s, c) for v in ("aws", "gcp", "azure") for f in ("aws", "gcp") for s in ("aws", "gcp") for c in CITIES]
    return {choice: placed(model, choice, book) for choice in choices}


def usd_per_step(got: Estimate) -> float:
    """Price of one mini-batch."""
    return got.usd_per_hour.total * got.step.total / 3600


@pytest.mark.parametrize("model", ["niser", "imdb-lstm"])
def test_aws_with_lambda_and_s3_in_oregon_is_cheapest(phalak: Catalog, model: str) -> None:
    """P21, both use cases; measured per mini-batch, as the paper does."""
    found = all_48(model, phalak)
    assert len(found) == 48
    assert min(found, key=lambda c: usd_per_step(found[c])) == ("aws", "aws", "aws", "Oregon")


def test_transfer_of_one_mini_batch_by_hand(phalak: Catalog) -> None:
    """P30 to P33, NISER, S3 and Lambda beside each other.

    Up from the three other cities and down to them, AWS prices London .02, Oregon .02, Mumbai .086,
    Sydney .098 USD/GB: London and Oregon .264, Mumbai .396, Sydney .420 USD per GB of gradient.
    """
    for city, usd_per_gb in (("London", 0.264), ("Oregon", 0.264), ("Mumbai", 0.396), ("Sydney", 0.420)):
        got = placed("niser", ("aws", "aws", "aws", city), phalak)
        assert got.usd_per_hour.egress * got.step.total / 3600 == pytest.approx(usd_per_gb * 17e6 / GIB)


def test_one_cloud_is_cheap_but_two_are_faster(phalak: Catalog) -> None:
    """P23: the cheapest placement has one provider, the fastest has two."""
    found = all_48("niser", phalak)
    cheapest = min(found, key=lambda c: usd_per_step(found[c]))
    fastest = min(found, key=lambda c: found[c].step.total)
    assert len(set(cheapest[:3])) == 1
    assert len(set(fastest[:3])) == 2


def test_transfer_and_waiting_outweigh_the_function(phalak: Catalog) -> None:
    """P17: most of a mini-batch is waiting for gradients and transfer, not the sum itself."""
    step = placed("niser", ("aws", "aws", "aws", "Oregon"), phalak).step
    parts = dict(step.parts)
    assert parts["upload"] + parts["download"] > parts["aggregate"]
    assert step.waiting > 0
