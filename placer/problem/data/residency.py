"""Residency rules against a placement: what would leave where it must stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placer.problem.data.data_shares import Move
from placer.problem.data.datasets import needs_place
from placer.problem.exchange import Phase, traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem


def leaks(
    placement: Placement, phases: Sequence[Phase], moved: Sequence[Move], problem: Problem
) -> Iterator[str]:
    """Yield one sentence for each rule and first way in which a placement breaks it. Gradients
    leave with the transfers of strategies that send them, checkpoints with those that send the
    model, raw data with moves and with reads from the dataset's store.
    """
    sends = [(t.src, t.dst) for phase in phases for t in phase.transfers if t.src != t.dst]
    store = problem.data_store
    reads = [] if store is None else [(store.place, place) for place in placement.places]
    if problem.data_copy is not None and store is not None:
        reads.append((problem.data_copy.source.place, store.place))
    payload = traits(placement.exchange.strategy).payload
    ways = {"raw-data": [*((move.src, move.dst) for move in moved), *reads], payload: sends}
    for rule in problem.requirements.kept:
        for src, dst in ways.get(rule.kind, ()):
            if src in rule.places and dst not in rule.places:
                yield f"{rule.kind} would leave {rule.area}: from {src} to {dst}"
                break


def homeless(problem: Problem) -> Iterator[str]:
    """Yield a sentence for each dataset that must stay where no worker may be."""
    for data in problem.requirements.datasets:
        rules = [
            rule
            for rule in problem.requirements.kept
            if rule.kind == "raw-data" and data.place in rule.places
        ]
        if data.may_move and not rules:
            continue
        allowed = {data.place} if not data.may_move else set(problem.catalog.regions)
        for rule in rules:
            allowed &= set(rule.places)
        if not any(pool.offer.place in allowed for pool in problem.pools):
            why = (
                "must stay there"
                if not data.may_move
                else f"must not leave {', '.join(rule.area for rule in rules)}"
            )
            yield (
                f"the {data.samples:,} samples in {data.place} can be used nowhere: they {why}, "
                f"and {_why_none(data.place, problem)}"
            )


def _why_none(place: str, problem: Problem) -> str:
    """Say what keeps workers out of a place."""
    excluded = problem.place_problem(place)
    if excluded:
        return excluded
    offers = problem.catalog.offers_at(place)
    if not offers:
        return f"catalog {problem.catalog.name} rents no machine there"
    reasons = [message for offer in offers for _, message in problem.offer_problems(offer)[:1]]
    if reasons:
        return max(sorted(set(reasons)), key=reasons.count)
    return "the quota allows no machine there"


def parted(problem: Problem) -> Iterator[str]:
    """Yield one sentence if data that stays in several places can use no exchange, because nothing
    may pass between them. A rule parts two places if one is in its area and the other is not: the
    exchanges whose payload is of its kind cannot run.
    """
    stay, wish = needs_place(problem.requirements.datasets), problem.requirements
    store = problem.data_store
    for rule in wish.kept:
        kept = rule.kind == "raw-data" and store is not None and store.place in rule.places
        if kept and not any(pool.offer.place in rule.places for pool in problem.pools):
            yield (
                f"raw-data must not leave {rule.area}, where the store of the data is, and no "
                f"worker may be there"
            )
    blocked = {
        rule.kind
        for rule in wish.kept
        if 0 < sum(place in rule.places for place in stay) < len(stay)
    }
    payloads = {traits(name).payload for name, _ in problem.modes}
    if payloads and payloads <= blocked:
        areas = ", ".join(f"{rule.kind}={rule.area}" for rule in wish.kept if rule.kind in payloads)
        yield (
            f"data stays in {', '.join(stay)}, and --keep {areas} lets no exchange pass between "
            f"them"
        )
