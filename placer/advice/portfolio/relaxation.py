"""Bounds on a placement that take no search: fractions of workers that exchange for nothing."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from placer.cost_model.convergence import multiplier_of
from placer.market.catalog import VmOffer
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.placement import NO_EXCHANGE
from placer.problem.problem import Problem

ROUNDING = 1e-9
"""Relative slack of a comparison."""


class Kinds:
    """Kinds of workers of a question: USD/h, most samples/s that count, and their offers.

    ``alone`` is the rate of one worker without an exchange, ``rate`` that in a group over the
    fewest samples to target of any exchange: no worker of a placement counts more.
    """

    def __init__(self, problem: Problem) -> None:
        pools = problem.pools

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

    def surcharged(self, extra: Callable[[VmOffer], float]) -> Any:
        """Return USD/h of each kind with the surcharge of its machines."""
        return self.usd + self.machines * np.array([extra(offer) for offer in self.offers])

    def least_usd(self, usd: Any, floor: float) -> float:
        """Return a bound on the USD/h of a placement that reaches a floor."""
        if not len(usd):
            return inf
        several = max(self._several(usd, floor), 2 * float(usd.min()))
        return min(several, float(usd[self._enough(floor)].min(initial=inf)))

    def least_usd_per_rate(self, usd: Any, floor: float) -> float:
        """Return a bound on the USD/h of a placement over its samples/s."""
        if not len(usd):
            return inf
        one = self._enough(floor)
        alone = float((usd[one] / self.alone[one]).min(initial=inf))
        return min(alone, float((usd / self.rate).min()))

    def _enough(self, floor: float) -> Any:
        """Tell of which kinds one worker alone reaches a floor."""
        return self.alone >= floor * (1 - ROUNDING)

    def _several(self, usd: Any, floor: float) -> float:
        """Return a bound on the USD/h of several workers that reach a floor together.

        Fractions of workers that exchange for nothing: each place, GPU and market at the price per
        sample/s of its cheapest worker, up to its quota.
        """
        each = np.full(len(self.most_rate), inf)
        np.minimum.at(each, self.buckets, usd / self.rate)
        order = np.argsort(each)
        before = np.concatenate(([0.0], np.cumsum(self.most_rate[order])[:-1]))
        taken = np.clip(floor - before, 0.0, self.most_rate[order])
        if taken.sum() < floor * (1 - ROUNDING):
            return inf
        return float((taken * each[order]).sum())
