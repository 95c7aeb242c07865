"""One's own machines in an answer: alone, with rented ones, or rented ones in place of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from placer.advice.recommendation.other_answers import (
    BASELINE_NODES,
    short_search,
    solve_changed,
    wanting,
)
from placer.cost_model.estimate import Estimate, estimate
from placer.documents.schemas.proofs import BreakEven
from placer.errors import PlacerError
from placer.market.catalog import VmOffer
from placer.market.words.own_places import SITES, host_assumed, own_places
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Used
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Warn
from placer.solving.result import Option, OwnOrRented, Result
from placer.solving.solve import require_pools, solve
from placer.units import format_number, format_rough, format_speed, format_usd, speed_unit

NODES = 200
"""Nodes of the search for each row."""
KEPT = 1 - 1e-6
"""Share of the speed of one's own machines that rented ones must reach: rounding aside, all."""


class _Comparison:
    """Own machines alone, with rented ones, and rented ones alone, beside an answer. What is rented
    is spot machines unless the question asks for another market.
    """

    def __init__(
        self, result: Result, own: tuple[str, ...], solver: str, options: SolveOptions
    ) -> None:
        self.result, self.problem, self.own = result, result.problem, own
        self.solver, self.options = solver, options
        wish = self.problem.requirements
        self.market = "spot" if wish.market == "any" else wish.market
        self.words = self.market.replace("_", "-")
        self.mine = tuple(offer for offer in self.problem.catalog.offers if offer.place in own)
        self.others = tuple(rule for rule in wish.used if rule.place not in own)

    def compared(self, rented: Placement | None) -> OwnOrRented:
        """Compare them: each row is the best that a short search finds; the answer is one of them
        where it has such machines alone. Without a limit that would rent more, rented machines are
        the cheapest of the same speed.
        """
        placement, got = self.result.found
        known = {self._label(placement): Option(placement=placement, estimate=got)}
        alone = {*self.problem.requirements.places_in} == {*self.own}
        if alone and rented is not None:
            known[self._label(rented)] = Option.of(rented, self.problem)
        for label, asked in () if alone else self._questions():
            option = None if label in known else self._best(asked)
            known |= {} if option is None else {label: option}
        rows = tuple(replace(known[label], label=label) for label in sorted(known, key=_order))
        return OwnOrRented(rows=rows, break_even=_break_even(rows), idle=self._idle(rows))

    def _best(self, asked: Problem) -> Option | None:
        """Return what a short search finds, with its figures in the question of the user."""
        short = short_search(self.options, NODES)
        found = solve_changed(asked, asked.requirements, self.solver, short, "")
        return found and replace(found, estimate=estimate(found.placement, self.problem))

    def _questions(self) -> Iterator[tuple[str, Problem]]:
        """Yield the questions whose answers are compared, by the labels of their rows.

        Beside own machines, only rented ones of the same devices: others would wait for them, or
        they for others.
        """
        wish, mine = self.problem.requirements, self.mine
        rented = (o for o in self.problem.catalog.offers if o.place not in self.own)
        kinds, hired = {o.device for o in mine}, tuple(o for o in rented if o.market == self.market)
        both = (*mine, *(o for o in hired if o.device in kinds))
        alone = tuple(rule for rule in wish.used if rule not in self.others)
        away = "|".join(sorted({f"{o.provider}/*" for o in hired} - {f"{SITES}*"})) or "*"
        used = (*wish.used, Used(place=f"{SITES}*"), Used(place=away, market=self.market))
        yield "own", self._asked(mine, places_in=self.own, used=alone)
        yield self.words, self._asked(hired, used=self.others)
        yield f"own + {self.words}", self._asked(both, used=used)

    def _asked(self, offers: tuple[VmOffer, ...], **wishes: object) -> Problem:
        """Return the question about some machines of any market, at expected figures."""
        catalog = replace(self.problem.catalog, offers=offers)
        asked = wanting(self.problem, expected=False, confidence=None, market="any", **wishes)
        return replace(asked, catalog=catalog)

    def _label(self, placement: Placement) -> str:
        """Name the kinds of machines of a placement: own, spot, rented on several markets."""
        mine = any(group.place in self.own for group in placement.groups)
        markets = {group.market for group in placement.groups if group.place not in self.own}
        words = "rented" if markets - {self.market} else self.words
        return " + ".join([*(["own"] if mine else []), *([words] if markets else [])])

    def _idle(self, rows: tuple[Option, ...]) -> str:
        """Say in one sentence why own machines stay idle; empty where all of them work."""
        there = sum(offer.available or 0 for offer in self.mine)
        groups = self.result.found[0].groups
        work = sum(group.machine_count for group in groups if group.place in self.own)
        if work >= there:
            return ""
        if work:
            used = (Used(place=o.place, device=o.device, count=o.available or 1) for o in self.mine)
            every = self._best(self._asked(self.mine, places_in=self.own, used=tuple(used)))
            idle = f"{there - work} of {there} own machines stay{'s' * (there - work == 1)} idle"
            if every is None:
                return f"{idle}: all of them together do not keep the limits of the question"
            return f"{idle}: all of them alone reach {_beside(every, self.result)}"
        reached = [row for row in rows if row.label.startswith("own")]
        if reached:
            names = {"own": "alone they reach"}
            words = (
                f"{names.get(row.label, f'with {row.label[6:]} ones')} {_beside(row, self.result)}"
                for row in reached
            )
            return f"your own machines stay idle: rented ones alone do better; {', '.join(words)}"
        reasons = [r for offer in self.mine for _, r in self.problem.offer_problems(offer)]
        why = reasons[0] if reasons else "no plan with them keeps the limits of the question"
        return f"your own machines stay idle: {why}"

    def rented(self) -> Placement | None:
        """Return the cheapest placement without one's own machines that is as fast."""
        (_, got), wish = self.result.found, self.problem.requirements
        floor = got.effective_samples_per_second.value * KEPT
        asked = wanting(
            self.problem,
            objective="cost",
            expected=False,
            confidence=None,
            places_in=tuple(place for place in wish.places_in if place not in self.own),
            places_not_in=(*wish.places_not_in, *self.own),
            used=self.others,
            budget_usd_per_hour=None,
            budget_usd=None,
            min_samples_per_second=floor,
        )
        if not asked.pools or not math.isfinite(floor):
            return None
        return solve(asked, self.solver, short_search(self.options, BASELINE_NODES)).placement


