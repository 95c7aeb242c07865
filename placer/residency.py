"""Residency rules against a placement: what would leave where it must stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placer.elastic import Move
from placer.exchange import traits
from placer.exchange.phase import Phase
from placer.placement import Placement
from placer.problem import Problem


def leaks(placement: Placement, phases: Sequence[Phase], moved: Sequence[Move], problem: Problem) -> Iterator[str]:
    """Yield one sentence for each rule and first way in which a placement breaks it.

    Notes
    -----
    Gradients leave with the transfers of strategies that send them, checkpoints with those that send
    the model, raw data with moves and with reads from the dataset's store.
    """
    sends = [(t.src, t.dst) for phase in phases for t in phase.transfers if t.src != t.dst]
    store = problem.data_store
    reads = [] if store is None else [(store.place, place) for place in placement.places]
    payload = traits(placement.exchange.strategy).payload
    ways = {"raw-data": [*((move.src, move.dst) for move in moved), *reads], payload: sends}
    for rule in problem.requirements.kept:
        for src, dst in ways.get(rule.kind, ()):
            if src in rule.places and dst not in rule.places:
                yield f"{rule.kind} would leave {rule.area}: from {src} to {dst}"
                break


def homeless(problem: Problem) -> Iterator[str]:
    """Yield one sentence for each dataset that may be used nowhere: it must stay where no worker may be."""
    for data in problem.requirements.datasets:
        rules = [rule for rule in problem.requirements.kept if rule.kind == "raw-data" and data.place in rule.places]
        allowed = {data.place} if not data.may_move else set(problem.catalog.regions)
        for rule in rules:
            allowed &= set(rule.places)
        if not any(pool.offer.place in allowed for pool in problem.pools):
            why = "must stay there" if not data.may_move else f"must not leave {', '.join(rule.area for rule in rules)}"
            limits = problem.place_problem(data.place) or "the other wishes admit no machine there"
            yield f"the {data.samples:,} samples in {data.place} can be used nowhere: they {why}, and {limits}"
