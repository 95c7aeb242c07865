"""The best placement of machines of one kind: the best of any where these are alike, else one
question for each kind.

Software that divides a step equally makes fast machines wait for slow ones, so that all workers are
to be alike. A bound by price and speed alone tells which kinds are worth asking about.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from placer.cost_model.dollars import usd_per_million_samples
from placer.cost_model.timing.least_modes import LeastModes
from placer.cost_model.timing.least_steps import LeastSteps
from placer.market.carbon import offer_carbon
from placer.market.catalog import VmOffer
from placer.market.network.link_model import Array
from placer.market.table import members
from placer.problem.kept_answers import Recent
from placer.problem.placement import WorkerGroup
from placer.problem.problem import Problem
from placer.problem.workers.pool import Pool
from placer.problem.workers.pools import Pools
from placer.problem.workers.worker_sizes import ROUNDING
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.parts.search import Ask, Part, PartSearch
from placer.solving.result import Result
from placer.units import SECONDS_PER_HOUR

ANY_SHARE = 0.25
"""Share of the time for the first question."""
PAUSE_NODES = 100
"""Nodes after which a kind waits until every other has been asked about once: what one of these
finds may close it.
"""


def best_of_kinds(
    problem: Problem, ask: Ask, options: SolveOptions, solver: str, *, draws_alike: bool
) -> Result:
    """Find the best placement whose machines are all of one kind, and prove it: the bound holds for
    every kind. Machines of one kind are some of any machines, so that the best of any are the best
    of one kind where they are alike, and bound them where they are not. ``draws_alike`` tells
    whether the solver, which proves its answers, has drafts of machines of one kind.
    """
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
        own = replace(options, certificate=False)
        search = _KindSearch(problem, ask, own, solver, proves=True)
        search.draws_alike = draws_alike
        found, is_open = _looked_at(problem, ask, options, search)
        unlike = found.placement is not None and len(found.placement.kinds) > 1
        if not unlike and found.value is not None and options.on_better is not None:
            options.on_better(found.value)
        if unlike or is_open:
            found = search.beside(found)
        return replace(found, limits=options.asked)


def _looked_at(
    problem: Problem, ask: Ask, options: SolveOptions, search: _KindSearch
) -> tuple[Result, bool]:
    """Return a first answer, and whether a kind may hold a better one than machines that are alike:
    a draft of these, else what a search of any machines finds or rules out. A certificate speaks of
    any machines, and few nodes rule out all kinds together where a value is to be beaten.
    """
    # What is better with unlike machines is no news of an answer.
    asked = replace(options, time_limit_s=ANY_SHARE * options.time_limit_s, on_better=None)
    if not options.certificate:
        if options.beat is None:
            if search.limited and not search.may_improve:  # no kind keeps the limits
                return search.empty, True
            draft = ask(problem, replace(asked, proof="quick")) if search.draws_alike else None
            if draft is not None and draft.placement is not None:
                return draft, True
        elif options.node_limit is None or not search.may_improve:
            return search.empty, True  # mostly nothing beats a value, whatever is drafted
    wish = replace(problem.requirements, uniform=False)
    found = replace(ask(replace(problem, requirements=wish), asked), problem=problem)
    return found, found.status is Status.TIME_LIMIT and options.node_limit is None


def _device(machines: WorkerGroup | VmOffer) -> str:
    return f"{machines.gpu}:{machines.gpu_count}"


class _Kind(Struct, frozen=True):
    """Workers of one kind of machine: how fast each is at most, alone and of several, and the least
    USD/h of a sample each second.
    """

    pools: Pools
    alone: float
    shared: float
    usd: float

    @staticmethod
    def of(pools: Pools) -> _Kind:
        """Gather the best of some alike workers."""
        speed = pools.figures(lambda pool: max(pool.alone.value, pool.shared.value))
        return _Kind(
            pools,
            max(kind.alone.value for kind in pools.kinds),
            max(kind.shared.value for kind in pools.kinds),
            float((pools.usd / speed).min()),
        )

    def prices(self, most: int, least: LeastSteps) -> Iterator[tuple[str, Array]]:
        """Yield the classes of averaging, the fastest first, each with the least USD/h of up to
        ``most`` workers of this class and those before.
        """
        pools, hosts = self.pools, [*dict.fromkeys(pool.host for pool in self.pools.kinds)]
        host_of, _ = pools.by_kind(lambda pool: pool.host)
        order = np.argsort(pools.usd, kind="stable")
        counts = np.minimum(pools.figures(lambda pool: pool.max_count), most).astype(np.intp)
        every = np.repeat(order, counts[order])
        taken = np.full(len(hosts), False)
        seconds = [least.exchange_s("butterfly", host, 2) for host in hosts] if hosts[1:] else [0.0]
        for at in sorted(range(len(hosts)), key=seconds.__getitem__):
            taken[at] = True
            chosen = every[taken[host_of[every]]][:most]
            yield hosts[at], pools.usd[chosen].cumsum()


KEPT_KINDS = 16
"""Sets of machines that a catalog keeps divided into kinds."""


def _kinds(problem: Problem) -> dict[str, _Kind]:
    """Divide the admitted machines into kinds, once for all questions that admit the same: the
    markets of these kinds have tables that such questions share too.
    """

    def divided() -> tuple[object, dict[str, _Kind]]:
        pools = problem.pools
        rows = members(*pools.by_kind(lambda pool: _device(pool.offer)))
        alike = map(pools.at, sorted(rows, key=lambda own: own[0]))  # in the order of the book
        return pools, {_device(own.kinds[0].offer): _Kind.of(own) for own in alike}

    kept: Recent[tuple[object, dict[str, _Kind]]] = problem.catalog.memo.setdefault(
        "kinds of machines", Recent(KEPT_KINDS)
    )
    # While the machines are held, nothing else has their id.
    return kept.get(id(problem.pools), divided)[1]


class _KindSearch(PartSearch):
    """The best answer so far, and the kinds of machines that are open. ``first`` is the device that
    is asked about first: what is found of it closes others sooner.
    """

    most_short = 5
    least = -math.inf
    first = ""
    draws_alike = False

    def beside(self, whole: Result) -> Result:
        """Search with what is known where any machines may be mixed: a bound, and an answer if its
        machines are alike, else a draft of such ones, whose device is asked about first.
        """
        self.count(whole)
        if whole.interrupted or whole.status is Status.MEMORY_LIMIT:
            self.stopped = whole.status
        if whole.bound is not None:
            self.least = -self.objective.sign * whole.bound
        known = whole.placement
        if known is not None and len(known.kinds) > 1:
            drafting = replace(self.options.deaf, proof="quick")
            drawn = self.draws_alike and self.stopped is None
            known = self.ask(self.problem, drafting).placement if drawn else None
        if known is not None:
            self.first = _device(known.groups[0])
            self.offer(known)
        return self.run()

    def begin(self) -> None:
        kinds = _kinds(self.problem)
        if len(kinds) > 1 and self.options.node_limit is None:
            self.pause_nodes = PAUSE_NODES
        for number, (device, kind) in enumerate(kinds.items()):
            part = Part(rank=max(self.least, self._rank(kind)), number=number)
            if device == self.first and self.worth(part.rank):
                part = replace(part, rank=max(part.rank, self._closer(device)))
                if self.worth(part.rank) and not self.spent:
                    self.work(part, self._question(device))
                    continue
            self.push(part)

    def _question(self, device: str) -> Problem:
        """Return the question about the machines of a kind, in the modes that are worth it."""
        problem, modes = self.problem, self.problem.modes
        if device in self._known:
            ranks = self._known[device][1]
            modes = tuple(mode for mode, rank in zip(modes, ranks, strict=True) if self.worth(rank))
        wish = replace(problem.requirements, gpus=(device,), uniform=False)
        return problem.with_pools(wish, _kinds(problem)[device].pools, modes)

    @property
    def limited(self) -> bool:
        """Whether there may be nothing that keeps the limits, while machines can be paid."""
        wish = self.problem.requirements
        return wish.min_regions > 1 or wish.floor_samples_per_second is not None

    def worth(self, rank: float) -> bool:
        """Tell whether a bound leaves anything: infinite where nothing keeps the limits."""
        return rank < math.inf and super().worth(rank)

    @property
    def may_improve(self) -> bool:
        """Whether the bounds of some kind leave anything worth finding."""
        kinds = _kinds(self.problem).items()
        return any(
            self.worth(self._rank(kind)) and self.worth(self._closer(device))
            for device, kind in kinds
        )

    def go_on(self, part: Part) -> None:
        """Ask about a kind, or open it again where a closer bound leaves less of it."""
        device = self._devices[part.number]
        closer = self._closer(device)
        if closer <= part.rank:
            self.work(part, self._question(device))
        elif self.worth(closer):
            self.push(replace(part, rank=closer))

    def _closer(self, device: str) -> float:
        if device not in self._known:
            self._known[device] = self._closer_ranks(_kinds(self.problem)[device])
        return self._known[device][0]

    def end(self) -> None:
        """Construct an answer where the search was stopped before it had any."""
        if self.best is not None or not self.spent:
            return
        first = replace(self.options.deaf, cancel=None, first=True)
        with allowance.closing(allowance.FIRST_S), suppress(allowance.StoppedError, MemoryError):
            for part in sorted(self.left, key=lambda part: part.rank):
                allowance.check()
                found = self.ask(self._question(self._devices[part.number]), first).placement
                if found is not None:
                    self.offer(found)
                if self.best is not None:
                    break

    def _rank(self, kind: _Kind) -> float:
        """Return a bound on the value of a kind, lowest is best. Exchanges take time and money: no
        placement is faster than its machines are together, nor cheaper than they are.
        """
        wish = self.problem.requirements
        speed, usd = wish.max_workers * max(kind.alone, kind.shared), kind.usd
        if wish.budget_usd_per_hour is not None and usd > 0:
            speed = min(speed, wish.budget_usd_per_hour / usd)
        floor = self._floor * self.multiplier
        usd *= speed if self.objective.by_sample else floor
        return float(self._ranks(speed, usd, kind))

    def _closer_ranks(self, kind: _Kind) -> tuple[float, list[float]]:
        """Return the same from whole machines, and that of each mode: so many of the cheapest whose
        average takes no longer than that of some class.
        """
        wish, batch, best = self.problem.requirements, self.problem.batch, math.inf
        by_mode = np.full(len(self.problem.modes), math.inf)
        many, floor = max(2, wish.min_workers, wish.min_regions), self._floor * self.multiplier
        alone = wish.min_workers == 1 and wish.min_regions <= 1
        alone = alone and kind.alone * (1 + ROUNDING) >= floor
        least = LeastModes(self._least_steps, kind.pools, self.exchanges)
        for host, every in kind.prices(wish.max_workers, self._least_steps):
            prices = every[every <= self._most_usd * (1 + ROUNDING)]
            if alone and len(prices):
                best = min(best, float(self._ranks(kind.alone, prices[0], kind)))
            workers, usd = np.arange(many, len(prices) + 1), prices[many - 1 :]
            part_s = batch / (workers * kind.shared)
            hoped = self._ranks(batch / part_s, usd, kind).min(initial=math.inf)
            if self.worth(hoped):  # without an exchange, and then in one region
                steps_s = self._least_steps.steps_s(part_s, host, workers, 1)
                reached = batch / steps_s * (1 + ROUNDING) >= floor
                ranks = self._ranks(batch / steps_s, usd, kind)[reached]
                hoped = ranks.min(initial=math.inf)
            if self.worth(hoped):
                hoped = self._sending_ranks(*least.of(part_s, host, workers), usd, kind)
            by_mode = np.minimum(by_mode, hoped)
        return float(by_mode.min(initial=best)), by_mode.tolist()

    def _sending_ranks(self, steps_s: Array, sent_usd: Array, usd: Array, kind: _Kind) -> Array:
        """Return the bound, lowest is best, of each mode: of machines whose steps take so long and
        send for so many USD in it.
        """
        multipliers = np.array(self.multipliers)[:, None]
        floor, hourly = self._floor * multipliers, SECONDS_PER_HOUR * sent_usd / self.problem.batch
        # Faster machines send more: no faster than what is left after their price pays for.
        left = self._most_usd * (1 + ROUNDING) - usd
        paid = np.divide(left, hourly, out=np.full(hourly.shape, math.inf), where=hourly > 0)
        speed = np.minimum(self.problem.batch / steps_s, paid)
        usd = usd + hourly * (speed if self.objective.by_sample else floor)
        able = (speed > 0) & (speed * (1 + ROUNDING) >= floor)
        counted = np.broadcast_to(multipliers, able.shape)
        ranks = np.full(able.shape, math.inf)
        ranks[able] = self._ranks(speed[able], usd[able], kind, counted[able])
        best: Array = ranks.min(axis=1, initial=math.inf)
        return best

    @property
    def _floor(self) -> float:
        return self.problem.requirements.floor_samples_per_second or 0.0

    @property
    def _most_usd(self) -> float:
        most = self.problem.requirements.budget_usd_per_hour
        return math.inf if most is None else most

    def _ranks(self, speed: Any, usd: Any, kind: _Kind, multiplier: Any = None) -> Array:
        """Return bounds, lowest is best, of machines of some samples/s and USD/h: one or arrays."""
        counted = self.multiplier if multiplier is None else multiplier
        speed, usd = speed * (1 + ROUNDING) / counted, usd * (1 - ROUNDING)
        if self.objective.by_sample:
            each = self.objective.from_usd_per_million(usd_per_million_samples(usd, speed))
        else:
            each = self.objective.value_at(speed, usd, self._least_carbon(kind.pools))
        values = np.broadcast_to(each, np.shape(speed))
        return np.where(np.isfinite(values), -self.objective.sign * values, -math.inf)

    @cached_property
    def _known(self) -> dict[str, tuple[float, list[float]]]:
        """Closer bounds that are known, of a kind and of each of its modes, by device."""
        return {}

    @cached_property
    def _devices(self) -> list[str]:
        """Device of each part, by its number."""
        return [*_kinds(self.problem)]

    @cached_property
    def _least_steps(self) -> LeastSteps:
        return LeastSteps(self.problem)

    def _least_carbon(self, pools: Sequence[Pool]) -> float:
        """Return the g CO2e/h of a kind's machines that reach the floor at least, where they count:
        those of a sample are paid for as many samples as count.
        """
        if self.objective.name != "carbon" or not self._floor:
            return 0.0
        grams = [offer_carbon(pool.offer, self.problem.catalog) for pool in pools]
        each = min(
            one.value * pool.machines / max(pool.alone.value, pool.shared.value)
            for one, pool in zip(grams, pools, strict=True)
            if one is not None
        )
        return each * self._floor * self.multiplier * (1 - ROUNDING)
