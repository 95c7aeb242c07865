"""What a model lacks where no machine is admitted for it, and what would fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

from placer.market.catalog import VmOffer, worker_name
from placer.problem.problem import Problem
from placer.problem.words.wishes import INSIDE
from placer.problem.workers.admission import STALE
from placer.problem.workers.speeds import island_kind
from placer.records import replace
from placer.solving.parts.chains import best_chain
from placer.units import format_usd
from placer.workload.island import Island, Refusal

WISHES = frozenset({"gpu", "market", STALE, "carbon", "estimated"})
"""Codes of offers that a wish leaves out, whatever plan they could work by."""
RELAXATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("with a quota of {gpus} GPUs", {"quotas": (), "quota_gpus": None}),
    ("with --supply any", {"supply": None}),
    ("with --gpu {gpu}", {"gpus": ()}),
    ("with the plan {plan}", dict.fromkeys(INSIDE.values())),
    (
        "with {machines} machines to an island in one zone",
        {"same_zone": True, "min_island_machines": None, "max_island_machines": None},
    ),
)
"""What may be given up, in words about what then fits, and the wishes that go."""
SCARCE = RELAXATIONS[:3]
"""Those about what there is to rent: stages of several devices may do with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Some machines of an offer as one worker, and whether they can train a model."""

    offer: VmOffer
    machines: int
    built: Island | Refusal

    @property
    def gpus(self) -> int:
        """GPUs of all machines."""
        return self.machines * self.offer.gpu_count

    @property
    def usd_per_hour(self) -> float:
        """Price of all machines."""
        return self.machines * self.offer.usd_per_hour

    @property
    def name(self) -> str:
        """The worker as users write it."""
        return worker_name(self.offer.gpu, self.offer.gpu_count, self.machines)


def nearest_plan(problem: Problem) -> tuple[str, str] | None:
    """Say which plan lacks least and what would fit; None where wishes alone decide."""
    if problem.island_question is None:
        return None
    trials = list(_trials(problem))
    if not trials:
        return None
    refused = [(t.built, t) for t in trials if isinstance(t.built, Refusal)]
    if not refused:
        return "the quota allows too few GPUs", _remedy(problem)
    nearest, _ = min(refused, key=lambda pair: _distance(*pair))
    if nearest.plan is None:
        return nearest.reason, _remedy(problem)
    return f"even the nearest plan, {nearest.reason}", _remedy(problem)


def _distance(refusal: Refusal, trial: Trial) -> tuple[float, int, str]:
    """Order refusals: the least shortage on few GPUs, else those of large machines."""
    gpus = trial.gpus if isfinite(refusal.shortage) else -trial.gpus
    return refusal.shortage, gpus, trial.name


def _remedy(problem: Problem) -> str:
    """Name the cheapest worker that fits where one kind of wish is given up, else all of them."""
    wish = problem.requirements
    ways, is_wished = [], False
    for words, freed in RELAXATIONS:
        if all(getattr(wish, name) == value for name, value in freed.items()):
            continue
        fitting = _cheapest(replace(problem, requirements=replace(wish, **freed)))
        if fitting is not None:
            ways.append(_way(fitting, words))
            is_wished |= (words, freed) not in SCARCE
    if not is_wished and (chain := best_chain(problem)):
        ways.append(
            f"stages of several machines fit: placer estimate --workers {chain.groups[0].spec}"
        )
    if ways:
        return "; or ".join(ways)
    everything = {name: value for _, freed in RELAXATIONS for name, value in freed.items()}
    fitting = _cheapest(replace(problem, requirements=replace(wish, **everything)))
    return (
        "no machine of this catalog can train it: choose a smaller model, or --lora N"
        if fitting is None
        else _way(fitting, "without wishes about quota, GPUs and plan")
    )


def _way(fitting: Trial, words: str) -> str:
    assert isinstance(fitting.built, Island)
    given = words.format(
        gpus=fitting.gpus,
        gpu=fitting.offer.gpu,
        machines=fitting.machines,
        plan=fitting.built.plan.spec[1:],
    )
    return f"{fitting.name} for {format_usd(fitting.usd_per_hour)}/h fits {given}"


def _cheapest(problem: Problem) -> Trial | None:
    fitting = (trial for trial in _trials(problem) if isinstance(trial.built, Island))
    return min(fitting, key=lambda trial: (trial.usd_per_hour, trial.gpus), default=None)


def _trials(problem: Problem) -> Iterator[Trial]:
    """Yield the nearest island within the quota of each kind of offer that no wish leaves out."""
    kinds = set()
    for offer in sorted(problem.catalog.offers, key=lambda o: o.usd_per_hour):
        most = problem.machines_there(offer)
        kind = (*island_kind(offer), offer.market, offer.as_of, most)
        if kind in kinds or problem.place_problem(offer.place):
            continue
        kinds.add(kind)
        left_out = WISHES & {code for code, _ in problem.offer_problems(offer)}
        nearest = problem.nearest_island(offer, most)
        if left_out or most < 1 or nearest is None:
            continue
        yield Trial(offer=offer, machines=nearest[0], built=nearest[1])
