"""A question with changed wishes, prices, links and speeds, beside the same question as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, product
from typing import Any

from placer.advice.recommendation.other_answers import preferred
from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.documents.result_parts import data_document, estimate_document, request_document
from placer.errors import PlacerError
from placer.market.words.selection import gpus_like, places_of
from placer.market.words.selection import words as split
from placer.problem.contradictions import without_contradictions
from placer.problem.kept_answers import Recent
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements
from placer.problem.words.changes import OVER_BOOK, Change, change_document, changed_book, number_of
from placer.problem.words.data import floor_in_samples, in_plain_words
from placer.problem.words.readers import read_wish
from placer.problem.words.request import in_sequences
from placer.problem.words.wishes import CHANGES, Wish
from placer.records import replace
from placer.report.shown import Shown
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result, answer_document
from placer.solving.solve import require_pools, solve
from placer.units import parse_bytes
from placer.workload.profile import ModelProfile, Rate

NONE = "none"
"""Takes a limit away."""
PLAIN = Requirements()
"""A request without wishes."""
NAMES = 64
"""Names of devices that a catalog keeps resolved: thousands of worlds change the same few."""
Rates = dict[tuple[str, int, str], Rate]
"""Speeds by device, devices in a machine, and software."""
HUB = ("aggregator", "function", "storage")
"""Fields that belong to one exchange and fall with it."""


def apply(problem: Problem, changes: Sequence[Change]) -> Problem:
    """Make the question of a changed world; each change works on what those before it left.

    Prices, links and speeds are changed in the rows of the book and of the profile, so that
    solvers, estimates and saved problems see one world; see `changed_book`. Raises PlacerError if a
    pattern matches nothing, or the changed wishes contradict each other.
    """
    for what, group in groupby(changes, key=lambda change: change.what):
        problem = _applied(problem, what, list(group))
    wishes = any(change.what in CHANGES for change in changes)
    return without_contradictions(problem) if wishes else problem


def _applied(problem: Problem, what: str, changes: list[Change]) -> Problem:
    """Apply neighbours of one kind together."""
    if what in OVER_BOOK or what == "drop":
        return replace(problem, catalog=changed_book(problem.catalog, changes))
    if what == "rate":
        return replace(problem, profile=set_rates(problem, changes))
    for change in changes:
        if what == "gradient":  # speeds and memory stay
            size = max(1, round(problem.profile.gradient_bytes_fp32 * (change.factor or 1.0)))
            larger = replace(problem.profile, gradient_bytes_fp32=size)
            problem = replace(problem, profile=larger)
        elif what == "quota":
            problem = replace(problem, requirements=set_quota(problem, change))
        else:
            problem = in_sequences(replace(problem, requirements=set_wish(problem, change)))
    return problem


def set_quota(problem: Problem, change: Change) -> Requirements:
    """Lay a quota over those of a request: the last row that matches counts."""
    (place, gpu, market), gpus = change.target, int(number_of(change.value) or 0)
    rows = [
        Quota(place=pattern, gpu=name, market=market, gpus=gpus)
        for pattern in places_of(place, problem.catalog)
        for name in (("*",) if gpu == "*" else gpus_like(gpu, problem.catalog))
    ]
    return replace(problem.requirements, quotas=(*problem.requirements.quotas, *rows))


def set_rates(problem: Problem, changes: Sequence[Change]) -> ModelProfile:
    """Change how fast a model runs on some devices, alone and in a group alike.

    An unmeasured device is estimated from a measured one, so the speeds of all devices are first
    written down as they are: a changed T4 must not change what is estimated from it. A value is
    samples/s of one GPU alone; machines with several follow in proportion.
    """
    held: Recent[tuple[ModelProfile, Rates]] = problem.catalog.memo.setdefault("rates", Recent(1))
    # While the profile is held, its id is its own.
    _, rates = held.get(id(problem.profile), lambda: (problem.profile, _all_rates(problem)))
    named: Recent[tuple[str, ...]] = problem.catalog.memo.setdefault("gpus like", Recent(NAMES))
    known = dict(rates)
    for change in changes:
        text, target, value = change.text, change.target, number_of(change.value)
        gpus = named.get(target[0], partial(gpus_like, target[0], problem.catalog))
        count = int(target[1]) if len(target) == 2 else None
        touched = [key for key in known if key[0] in gpus and count in (None, key[1])]
        if not touched:
            raise PlacerError(
                f"change '{text}': nobody knows how fast {problem.profile.name} is on it",
                "see placer models",
            )
        times_of = {
            gpu: change.factor if value is None else value / _alone(known, gpu, text)
            for gpu, _, _ in touched
        }
        for key in touched:
            now, times = known[key], times_of[key[0]] or 1.0
            ends = {end: getattr(now, end) * times for end in ("value", "low", "high")}
            known[key] = replace(now, source=f"what if: {text}; {now.source}", **ends)
    return replace(problem.profile, rates=tuple(known.values()))


def _alone(known: Rates, gpu: str, text: str) -> float:
    """Return the samples/s of one GPU alone."""
    rate = known.get((gpu, 1, "none"))
    if rate is None:
        raise PlacerError(
            f"change '{text}': nobody knows how fast one {gpu} alone is", f"write rate:{gpu}=xF"
        )
    return rate.value


def _all_rates(problem: Problem) -> Rates:
    """Return every speed of the model on machines of the catalog, and those of its profile."""
    profile, catalog = problem.profile, problem.catalog
    known = {(rate.gpu, rate.gpu_count, rate.framework): rate for rate in profile.rates}
    kinds = {(offer.gpu, count) for offer in catalog.offers for count in (1, offer.gpu_count)}
    for (gpu, count), framework in product(sorted(kinds), ("none", "hivemind")):
        rate = profile.rate(catalog.gpu(gpu), count, framework, catalog)
        if rate is not None:
            named = replace(rate, gpu=gpu, gpu_count=count, framework=framework)
            known[gpu, count, framework] = named
    return known


def set_wish(problem: Problem, change: Change) -> Requirements:
    """Change one wish of `CHANGES` by a factor or to new words, of which ``none`` takes a limit
    away.

    Raises PlacerError for words that do not fit the wish, or nothing to multiply.
    """
    name, wish, known = change.what, CHANGES[change.what], problem.requirements
    if name == "samples":
        known = replace(known, tokens=None)
    if name == "data":  # it lies where the change says
        known = replace(known, data_source=None, copy_s=0.0)
    if change.factor is not None:
        return replace(known, **_scaled(wish, problem, change.factor, change.text))
    words = str(change.value)
    if words == NONE and wish.removable:
        return replace(known, **{field: getattr(PLAIN, field) for field in wish.fields})
    if wish.name == "min_throughput":
        words = floor_in_samples(words, problem.profile)
    if name == "data":
        listed, size = in_plain_words(split(words, name), problem.profile)
        words = ",".join(listed)
        if size is not None:
            known = replace(known, data_bytes=parse_bytes(size))
    samples = None if known.samples is None else str(known.samples)
    changed = read_wish(wish, words, problem.catalog, {"samples": samples})
    if name == "exchange" and words != known.exchange:
        changed |= {field: getattr(PLAIN, field) for field in HUB}
    return replace(known, **changed)


def _scaled(wish: Wish, problem: Problem, factor: float, text: str) -> dict[str, Any]:
    """Multiply the amounts of a wish; whole numbers stay whole, at least 1."""
    known = problem.requirements
    now = {field: getattr(known, field) for field in wish.fields}
    if wish.name == "tbs":
        now = {"target_batch_size": problem.batch}
    amounts = {field: v for field, v in now.items() if isinstance(v, int | float)}
    if not amounts:
        raise PlacerError(
            f"change '{text}': the request has no {wish.word} to multiply",
            f"give {wish.flag}, or write {wish.word}=VALUE",
        )
    changed: dict[str, Any] = {
        field: max(1, round(value * factor)) if wish.whole else value * factor
        for field, value in amounts.items()
    }
    return changed | ({"batch_tokens": None} if wish.name == "tbs" else {})


SCHEMA = "placer.whatif/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A choice in another world: its estimate there, and what stands against it.

    ``estimate`` is None where it cannot run at all: ``broken`` then says why. ``value`` is that of
    the objective.
    """

    placement: Placement
    estimate: Estimate | None = None
    value: float | None = None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WhatIf(Shown):
    """Two answers side by side, and what the first would do in the world of the second."""

    changes: tuple[Change, ...]
    before: Result
    after: Result
    kept: Kept | None = field(default=None)

    def __repr__(self) -> str:
        changes = " ".join(change.text for change in self.changes)
        return f"<WhatIf {changes}: {self.before.headline} -> {self.after.headline}>"

    @property
    def same(self) -> bool:
        """Whether both worlds have the same best placement."""
        one, other = self.before.placement, self.after.placement
        return (one and one.canonical()) == (other and other.canonical())

    @property
    def regret(self) -> float | None:
        """Share of the changed world's best value that keeping the old choice gives up."""
        kept = None if self.kept is None or self.kept.broken else self.kept.value
        best = self.after.value
        return None if kept is None or best is None else self.after.objective.regret(kept, best)

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.whatif/v1`` document."""
        kept, world, question = self.kept, self.after.problem, self.before.problem
        return {
            "schema": SCHEMA,
            "request": request_document(question),
            "data": data_document(question),
            "changes": [change_document(change) for change in self.changes],
            "before": {"request": request_document(question), **answer_document(self.before)},
            "after": {"request": request_document(world), **answer_document(self.after)},
            "difference": self._difference(),
            "same_placement": self.same,
            "kept": kept
            and {
                "estimate": kept.estimate and estimate_document(kept.estimate),
                "objective": {"name": world.requirements.objective, "value": kept.value},
                "violations": list(kept.broken),
                "relative_regret": self.regret,
            },
        }

    def _difference(self) -> dict[str, float] | None:
        one, other = self.before.estimate, self.after.estimate
        if one is None or other is None:
            return None
        before, after = figures_of(one), figures_of(other)
        return {name: after[name] - before[name] for name in before}


def figures_of(estimate: Estimate) -> dict[str, float]:
    """Return the figures that are put side by side; samples and tokens are those that count."""
    return {
        "samples_per_second": estimate.effective_samples_per_second.value,
        "usd_per_hour": estimate.usd_per_hour.total,
        "egress_usd_per_hour": estimate.usd_per_hour.egress,
        "usd_per_million_samples": estimate.usd_per_million_samples,
        **estimate.token_figures,
    }


def keep(placement: Placement, world: Problem) -> Kept:
    """Put a choice into another world: price it, and list what it breaks there."""
    try:
        priced = estimate(placement, world)
        broken = tuple(violation.message for violation in violations(placement, world))
    except PlacerError as error:  # its machines, its function or its store are gone
        return Kept(placement=placement, broken=(error.message,))
    value = objective_of(world.requirements).value(priced)
    known = value if math.isfinite(value) else None  # emissions that nobody knows
    return Kept(placement=placement, estimate=priced, value=known, broken=broken)


def _at_least(kept: Kept | None, after: Result) -> Result:
    """Return the old choice where a search that proves nothing found nothing as good."""
    if kept is None or kept.broken or kept.value is None:
        return after
    worse = after.value is None or after.objective.better(kept.value, after.value)
    if not worse or after.status.settled:
        return after
    status = Status.FEASIBLE if after.status is Status.UNKNOWN else after.status
    return replace(after, placement=kept.placement, estimate=kept.estimate, status=status)


def what_if(
    problem: Problem,
    changes: Sequence[Change],
    solver: str = "exact",
    options: SolveOptions | None = None,
) -> WhatIf:
    """Solve a question as it is and as changed at least once.

    Raises PlacerError if nothing is changed, a pattern matches nothing, or no machine is admitted.
    """
    if not changes:
        raise PlacerError(
            "nothing is changed",
            "give --set WHAT=CHANGE or --drop PLACE, such as --set 'price:gcp/*:T4=x0.5'",
        )
    changed = apply(problem, changes)
    for world in (problem, changed):
        require_pools(world)
    options = options or SolveOptions()
    # One Ctrl-C ends both searches.
    with allowance.opened(memory_limit_bytes=options.memory_limit_bytes, cancel=options.cancel):
        before = preferred(solve(problem, solver, options), solver, options)
        # The changed world is asked at newer prices too, and its data lies where it was copied to.
        if before.older is not None or before.problem.data_copy is not None:
            changed = apply(before.problem, changes)
        kept = None if before.placement is None else keep(before.placement, changed)
        start = None if kept is None or kept.broken else kept.placement
        after = _at_least(kept, solve(changed, solver, replace(options, start=start)))
    return WhatIf(changes=tuple(changes), before=before, after=after, kept=kept)
