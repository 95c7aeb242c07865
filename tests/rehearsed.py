"""Plans by hand for the tests of rehearsals, and their manifests."""

import json
from pathlib import Path
from typing import Any

from placer.cost_model.estimate import estimate
from placer.documents.manifest import build_manifest
from placer.interface.advisor import Advisor
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.by_hand import place_by_hand

US, EU = "gcp/us-central1", "gcp/europe-west1"
TWO, FOUR = (f"{US}={n}xT4:spot,{EU}={n}xT4:spot" for n in (1, 2))
"""Erben et al. (2024), table 3: 210 Mb/s and 103 ms between them."""
OREGON, LONDON = "aws/us-west-2", "aws/eu-west-2"
STORES: dict[str, Any] = {
    "model": "niser",
    "book": "phalak-2023",
    "workers": f"{OREGON}=1xCPU-2:on-demand,{LONDON}=2xCPU-2:on-demand",
    "aggregator": OREGON,
    "storage": OREGON,
    "tbs": "64",
}
"""Plans through object stores."""


def by_hand(
    model: str = "resnet50", book: str = "erben-2023", workers: str = TWO, **words: Any
) -> tuple[Problem, Placement]:
    """A question and a placement."""
    problem = Advisor((book,)).problem(model, **{"exchange": "all-reduce", **words})
    return problem, place_by_hand(workers, problem)


def manifest_of(problem: Problem, placement: Placement) -> dict[str, Any]:
    """Its manifest."""
    return build_manifest(problem, placement, estimate(placement, problem), "feasible", None)


def written(folder: Path, **words: Any) -> Path:
    """A manifest in a file."""
    path = folder / "plan.json"
    path.write_text(json.dumps(manifest_of(*by_hand(**words))), encoding="utf-8")
    return path
