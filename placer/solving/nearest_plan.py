"""What a model lacks where no machine is admitted for it, what would fit, and stages of several
devices that may be faster than any worker of one: found, not proved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import isfinite
from typing import Any, NamedTuple

from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.market.catalog import VmOffer, worker_name
from placer.problem.admitted_exchanges import exchanges
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.wishes import INSIDE
from placer.problem.workers.admission import STALE
from placer.problem.workers.pool import ChainPart
from placer.problem.workers.speeds import island_kind
from placer.records import replace
from placer.units import GIB, format_usd
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import Island, Refusal
from placer.workload.island.chain import MOST_PARTS
from placer.workload.island.hardware import usual_precision
from placer.workload.island.transformer_speed import calculation_seconds
from placer.workload.software import software

MOST_TIMED = 12
"""Chains that are timed: two parts of a dense model take 0.2 CPU seconds."""
MOST_PLACES = 6
"""Places over which chains are looked for: those whose devices calculate most."""


class Machines(NamedTuple):
    """Machines of an offer that limits leave, and the most samples/s that one calculates."""

    offer: VmOffer
    most: int
    samples_per_s: float


def best_chain(problem: Problem) -> Placement | None:
    """Find a fast worker whose stages are machines of two offers in one place; over two or three
    places only where no place holds the model. None if none was found that keeps all limits. Of
    each pair as many machines of the one are taken as the limits leave, or the largest power of two
    of them, and of the other as many as money then buys. Pairs are timed in the order of what their
    devices calculate together without any exchange, which no chain of them exceeds, until that is
    no more than the best found or `MOST_TIMED` were. Over places the first that fits is taken.
    """
    if problem.island_question is None or problem.requirements.min_workers > 1:
        return None
    there = list(_machines(problem))
    places = {machines.offer.place for machines in there}
    inside = [
        pair
        for place in sorted(places)
        for pair in permutations([m for m in there if m.offer.place == place], 2)
    ]
    found = _fastest(inside, problem)
    if found is None and problem.requirements.max_regions > 1:
        order = sorted(there, key=lambda m: (-m.most * m.samples_per_s, m.offer.usd_per_hour))
        first = order[:MOST_PLACES]
        apart = [c for count in range(2, MOST_PARTS + 1) for c in combinations(first, count)]
        apart = [c for c in apart if len({m.offer.place for m in c}) > 1]
        fitting = (_placed(parts, problem) for parts, _ in _promising(apart, problem)[:MOST_TIMED])
        found = next((c for c in fitting if c is not None and not violations(c, problem)), None)
    return found


def _machines(problem: Problem) -> Iterator[Machines]:
    """Yield the cheapest of the largest machines of each device, market and place."""
    question = problem.island_question
    assert question is not None
    chosen: dict[tuple[str, str, str], VmOffer] = {}
    for offer in problem.admitted_offers():
        key = offer.place, offer.gpu, offer.market
        if offer.network_gbps and offer.fabric and problem.catalog.gpu(offer.gpu).kind == "gpu":
            known = chosen.get(key, offer)
            chosen[key] = min(known, offer, key=lambda o: (-o.gpu_count, o.usd_per_hour))
    rates: dict[str, float] = {}
    for offer in chosen.values():
        most = min(problem.machines_there(offer), question.limits(offer)[1])
        gpu = problem.catalog.gpu(offer.gpu)
        if gpu.gpu not in rates:
            plan = InnerPlan(precision=problem.requirements.precision or usual_precision(gpu))
            rates[gpu.gpu] = 1 / calculation_seconds(question.architecture, gpu, plan, 1)
        if most > 0:
            yield Machines(offer, most, offer.gpu_count * rates[gpu.gpu])


def _fastest(chosen: Sequence[Sequence[Machines]], problem: Problem) -> Placement | None:
    best: Placement | None = None
    speed = 0.0
    for parts, most in _promising(chosen, problem)[:MOST_TIMED]:
        if most <= speed:
            break
        placed = _placed(parts, problem)
        if placed is None or violations(placed, problem):
            continue
        got = evaluate(placed, problem).samples_per_second
        if got > speed:
            best, speed = placed, got
    return best


def _promising(
    chosen: Sequence[Sequence[Machines]], problem: Problem
) -> list[tuple[tuple[ChainPart, ...], float]]:
    """List chains that may hold the model, with the most samples/s; the most first."""
    counted = {
        tuple(ChainPart(m.offer, n, None) for m, n in zip(machines, counts, strict=True)): sum(
            n * m.samples_per_s for n, m in zip(counts, machines, strict=True)
        )
        for machines in chosen
        for counts in _counts(machines, problem)
    }
    held = [(parts, most) for parts, most in counted.items() if _may_hold(parts, problem)]
    return sorted(held, key=lambda item: -item[1])


def _may_hold(parts: Sequence[ChainPart], problem: Problem) -> bool:
    """Tell whether the devices have memory for weights and optimizer states alone."""
    question = problem.island_question
    assert question is not None
    gpu = problem.catalog.gpu
    states = software(problem.requirements.software)
    each = states.master_bytes + states.optimizer_bytes
    room = sum(n * o.gpu_count * gpu(o.gpu).memory_gib * GIB for o, n, _ in parts)
    return room >= each * question.architecture.trainable_parameters


def _counts(machines: Sequence[Machines], problem: Problem) -> Iterator[tuple[int, ...]]:
    """Yield how many machines of each are taken: of the first most, of the others what is left."""
    budget = problem.requirements.budget_usd_per_hour
    left = math.inf if budget is None else budget
    for fewer in (False, True):
        usd, counts = left, []
        for each in machines:
            count = int(min(each.most, usd // each.offer.usd_per_hour if usd < math.inf else 1e9))
            if fewer and count:
                count = 1 << (count.bit_length() - 1)
            usd -= count * each.offer.usd_per_hour
            counts.append(count)
        if all(counts):
            yield tuple(counts)


def _placed(parts: Sequence[ChainPart], problem: Problem) -> Placement | None:
    head, *behind = parts
    pool = problem.pool(head.offer, head.machines, None, 1, tuple(behind))
    if pool is None:
        return None
    (exchange, *_) = exchanges(problem, {head.offer.place: 1})
    return Placement(groups=(pool.group(1),), exchange=exchange)


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
