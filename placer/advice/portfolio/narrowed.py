"""The machines that a placement below some price can have: others are left out of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from placer.cost_model.convergence import multiplier_of
from placer.market.catalog import Catalog, VmOffer
from placer.market.scaled_market import with_offers
from placer.problem.admitted_exchanges import SERVER_VCPUS, exchange_for, needs_quota
from placer.problem.placement import NO_EXCHANGE
from placer.problem.problem import Problem

Machine = tuple[VmOffer, bool]
"""An offer, and whether quotas count it."""
ROUNDING = 1e-9
"""Relative slack of a comparison."""


class Kinds:
    """Kinds of workers of a question: USD/h, most samples/s that count, and their offers.

    ``alone`` is the rate of one worker without an exchange, ``rate`` that in a group over the
    fewest samples to target of any exchange: no worker of a placement counts more.
    """

    def __init__(self, problem: Problem) -> None:
        pools, wish = problem.pools, problem.requirements

        def times(name: str, steps: int) -> float:
            return multiplier_of(exchange_for(name, 1, problem, local_steps=steps), problem).value

        least = min((times(*mode) for mode in problem.modes), default=1.0)
        self.usd = np.array([pool.usd_per_hour for pool in pools])
        self.alone = np.array([pool.alone.value for pool in pools]) / times(NO_EXCHANGE, 1)
        self.rate = np.array([pool.shared.value for pool in pools]) / least
        self.machines = np.array([pool.machines for pool in pools])
        self.offers = [pool.offer for pool in pools]
        numbers = {bucket: i for i, bucket in enumerate(dict.fromkeys(p.bucket for p in pools))}
        self.buckets = np.array([numbers[pool.bucket] for pool in pools], dtype=int)
        gpus, quotas = np.array([(pool.gpus, pool.gpu_quota) for pool in pools]).reshape(-1, 2).T
        self.most_rate = np.zeros(len(numbers))
        np.maximum.at(self.most_rate, self.buckets, self.rate / gpus * quotas)
        self.most_workers, self.server_place = wish.max_workers, wish.aggregator
        self.servers = _servers_by_place(problem)
        # Rules about places look at all that is rented there.
        self.whole = bool(wish.datasets or wish.kept or wish.used)

    def surcharged(self, extra: Callable[[VmOffer], float]) -> Any:
        """Return USD/h of each kind with the surcharge of its machines."""
        return self.usd + self.machines * np.array([extra(offer) for offer in self.offers])

    def least_usd(self, usd: Any, floor: float) -> float:
        """Return a bound on the USD/h of a placement that reaches a floor."""
        if not len(usd):
            return inf
        several = max(self.several(usd, floor)[0], 2 * float(usd.min()))
        return min(several, float(usd[self.enough(floor)].min(initial=inf)))

    def least_usd_per_rate(self, usd: Any, floor: float) -> float:
        """Return a bound on the USD/h of a placement over its samples/s."""
        if not len(usd):
            return inf
        one = self.enough(floor)
        alone = float((usd[one] / self.alone[one]).min(initial=inf))
        return min(alone, float((usd / self.rate).min()))

    def enough(self, floor: float) -> Any:
        """Tell of which kinds one worker alone reaches a floor."""
        return self.alone >= floor * (1 - ROUNDING)

    def several(self, usd: Any, floor: float) -> tuple[float, float]:
        """Return a bound on the USD/h of several workers that reach a floor together, and the price
        of the last sample/s in it.

        Fractions of workers that exchange for nothing: each place, GPU and market at the price per
        sample/s of its cheapest worker, up to its quota.
        """
        each = np.full(len(self.most_rate), inf)
        np.minimum.at(each, self.buckets, usd / self.rate)
        order = np.argsort(each)
        before = np.concatenate(([0.0], np.cumsum(self.most_rate[order])[:-1]))
        taken = np.clip(floor - before, 0.0, self.most_rate[order])
        if taken.sum() < floor * (1 - ROUNDING):
            return inf, 0.0
        last = float(each[order][taken > 0].max(initial=0.0))
        return float((taken * each[order]).sum()), last


def narrowed(
    catalog: Catalog,
    kinds: Kinds,
    extra: Callable[[VmOffer], float],
    floor: float,
    most: float,
    *,
    per_sample: bool,
) -> Catalog | None:
    """Cut a book down to what a placement can use that costs less than ``most``.

    ``most`` are USD per hour, or per sample and second of speed where ``per_sample``; ``extra`` is
    the surcharge of one machine in USD per hour. None: nothing can be left out. A worker that asks
    more for a sample/s than the last one of the bound on several adds the difference to it.
    """
    if kinds.whole or not len(kinds.usd) or not kinds.rate.min() > 0:
        return None
    usd = kinds.surcharged(extra)
    one = kinds.enough(floor)
    if per_sample:
        # Below `most` the sum of (price - most x rate) over the workers is negative.
        each = usd - most * kinds.rate
        others = (kinds.most_workers - 1) * min(0.0, float(each.min()))
        kept = (each + others < ROUNDING * abs(most)) | (one & (usd < most * kinds.alone))
    else:
        bound, last = kinds.several(usd, floor)
        least = bound + np.maximum(0.0, usd - last * kinds.rate)
        least = np.maximum(least, usd + float(usd.min()))
        kept = (least < most * (1 + ROUNDING)) | (one & (usd < most * (1 + ROUNDING)))
    stay = {id(kinds.offers[i]) for i in np.flatnonzero(kept)}
    if kinds.servers:
        places = {kinds.offers[i].place for i in np.flatnonzero(kept)}
        places |= set() if kinds.server_place is None else {kinds.server_place}
        stay |= {id(o) for place in places for o in _servers(kinds.servers.get(place, ()), extra)}
    return with_offers(catalog, tuple(offer for offer in catalog.offers if id(offer) in stay))


def _servers(machines: Sequence[Machine], extra: Callable[[VmOffer], float]) -> list[VmOffer]:
    """Return the machines of a place that may be its parameter server, whatever memory that needs
    and whatever GPUs are left: the cheapest that is large enough is taken.
    """
    kept, most_gib = [], 0.0
    order = sorted(
        machines, key=lambda m: (m[0].vcpus < SERVER_VCPUS, m[0].usd_per_hour + extra(m[0]))
    )
    for offer, counted in order:
        if offer.memory_gib > most_gib:
            kept.append(offer)
            most_gib = most_gib if counted else offer.memory_gib
    return kept


def _servers_by_place(problem: Problem) -> dict[str, list[Machine]]:
    """Return the machines that may be a parameter server, by place; empty if none is wanted."""
    if all(name != "parameter-server" for name, _ in problem.modes):
        return {}
    market = "spot" if problem.requirements.market == "spot" else "on_demand"
    servers: dict[str, list[Machine]] = {}
    for offer in problem.catalog.offers:
        if offer.available is None and offer.market == market:
            servers.setdefault(offer.place, []).append((offer, needs_quota(offer, problem)))
    return servers
