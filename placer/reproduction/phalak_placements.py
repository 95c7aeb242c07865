"""The 48 placements of Phalak et al. (ICPE 2024): 3 VM clouds x (Lambda, GCP function) x (S3, GCS)
x 4 cities.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from placer.cost_model.estimate import Estimate, estimate
from placer.market.catalog import Catalog
from placer.market.network.graph import Network
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.units import SECONDS_PER_HOUR
from placer.workload.constants import PUBLISHED, Calibration
from placer.workload.profile import ModelProfile, load_profile

BOOK = "phalak-2023"
MODELS = ("niser", "imdb-lstm")
CITIES = {
    "Mumbai": {"aws": "aws/ap-south-1", "gcp": "gcp/asia-south1", "azure": "azure/westindia"},
    "London": {"aws": "aws/eu-west-2", "gcp": "gcp/europe-west2", "azure": "azure/uksouth"},
    "Oregon": {"aws": "aws/us-west-2", "gcp": "gcp/us-west1", "azure": "azure/westus2"},
    "Sydney": {
        "aws": "aws/ap-southeast-2",
        "gcp": "gcp/australia-southeast1",
        "azure": "azure/australiaeast",
    },
}
CLOUDS = {"aws": "AWS", "gcp": "GCP", "azure": "Azure"}
FUNCTIONS = {"aws": "Lambda", "gcp": "GCF"}
STORES = {"aws": "S3", "gcp": "GCS"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the 48 placements: clouds of VMs, function and store; city of the last two."""

    vms: str
    function: str
    store: str
    city: str

    @property
    def family(self) -> str:
        """The placement without its city."""
        return f"{CLOUDS[self.vms]}/{FUNCTIONS[self.function]}/{STORES[self.store]}"

    @property
    def label(self) -> str:
        """The placement as claims.csv writes it: VMs/function/store, city."""
        return f"{self.family}, {self.city}"

    @property
    def clouds(self) -> int:
        """Number of different clouds in it."""
        return len({self.vms, self.function, self.store})


CHOICES = tuple(
    Choice(v, f, s, c) for v in CLOUDS for f in FUNCTIONS for s in STORES for c in CITIES
)
"""Every placement the paper compares."""


@dataclass(frozen=True)
class Study:
    """What the claims are judged by: book, network and estimates of all placements."""

    book: Catalog
    estimates: dict[str, dict[Choice, Estimate]]
    calibration: Calibration = PUBLISHED
    vm_speed: float = 1.0

    @cached_property
    def network(self) -> Network:
        """Read links and egress prices of the book."""
        return Network(self.book)

    @cached_property
    def gradient_bytes(self) -> dict[str, float]:
        """Return the bytes of one gradient of each model, as sent."""
        profiles = [load_profile(model) for model in self.estimates]
        return {profile.name: profile.gradient_bytes(profile.compression) for profile in profiles}

    def cheapest(self, model: str) -> Choice:
        """Return the placement with the fewest USD per mini-batch."""
        return min(CHOICES, key=lambda c: usd_per_step(self.estimates[model][c]))

    def fastest(self, model: str) -> Choice:
        """Return the placement with the fewest seconds per mini-batch."""
        return min(CHOICES, key=lambda c: self.seconds(model, c))

    def seconds(self, model: str, choice: Choice) -> float:
        """Return the seconds per mini-batch."""
        return self.estimates[model][choice].step.total


def work_out(book: Catalog, calibration: Calibration = PUBLISHED, vm_speed: float = 1.0) -> Study:
    """Estimate all placements of both models; ``vm_speed`` times the assumed speed of the VMs."""
    study = Study(book=book, estimates={}, calibration=calibration, vm_speed=vm_speed)
    estimates = {
        model: {choice: placed(model, choice, study) for choice in CHOICES} for model in MODELS
    }
    return replace(study, estimates=estimates)


def other_assumptions(book: Catalog) -> dict[str, Study]:
    """Work everything out with half and twice the speeds that the paper does not publish."""
    studies, services = {}, PUBLISHED.services
    for words, times in (("half", 0.5), ("twice", 2.0)):
        speeds = ("function_bytes_per_s", "sum_bytes_per_s")
        changed = replace(
            services,
            start_s=services.start_s / times,
            **{name: getattr(services, name) * times for name in speeds},
        )
        calibration = replace(PUBLISHED, services=changed)
        studies[f"{words} the speed of functions and stores"] = work_out(book, calibration)
        studies[f"{words} the speed of the VMs"] = work_out(book, vm_speed=times)
    return studies


def placed(
    model: str, choice: Choice, study: Study, workers_per_city: int = 1, exchange: str = "central"
) -> Estimate:
    """Estimate workers in each city; function and store in one city on any two clouds."""
    workers = ",".join(
        f"{places[choice.vms]}={workers_per_city}xCPU-2" for places in CITIES.values()
    )
    places = CITIES[choice.city]
    wish = Requirements(
        exchange=exchange, aggregator=places[choice.function], storage=places[choice.store]
    )
    problem = Problem(
        profile=_profile(model, study.vm_speed),
        catalog=study.book,
        requirements=wish,
        calibration=study.calibration,
    )
    return estimate(place_by_hand(workers, problem), problem)


def _profile(model: str, vm_speed: float) -> ModelProfile:
    profile, ends = load_profile(model), ("value", "low", "high")
    rates = tuple(
        replace(rate, **{end: getattr(rate, end) * vm_speed for end in ends})
        for rate in profile.rates
    )
    return replace(profile, rates=rates)


def usd_per_step(estimate: Estimate) -> float:
    """Price of one mini-batch in USD."""
    return estimate.usd_per_hour.total * estimate.step.total / SECONDS_PER_HOUR