def _order(label: str) -> tuple[bool, int, str]:
    """Own machines first, alone before others, rented machines last."""
    return not label.startswith("own"), len(label), label


def _break_even(rows: tuple[Option, ...]) -> BreakEven | None:
    """Return the prices at which a sample costs as much on own machines alone as on rented ones;
    None where one of them cannot train the model.

    With what each hour costs beside machines (egress, stores), a sample costs (machines + beside) /
    speed. Either price of machines is solved for; below 0 there is none.
    """
    mine = next((row for row in rows if row.label == "own"), None)
    others = [row for row in rows if not row.label.startswith("own")]
    if mine is None or not others:
        return None
    rented = min(others, key=lambda row: _usd_per_sample(row.estimate))
    machines = mine.placement.machines
    most = _machines_usd(mine.estimate, _usd_per_sample(rented.estimate))
    least = _machines_usd(rented.estimate, _usd_per_sample(mine.estimate))
    paid = rented.estimate.usd_per_hour.compute
    return BreakEven(
        own_usd_per_machine_hour=mine.estimate.usd_per_hour.compute / machines,
        most_own_usd_per_machine_hour=max(0.0, most) / machines,
        rented_usd_per_hour=paid,
        least_rented_usd_per_hour=max(0.0, least),
        rented=rented.label,
    )


