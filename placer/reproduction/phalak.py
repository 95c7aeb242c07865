"""Phalak et al. (ICPE 2024): dollars and seconds of the 48 placements of a serverless aggregator,
and the claims.
"""

from __future__ import annotations

from typing import Any

from placer.cost_model.estimate import Estimate
from placer.documents.schemas.measured import PaperRow
from placer.market.books.book_reader import load_catalog
from placer.reproduction.comparison import Reproduction, paper_row, reproduction
from placer.reproduction.phalak_claims import judged
from placer.reproduction.phalak_placements import (
    BOOK,
    CHOICES,
    MODELS,
    Study,
    usd_per_step,
    work_out,
)
from placer.units import SECONDS_PER_HOUR

TITLE = (
    "Phalak et al., Towards Geo-Distributed Training of ML Models in a Multi-Cloud "
    "Environment (ICPE 2024)"
)
USD, SECONDS = "USD per mini-batch", "seconds per mini-batch"
NOTES = (
    "48 placements: VMs of 3 clouds, one in each of 4 cities, x Lambda or Google Cloud "
    "Functions (GCF) "
    "x S3 or GCS in 4 cities; VMs with 2 vCPUs and 8 GB.",
    "Prices are list prices. Links are estimated from distance, store and function times "
    "and the speed of the VMs are assumed: "
    "no figures of them are known from the paper, so orders of time within 6 % are not decided.",
    "Seconds: calculation, download and upload until the first gradient is there, waiting "
    "for the last one, aggregate.",
)


def reproduce() -> Reproduction:
    """Estimate the 48 placements of both models and check the claims."""
    study = work_out(load_catalog(BOOK))
    return reproduction(
        paper="phalak", title=TITLE, rows=placement_rows(study), claims=judged(study), notes=NOTES
    )


def usd_parts(estimate: Estimate) -> dict[str, float]:
    """Price of one mini-batch by component in USD (Phalak et al., eq. 1)."""
    usd, hours = estimate.usd_per_hour, estimate.step.total / SECONDS_PER_HOUR
    return {
        "compute": usd.compute * hours,
        "functions": usd.functions * hours,
        "storage": usd.storage * hours,
        "transfer": usd.egress * hours,
    }


def seconds_parts(estimate: Estimate) -> dict[str, float]:
    """Split the seconds of a mini-batch; the first gradient is that of the shortest ways."""
    parts, waiting = dict(estimate.step.parts), estimate.step.waiting
    return {
        "calculation": estimate.step.calculation,
        "download and upload": parts["download"] + parts["upload"] - waiting,
        "waiting": waiting,
        "aggregate": parts["aggregate"],
    }


def placement_rows(study: Study) -> tuple[PaperRow, ...]:
    """Build two rows for each placement and model: dollars and seconds, by part."""
    rows: list[PaperRow] = []
    for model in MODELS:
        estimates = study.estimates[model]
        for told, best in ((_usd, study.cheapest(model)), (_seconds, study.fastest(model))):
            rows += [
                paper_row(
                    groups=(model,),
                    label=choice.label,
                    family=choice.family,
                    best=choice == best,
                    **told(estimates[choice]),
                )
                for choice in CHOICES
            ]
    return tuple(rows)


def _usd(estimate: Estimate) -> dict[str, Any]:
    ours, parts = usd_per_step(estimate), usd_parts(estimate)
    return {"quantity": USD, "unit": "USD", "ours": ours, "parts": parts}


def _seconds(estimate: Estimate) -> dict[str, Any]:
    speed, ours = estimate.samples_per_second, estimate.step.total
    ends = {"low": ours * speed.value / speed.high, "high": ours * speed.value / speed.low}
    parts = seconds_parts(estimate)
    return {"quantity": SECONDS, "unit": "s", "ours": ours, **ends, "parts": parts}
