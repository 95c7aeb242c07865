"""The default: branch and bound that proves its gap, with NumPy alone.

Single machines, then every strategy and number of local steps are searched one after the other with
one incumbent. Ties are broken by a second search: the cheapest among the fastest, the fastest among
the cheapest. What the searches know of the market does not depend on objective, budget and floor:
questions that differ in these alone share it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from placer.cost_model.convergence import batch_factor
from placer.cost_model.dollars.components import usd_per_million_samples
from placer.cost_model.objective import objective_of
from placer.cost_model.violations import TOLERANCE
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import traits
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Problem, groups_of
from placer.solving.answer import Answer, SolveOptions, Status, total_bound

from .. import greedy, local_search
from .._market.arrays import Array
from .._market.market import Market
from .._mode import Mode
from .._target import OutOfTimeError, Target
from .bounds.ledger import Ledger, root_bound
from .butterfly_search import ButterflySearch
from .hubs_search import HubSearch
from .regions_search import RegionSearch
from .search import Search


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Find the best placement and prove it.

    Parameters
    ----------
    problem
        The question.
    options
        Relative gap to prove and time limit; the search is deterministic, the seed is not used.

    Returns
    -------
    Answer
        Optimal within the gap; or, when the time is up or Ctrl-C is pressed, the best so far with a
        bound on every placement.
    """
    return prepare(problem)(problem, options)


def prepare(problem: Problem) -> Callable[[Problem, SolveOptions], Answer]:
    """Work out what questions share that differ in objective, budget and floor alone.

    Returns
    -------
    Callable[[Problem, SolveOptions], Answer]
        As `solve`; not to be shared between threads.
    """
    return Prepared(Market.of(problem)).solve


TIE_NODES = 1_000
"""Nodes of the second search, which breaks ties: what it looks for is rare, and the first has
proved the value.
"""


class Prepared:
    """A market with its searches, kept from one question to the next; each is aimed at the target
    in hand.
    """

    def __init__(self, market: Market) -> None:
        self.market = market
        self._kept: list[Search] | None = None
        self._interrupted = False

    def solve(self, problem: Problem, options: SolveOptions) -> Answer:
        """Answer one question about this market."""
        if not self.market.pools:
            return Answer(status=Status.INFEASIBLE, placement=None, bound=None, candidates=0)
        target = Target.of(
            problem,
            gap=options.gap,
            deadline=time.monotonic() + options.time_limit_s,
            node_limit=options.node_limit,
            on_better=options.on_better,
            first=options.first,
        )
        self._interrupted = False
        ledger = Ledger(target)
        try:
            for start in (
                ()
                if options.first
                else (
                    options.start,
                    _best_without_moving_data(problem, options),
                    _heuristic_start(problem, options),
                )
            ):
                if start is not None:
                    target.offer(start)
        except KeyboardInterrupt:
            self._interrupted = True
        plain = not (
            options.first or options.start or options.node_limit or problem.requirements.used
        )
        finished = not self._interrupted and self._search(
            target, ledger, replace(options, on_better=None) if plain else None
        )
        if target.best is None:
            status, proof, nodes = (
                Status.INFEASIBLE if finished else Status.TIME_LIMIT,
                ledger.proofs({}),
                target.ticks,
            )
            stopped, tried = self._interrupted, target.candidates
            return Answer(
                status=status,
                placement=None,
                bound=None,
                candidates=tried,
                nodes=nodes,
                proof=proof,
                interrupted=stopped,
            )
        best, second = (
            self._break_tie(target) if finished and options.break_ties else (target.best, None)
        )
        wanted = options.certificate if finished else options.bound_if_stopped
        proof = ledger.proofs(self._root_bounds(target) if wanted else {})
        return Answer(
            status=Status.OPTIMAL if finished else Status.TIME_LIMIT,
            placement=best.canonical(),
            bound=total_bound(proof, objective_of(problem.requirements)),
            candidates=target.candidates + (0 if second is None else second.candidates),
            nodes=target.ticks + (0 if second is None else second.ticks),
            proof=proof,
            interrupted=self._interrupted,
        )

    def searches(self, market: Market, target: Target) -> list[Search]:
        """One search for each strategy and number of local steps that the request admits."""
        if market is not self.market:  # prices with data that moves depend on the limits
            return _searches(market, target)
        if self._kept is None:
            self._kept = _searches(market, target)
        for search in self._kept:
            search.aim(target)
        return self._kept

    def _search(self, target: Target, ledger: Ledger, opening: SolveOptions | None = None) -> bool:
        """Run every search that the request admits; False if the time ran out or the user stopped
        it.

        Notes
        -----
        With options for an ``opening``, local search finds something to beat first, if anything
        beats a single machine at all.
        """
        try:
            if self.market.fewest_regions <= 1 and target.problem.requirements.min_workers == 1:
                with ledger.mode(NO_EXCHANGE, 1):
                    _offer_single_machines(self.market, target)
            market = self.market.with_moving_data(
                target.min_speed * _least_multiplier(self.market.problem), target.max_usd_per_hour
            )
            searches = self.searches(market, target)
            closed = (
                set()
                if opening is None
                else {id(search) for search in searches if not search.may_improve()}
            )
            if opening is not None and len(closed) < len(searches):
                start = local_search.solve(target.problem, opening).placement
                if start is not None:
                    target.offer(start)
            for search in searches:
                with ledger.mode(search.mode.strategy, search.mode.local_steps):
                    if id(search) not in closed:  # what a better incumbent asks for only grows
                        search.run()
        except OutOfTimeError:
            return False
        except KeyboardInterrupt:
            self._interrupted = True
            return False
        return not target.skipped

    def _break_tie(self, target: Target) -> tuple[Placement, Target | None]:
        """Among placements as good as the best, find the cheapest (or the fastest, if cost is the
        objective).
        """
        assert target.best is not None
        if target.objective == "cost-per-sample":
            return target.best, None
        if target.objective == "throughput":
            second = replace(
                target,
                objective="cost",
                floor_samples_per_second=target.best_value * (1 - TOLERANCE),
            )
        elif target.objective == "carbon":
            second = replace(
                target,
                objective="throughput",
                limit_carbon_g_per_hour=target.best_value * (1 + TOLERANCE),
            )
        else:
            second = replace(
                target,
                objective="throughput",
                budget_usd_per_hour=target.best_value * (1 + TOLERANCE),
            )
        second.on_better, second.best, second.best_key, second.candidates = (
            None,
            None,
            (float("inf"), float("inf")),
            0,
        )
        second.ticks, second.node_limit = 0, TIE_NODES
        second.offer(target.best)
        self._search(second, Ledger(second))
        return second.best or target.best, second

    def _root_bounds(self, target: Target) -> dict[tuple[str, int], float | None]:
        """What the relaxation alone proves about each mode; None where it proves that the mode
        holds no placement.
        """
        trial = replace(target, gap=0.0, on_better=None)
        outermost = _unbeatable_value(self.market, target.objective)
        found: dict[tuple[str, int], float | None] = {
            (NO_EXCHANGE, 1): _best_single_machine(self.market, target)
        }
        for search in self.searches(self.market, trial):
            trial.best, trial.best_value = target.best, target.best_value
            found[search.mode.strategy, search.mode.local_steps] = root_bound(
                search.may_improve, trial, outermost
            )
        return found


