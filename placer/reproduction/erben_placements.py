"""The experiments of Erben et al. (PVLDB 17(6), 2024) by name, as placements over the places of
their book.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from placer.cost_model.estimate import Estimate, estimate
from placer.market.catalog import Catalog
from placer.market.network.graph import Network, network_of
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.workload.profile import load_profile

BOOK = "erben-2023"
CV, NLP, ASR = "convnext-large", "roberta-xlm", "whisper-small"
VISION = ("resnet18", "resnet50", "resnet152", "wide-resnet101", CV)
LANGUAGE = ("roberta-base", "roberta-large", NLP)
CONTINENTS = ("gcp/us-central1", "gcp/europe-west1", "gcp/asia-east1", "gcp/australia-southeast1")
US, EU, _, _ = CONTINENTS
WEST, AWS, AZURE = "gcp/us-west1", "aws/us-west-2", "azure/southcentralus"
LAMBDA, SITE, DGX2 = "lambda/us-west-1", "onprem/erben-eu", "onprem/erben-dgx2"


def _on(places: tuple[str, ...], count: int, gpu: str = "T4") -> str:
    return ",".join(f"{place}={count}x{gpu}" for place in places)


RUNS = {
    **{f"A-{n}": _on((US,), n) for n in (1, 2, 3, 4, 6, 8)},
    **{f"B-{2 * n}": _on((US, EU), n) for n in (1, 2, 4)},
    "C-3": _on(CONTINENTS[:3], 1),
    "C-4": _on(CONTINENTS, 1),
    "C-6": _on(CONTINENTS[:3], 2),
    "C-8": _on(CONTINENTS, 2),
    "D-1": _on((WEST,), 4),
    "D-2": _on((WEST, AWS), 2),
    "D-3": _on((WEST, AZURE), 2),
    "E-A-8": f"{SITE}=1xRTX8000,{_on((EU,), 8)}",
    "E-B-8": f"{SITE}=1xRTX8000,{_on((US,), 8)}",
    "E-C-8": f"{SITE}=1xRTX8000,{_on((LAMBDA,), 8, 'A10')}",
    "1xT4": _on((WEST,), 1),
    "8xT4": _on((WEST,), 8),
    "4xT4 node": f"{US}=1xT4:4",
    "E-A-1": f"{SITE}=1xRTX8000,{_on((EU,), 1)}",
    "F-A-8": f"{DGX2}=1xV100:8,{_on((EU,), 8)}",
    "F-C-8": f"{DGX2}=1xV100:8,{_on((LAMBDA,), 8, 'A10')}",
    "DGX-2": f"{DGX2}=1xV100:8",
    "rented DGX-2": f"{US}=1xV100:8",
    **{f"{n}xA10": _on((LAMBDA,), n, "A10") for n in (1, 2, 8)},
}
"""Workers of each experiment: table 2 (A, B, C), sections 5 (D), 6 (E, F), 3 (A10), 7 (nodes)."""


@dataclass(frozen=True)
class Bench:
    """The book of the paper and placer's estimates of its experiments, on the cheapest market."""

    book: Catalog

    @cached_property
    def network(self) -> Network:
        """Links and egress prices of the book."""
        return network_of(self.book)

    @cached_property
    def unmeasured(self) -> Network:
        """The same places without a measured link: all are estimated from coordinates."""
        return network_of(replace(self.book, links=()))

    def place(
        self, model: str, workers: str, tbs: int | None = None, *, same_zone: bool = True
    ) -> tuple[Placement, Problem]:
        """Place workers as on the command line."""
        wish = Requirements(same_zone=same_zone, target_batch_size=tbs)
        problem = Problem(profile=load_profile(model), catalog=self.book, requirements=wish)
        return place_by_hand(workers, problem), problem

    def estimate(self, model: str, run: str, tbs: int | None = None) -> Estimate:
        """Estimate an experiment of `RUNS`."""
        return estimate(*self.place(model, RUNS[run], tbs))

    def speed(self, model: str, run: str, tbs: int | None = None) -> float:
        """Return the samples/s of an experiment."""
        return self.estimate(model, run, tbs).samples_per_second.value
