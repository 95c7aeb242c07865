"""Tan et al., Cloudless-Training (2023): elastic scheduling, ASGD-GA and model averaging, in cases
of placer's own.

Only the abstract's figures are known, no workload, price or table behind them: the cases below are
made up from the machines and prices of Erben et al. (2024), and placer's figures stand beside the
published ranges, not against them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from placer.cost_model.estimate import Estimate, estimate
from placer.documents.schemas.measured import PaperRow, Verdict
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.problem.datasets import Dataset
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.reproduction.comparison import (
    Finding,
    Reproduction,
    judged_claims,
    paper_row,
    reproduction,
)
from placer.solving.answer import SolveOptions
from placer.solving.by_hand import place_by_hand
from placer.solving.solve import solve
from placer.workload.profile import load_profile

TITLE = (
    "Tan et al., Cloudless-Training: A Framework to Improve Efficiency of Geo-Distributed "
    "ML Training (arXiv 2303.05330)"
)
BOOK = "erben-2023"
FOLDER = "cloudless"
MODELS = ("resnet50", "convnext-large")
LOCAL_STEPS = 8
"""Steps between exchanges of regions: an example, the paper's numbers are not known."""
REGIONS = {
    "two regions": {"lambda/us-west-1": "8xA10:on-demand", "gcp/us-central1": "8xT4:spot"},
    "three regions": {
        "lambda/us-west-1": "8xA10:on-demand",
        "gcp/us-central1": "8xT4:spot",
        "gcp/europe-west1": "8xT4:spot",
    },
}
"""Everything that is available: unequal devices, as in the paper's setting."""
SPLITS = {"equal data": (2, 2, 2), "data 2 : 1": (4, 2, 2), "data 3 : 1": (6, 2, 2)}
"""Samples in each region, in millions; they must stay."""
STRATEGIES = ("model-averaging", "asgd-ga")
SAVED = "saved"
"""Share of the cost that the elastic choice saves."""
EQUAL = 1 - 1e-6
"""Share of the throughput that counts as equal time."""
NOTES = (
    "Cases of placer's own: 8 x A10 at Lambda and 8 x T4 in one or two Google regions, "
    "prices of April 2023, data that must stay in each "
    "region. The paper's workloads and prices are not known.",
    f"Everything rented: all of these machines. Elastic: the cheapest machines of the same "
    f"GPUs that are as fast. H = {LOCAL_STEPS}.",
    "Times as fast: at equal samples to target, by placer's table of multipliers, over a "
    "synchronous all-reduce of the same machines.",
)


def reproduce() -> Reproduction:
    """Work out the cases and put the published ranges beside them."""
    book = load_catalog(BOOK)
    costs = [row for case in elastic_cases(book) for row in _cost_rows(*case)]
    speeds = list(speed_rows(book))
    saved = [row.ours for row in costs if row.quantity == SAVED]
    findings = {"L01": _saving(saved), "L02": _speed([row.ours for row in speeds])}
    claims = judged_claims(FOLDER, lambda claim: findings[claim.id])
    rows = (*costs, *speeds)
    return reproduction(paper="cloudless", title=TITLE, rows=rows, claims=claims, notes=NOTES)


def elastic_cases(book: Catalog) -> Iterator[tuple[str, str, Estimate, Estimate]]:
    """Rent everything, then look for the cheapest choice that is as fast; yield the group and label
    of each case, and both.
    """
    for group, split, model in product(REGIONS, SPLITS, MODELS):
        placement, problem = _everything(group, split, model, "model-averaging", book)
        rented = estimate(placement, problem)
        floor = rented.effective_samples_per_second.value * EQUAL
        wish = replace(
            problem.requirements, objective="cost", min_samples_per_second=floor, gpus=("A10", "T4")
        )
        options = SolveOptions(gap=0.0, break_ties=False)  # its price is shown alone
        elastic = solve(replace(problem, requirements=wish), "exact", options).estimate
        if elastic is not None:
            yield group, f"{model}, {split}", rented, elastic


def speed_rows(book: Catalog) -> Iterator[PaperRow]:
    """Compare each strategy with a synchronous all-reduce at equal samples to target."""
    for group, model in product(REGIONS, MODELS):
        plain = _effective(group, model, "all-reduce", book)
        for strategy in STRATEGIES:
            times = _effective(group, model, strategy, book) / plain
            case = f"{model}, {strategy}"
            yield _row(group, case, "times as fast as synchronous", "x", times)


def _effective(group: str, model: str, strategy: str, book: Catalog) -> float:
    placement, problem = _everything(group, "data 3 : 1", model, strategy, book)
    return estimate(placement, problem).effective_samples_per_second.value


def _everything(
    group: str, split: str, model: str, strategy: str, book: Catalog
) -> tuple[Placement, Problem]:
    """Rent all machines of a case, with data that stays."""
    regions = REGIONS[group]
    data = tuple(
        Dataset(place=p, samples=n, may_move=False)
        for p, n in zip(regions, SPLITS[split], strict=False)
    )
    steps = None if strategy == "all-reduce" else LOCAL_STEPS
    wish = Requirements(
        exchange=strategy, datasets=data, min_local_steps=steps, max_local_steps=steps
    )
    problem = Problem(profile=load_profile(model), catalog=book, requirements=wish)
    return place_by_hand(
        ",".join(f"{place}={machines}" for place, machines in regions.items()), problem
    ), problem


def _cost_rows(group: str, case: str, rented: Estimate, elastic: Estimate) -> Iterator[PaperRow]:
    usd, least = rented.usd_per_hour.total, elastic.usd_per_hour.total
    yield _row(group, case, "everything rented", "USD/h", usd)
    yield _row(group, case, "elastic", "USD/h", least)
    yield _row(group, case, SAVED, "%", 100 * (1 - least / usd))


def _row(group: str, case: str, quantity: str, unit: str, ours: float) -> PaperRow:
    return paper_row(
        groups=(group,), label=case, family=case, quantity=quantity, unit=unit, ours=ours
    )


def _saving(saved: list[float]) -> Finding:
    return Finding(
        Verdict.UNDECIDED,
        f"placer's own cases save {min(saved):.1f} to {max(saved):.1f} % at equal time, none "
        f"costs more",
        "the saving depends on how unequal devices and data are; the paper's workloads and "
        "prices are not known",
    )


def _speed(times: list[float]) -> Finding:
    return Finding(
        Verdict.UNDECIDED,
        f"{min(times):.2f} to {max(times):.2f} times a synchronous all-reduce in placer's own "
        "cases",
        "the paper's baseline, links and models are not known; the samples to target are "
        "placer's table",
    )
