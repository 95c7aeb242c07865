"""A placement as a user writes it: the cheapest offer behind each group, the exchange of the request."""

from __future__ import annotations

from placer.catalog import device_name
from placer.errors import PlacerError
from placer.estimator import exchange_for
from placer.placement import NO_EXCHANGE, Placement, WorkerGroup, WorkerSpec, parse_workers
from placer.problem import Problem


def place_by_hand(workers: str, problem: Problem) -> Placement:
    """Find the cheapest offer behind each group that a user wrote, and the exchange of the request.

    Raises
    ------
    PlacerError
        If the catalog has no such machine, or a central exchange has no single place to run at.
    """
    groups = tuple(_find_group(spec, problem) for spec in parse_workers(workers))
    total, wanted = sum(group.count for group in groups), problem.requirements.exchange
    if total == 1:
        return Placement(groups=groups, exchange=exchange_for(NO_EXCHANGE, 1, problem))
    if wanted != "central":
        return Placement(groups=groups, exchange=exchange_for("all-reduce", total, problem))
    here = {group.place for group in groups}
    pairs = sorted(problem.aggregator_places, key=lambda pair: (-len(here & {*pair}), pair[0] != pair[1], pair))
    if not pairs or (len(pairs) > 1 and not here & {*pairs[0]}):
        raise PlacerError(f"a central exchange could run in {len(pairs)} places", "name one with --aggregator PLACE --storage PLACE")
    return Placement(groups=groups, exchange=exchange_for("central", total, problem, *pairs[0]))


def _find_group(spec: WorkerSpec, problem: Problem) -> WorkerGroup:
    problem.catalog.region(spec.place)
    gpu = next((name for name in problem.catalog.gpus if name.upper() == spec.gpu.upper()), spec.gpu)
    problem.catalog.gpu(gpu)
    matches = [
        offer
        for offer in problem.catalog.offers_at(spec.place)
        if (offer.gpu, offer.gpu_count) == (gpu, spec.gpu_count) and spec.market in (None, offer.market)
    ]
    if not matches:
        device = device_name(gpu, spec.gpu_count)
        there = sorted({f"{o.device}:{o.market.replace('_', '-')}" for o in problem.catalog.offers_at(spec.place)})
        wanted = f" {spec.market.replace('_', '-')}" if spec.market else ""
        raise PlacerError(
            f"catalog '{problem.catalog.name}' has no {device}{wanted} in {spec.place}", f"it has {', '.join(there) or 'no machines there'}"
        )
    fitting = [o for o in matches if not any("memory" in code for code, _ in problem.offer_problems(o))] or matches
    offer = min(fitting, key=lambda o: (o.usd_per_hour, o.instance_type))
    return WorkerGroup.of(offer, spec.count)