def _best_without_moving_data(problem: Problem, options: SolveOptions) -> Placement | None:
    """Best placement that leaves data that may move where it is: cheap to find, and often hard to
    beat.
    """
    if not problem.requirements.data_moves:
        return None
    limits = replace(
        options,
        time_limit_s=options.time_limit_s / 3,
        start=None,
        bound_if_stopped=False,
        certificate=False,
        on_better=None,
    )
    return solve(
        replace(problem, requirements=problem.requirements.with_data_staying()), limits
    ).placement


def _heuristic_start(problem: Problem, options: SolveOptions) -> Placement | None:
    """A placement to beat where the seeds of the searches would take longer, or hardly know the
    machines that must be used.
    """
    if options.node_limit is not None:
        return (
            None
            if options.start
            else greedy.solve(problem, replace(options, on_better=None)).placement
        )
    return (
        local_search.solve(problem, replace(options, start=None, on_better=None)).placement
        if problem.requirements.used
        else None
    )


def _least_multiplier(problem: Problem) -> float:
    """Least samples to target of any mode: what passes through the workers for each sample that
    counts.
    """
    return min(Mode(problem, name, steps).multiplier for name, steps in problem.modes)


def _searches(market: Market, target: Target) -> list[Search]:
    return [
        SEARCHES[traits(name).transport](market, target, Mode(market.problem, name, steps))
        for name, steps in market.problem.modes
    ]


SEARCHES: dict[str, Callable[[Market, Target, Mode], Search]] = {
    "butterfly": ButterflySearch,
    "leaders": RegionSearch,
    "region-hub": RegionSearch,
    "region-gossip": RegionSearch,
    "store": HubSearch,
    "regional-stores": HubSearch,
    "server": HubSearch,
}
"""Which search knows the bounds of a transport."""


def _offer_single_machines(market: Market, target: Target) -> None:
    """Offer single machines in the order in which they could be best, until none can improve."""
    problem = market.problem
    if problem.requirements.min_workers > 1:
        return
    orders: dict[str, Callable[[], Array]] = {
        "throughput": lambda: -market.alone,
        "cost": lambda: market.usd,
        "cost-per-sample": lambda: market.usd / market.alone,
        "carbon": lambda: market.carbon,
    }
    exchange = exchange_for("none", 1, problem)
    able = market.alone >= target.min_speed  # what an improvement needs only grows
    order = np.lexsort((market.usd, orders[target.objective]()))
    for i in order[able[order]].tolist():
        pool = market.pools[i]
        if not market.required_machines.allows_alone(i):
            continue
        if (
            market.alone[i] >= target.min_speed
            and pool.offer.usd_per_hour <= target.max_usd_per_hour
        ):
            if (
                usd_per_million_samples(pool.offer.usd_per_hour, float(market.alone[i])) / 1e6
                > target.max_usd_per_sample
            ):
                continue
            if market.carbon[i] > target.max_carbon_g_per_hour:
                continue
            target.offer(Placement(groups=groups_of([pool], [1]), exchange=exchange))


def _best_single_machine(market: Market, target: Target) -> float | None:
    """Best value of a single machine by its own price, speed and emissions; None if none could_improve the
    limits.
    """
    objective = objective_of(market.problem.requirements)
    values = [
        objective.value_at(float(market.alone[i]), pool.offer.usd_per_hour, float(market.carbon[i]))
        for i, pool in enumerate(market.pools)
        if market.required_machines.allows_alone(i)
        and pool.offer.usd_per_hour <= target.budget_usd_per_hour * (1 + TOLERANCE)
        and market.alone[i] >= target.floor_samples_per_second * (1 - TOLERANCE)
    ]
    return objective.best(values)


def _unbeatable_value(market: Market, objective: str) -> float:
    """A value that no placement exceeds: all machines that may run at once, or nothing paid."""
    if objective != "throughput":
        return 0.0
    fastest = max((max(pool.alone.value, pool.shared.value) for pool in market.pools), default=0.0)
    return (
        fastest
        * market.problem.requirements.max_workers
        / min(batch_factor(market.problem), _least_multiplier(market.problem))
    )