def _usd_per_sample(got: Estimate) -> float:
    return got.usd_per_hour.total / got.effective_samples_per_second.value


def _machines_usd(got: Estimate, usd_per_sample: float) -> float:
    """Return what the machines may cost an hour for samples of a price."""
    beside = got.usd_per_hour.total - got.usd_per_hour.compute
    return usd_per_sample * got.effective_samples_per_second.value - beside


def _beside(row: Option, result: Result) -> str:
    """Say what a row reaches, and how far that is from the answer."""
    objective, value = result.objective, result.value
    got = objective.value(row.estimate)
    far = f" ({100 * (got / value - 1):+.0f} %)" if value else ""
    if objective.by_speed:
        speed = row.estimate.effective_samples_per_second.value
        if result.estimate is not None and objective.name == "time":
            best = result.estimate.effective_samples_per_second.value
            far = f" ({100 * (speed / best - 1):+.0f} %)"
        length = row.estimate.tokens_per_sample
        unit = speed_unit(length)
        return f"{format_rough(speed * (length or 1))} {unit}{far}"
    return f"{format_number(got)} {objective.short_unit}{far}"


def own_notes(problem: Problem) -> Iterator[Warn]:
    """Yield what the words of own machines were taken to mean, with what is assumed."""
    if own_places(problem.catalog.changes):
        from placer.market.words.own_machines import own_sentences

        for sentence in own_sentences(problem.catalog):
            yield Warn("own", sentence)


def check_own_pools(problem: Problem) -> None:
    """Refuse a question without a machine; about own ones alone, say how to rent others."""
    try:
        require_pools(problem)
    except PlacerError as error:
        own = own_places(problem.catalog.changes)
        alone = own and {*problem.requirements.places_in} == {*own}
        if alone and "the quota " not in error.hint:
            wish = problem.requirements
            adapters = ", or train adapters with --lora 16 or --qlora 16"
            offload = ", or offload weights to host memory, which placer does not plan"
            error.hint = (
                "your own machines alone cannot train it: add --budget 5/h to rent others too"
                + (adapters if wish.lora is wish.qlora is None else "")
                + (offload if wish.qlora is not None and "GiB on each" in error.message else "")
            )
            if "host memory" in error.message and host_assumed(problem.catalog.changes):
                error.hint = (
                    "their host memory is assumed: say it, as in :ram=1TB; or "
                    + (error.hint.partition(": ")[2])
                )
        raise


def with_renting(result: Result, solver: str, options: SolveOptions) -> Result:
    """Add what own machines, own with spot ones and spot ones alone reach; and what the cheapest
    rented machines of at least the answer's speed cost, where it has machines of one's own.
    """
    placement, got, problem = result.placement, result.estimate, result.problem
    own = own_places(problem.catalog.changes)
    if not own or placement is None or got is None or allowance.current().spent:
        return result
    works = {*own} & {*placement.places}
    comparison = _Comparison(result, own, solver, options)
    found = comparison.rented() if works else None
    table = comparison.compared(found)
    notes = _renting_notes(found, got, problem) if works else ()
    idle = [Warn("renting", table.idle)] if table.idle else []
    return replace(result, notes=(*result.notes, *idle, *notes), own_machines=table)


def _renting_notes(found: Placement | None, got: Estimate, problem: Problem) -> Iterator[Warn]:
    """Say what the cheapest rented machines of at least the speed of an answer cost."""
    if found is None:
        words = "a short search finds no rented machines that reach the same speed"
        yield Warn("renting", words)
        return
    other = estimate(found, problem)
    usd, mine = other.usd_per_hour.total, got.usd_per_hour.total
    times = f", {usd / mine:.1f} x" if mine else ""
    speed = format_speed(other.effective_samples_per_second.value, other.tokens_per_sample)
    yield Warn(
        "renting",
        f"the same speed from rented machines: {found.in_words}, {speed} for "
        f"{format_usd(usd)}/h{times} (by a short search)",
    )
