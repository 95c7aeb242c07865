"""Branch and bound over all modes with one incumbent, then a second search that breaks ties.

Single machines come first, then every strategy with every number of local steps. Ties go to the
cheapest among the fastest, and to the fastest among the cheapest. What the searches know of the
market does not depend on objective, budget and floor, so questions that differ in these alone share
it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import dropwhile

import numpy as np

from placer.cost_model.dollars import usd_per_million_samples
from placer.cost_model.limits import TOLERANCE
from placer.cost_model.objective import Objective, objective_named
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import traits
from placer.problem.kept_answers import Recent
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Problem
from placer.problem.workers.pool import groups_of
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import OutOfTimeError, Reason, StoppedError
from placer.solving.answer import Answer, SolveOptions, Status, stopped_by, total_bound
from placer.units import SECONDS_PER_HOUR

from .. import greedy, local_search
from .._drafts.construction import Drafting
from .._market.arrays import Array
from .._market.market import Market
from .._market.shared_tables import APART
from .._mode import Mode
from .._target import FirstPlacementError, Target
from .allreduce_search import ButterflySearch
from .bounds.ledger import Ledger, least_multiplier, root_bound, unbeatable_value
from .hubs_search import HubSearch
from .regions_search import RegionSearch
from .schedule import Schedule
from .search import Search


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Find the best placement and prove it.

    ``options``: relative gap to prove and time limit; the search is deterministic, the seed is not
    used. Returned: optimal within the gap, or infeasible. When the time or the nodes are up or
    Ctrl-C is pressed: the incumbent, if there is one, with a bound on every placement. With
    ``options.first``: feasible, the first placement that keeps every limit. Where no full proof is
    asked for: feasible, a draft.
    """
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
        return _kept(problem).solve(problem, options)


def _kept(problem: Problem) -> Prepared:
    """Return what questions share that differ in `VARIED` alone, kept by the market."""
    market = Market.of(problem)
    wish = problem.requirements
    key = (
        *(id(problem.network), id(problem.calibration), problem.modes),
        *(getattr(wish, name) for name in sorted(APART - VARIED)),
    )
    held: Recent[Prepared] = market.tables.setdefault("prepared", Recent(KEPT))
    # While it is held, nothing else has the ids of its network and calibration.
    return held.get(key, lambda: Prepared(market))


def prepare(problem: Problem) -> Callable[[Problem, SolveOptions], Answer]:
    """Work out what questions share that differ in objective, budget and floor alone.

    Returned: as `solve`; not to be shared between threads.
    """
    return Prepared(Market.of(problem)).solve


KEPT = 2
"""Questions of a market, alike but for objective, budget and floor, whose searches are kept."""
VARIED = frozenset(
    {
        "budget_usd",
        "budget_usd_per_hour",
        "deadline_s",
        "max_carbon_g_per_hour",
        "min_samples_per_second",
        "most_usd_per_million_samples",
        "objective",
    }
)
"""Wishes in which the questions of one `Prepared` may differ."""
EXCLUDING_NODES = 30
"""Nodes in which a question with a value to beat is closed without a draft, or asked anew with one.
"""
DRAFT_SHARE = 0.5
"""Share of the time that is left for a draft: bounds need the rest."""
TIE_NODES = (100, 1_000)
"""Least and most nodes of the second search, which breaks ties, and between these a tenth of those
of the first: such placements are rare, and the first search has proved the value.
"""


class Prepared:
    """A market with its searches, kept from one question to the next."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self._kept: list[Search] | None = None
        self._stopped: Reason | None = None
        self._hopeless = False
        self._begun: list[Search] = []

    def solve(self, problem: Problem, options: SolveOptions) -> Answer:
        """Answer one question about this market."""
        with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
            return self._answer(problem, options)

    def _answer(self, problem: Problem, options: SolveOptions) -> Answer:
        if not self.market.pools:
            return Answer(status=Status.INFEASIBLE, placement=None, bound=None, candidates=0)
        if options.proof != "full":
            return self._drafted(problem, options)
        target = Target.of(
            problem,
            gap=options.gap,
            deadline=time.monotonic() + options.time_limit_s,
            node_limit=options.node_limit,
            on_better=options.on_better,
            on_bound=options.on_bound,
            first=options.first,
            beat=options.beat,
        )
        target.pause_nodes = options.pause_nodes
        ledger, self._stopped, self._begun = Ledger(target), None, []
        self._hopeless = False
        finished = self._offer_starts(target, options) and self._search(
            target, ledger, _opening(problem, options)
        )
        best, second = target.best, None
        if finished and best is not None and options.break_ties:
            best, second = self._break_tie(target, best)
            self._stopped = None  # only the tie stays undecided
        if not finished and best is None and options.beat is None:
            best = self._constructed(target)
        if best is not None and finished and options.certificate:
            self._note_roots(target, ledger)
        elif target.known_value is not None and not finished and options.bound_if_stopped:
            self._bound_what_is_left(target, ledger)
        proof = ledger.proofs()
        if target.known_value is not None and (best is not None or not finished):
            bound = total_bound(proof, target.objective)
        else:  # whatever there may be
            known = not finished and options.bound_if_stopped
            bound = unbeatable_value(self.market, target) if known else None
        if best is not None and bound is not None and target.on_bound is not None:
            target.on_bound(bound)
        return Answer(
            status=_status(target, finished=finished, stopped=self._stopped),
            placement=None if best is None else best.canonical(),
            bound=bound,
            candidates=target.candidates + (0 if second is None else second.candidates),
            nodes=target.ticks + (0 if second is None else second.ticks),
            proof=proof,
            interrupted=self._stopped is Reason.CANCELLED,
        )

    def _drafted(self, problem: Problem, options: SolveOptions) -> Answer:
        """Return a draft, or what is known if that is better, without a search."""
        draft = greedy.solve(problem, replace(options, start=options.start or options.hint))
        if options.proof == "none":
            return draft
        target = Target.of(problem, gap=options.gap, deadline=math.inf)
        bound = unbeatable_value(self.market, target)
        if options.on_bound is not None:
            options.on_bound(bound)
        return replace(draft, bound=bound)

    def _offer_starts(self, target: Target, options: SolveOptions) -> bool:
        """Offer placements that are known or quickly made; False if that is stopped."""
        if options.first:
            return True
        problem = target.problem
        try:
            starts = (options.start, options.hint, _best_without_moving_data(problem, options))
            for start in starts:
                if start is not None:
                    target.offer(start)
            if _wants_draft(problem, options):
                self._hopeless = self._ruled_out(target)
                plain = replace(options.deaf, start=None)
                draft = None if self._hopeless else greedy.solve(problem, plain).placement
                if draft is not None:
                    target.offer(draft)
        except (StoppedError, KeyboardInterrupt, MemoryError) as why:
            self._stop(why)
            return False
        return True

    def _ruled_out(self, target: Target) -> bool:
        """Return whether the relaxations prove that no exchange keeps both a floor and a budget,
        which takes less than a draft.
        """
        both = target.floor_samples_per_second > 0 and target.budget_usd_per_hour < math.inf
        searches = self.searches(self.market, target) if both and target.short else []
        return bool(searches) and not any(search.may_improve() for search in searches)

    def _constructed(self, target: Target) -> Placement | None:
        """Construct a placement where a search was stopped before it had any."""
        with allowance.closing(allowance.FIRST_S), suppress(StoppedError, MemoryError):
            draft = greedy.solve(
                target.problem, SolveOptions(time_limit_s=allowance.FIRST_S)
            ).placement
            if draft is not None:
                target.offer(draft)
        return target.best

    def _stop(self, why: BaseException) -> None:
        """Note what stopped a search, so that what follows it is short."""
        request = allowance.current()
        if isinstance(why, KeyboardInterrupt):
            request.interrupt()
        elif isinstance(why, MemoryError):
            request.stop(Reason.MEMORY)
        self._stopped = why.reason if isinstance(why, OutOfTimeError) else request.spent

    def searches(self, market: Market, target: Target) -> list[Search]:
        """List one search for each strategy and number of local steps that the request admits."""
        if market is not self.market:  # prices with data that moves depend on the limits
            return _searches(market, target)
        if self._kept is None:
            self._kept = _searches(market, target)
        for search in self._kept:
            search.aim(target)
        return self._kept

    def _search(self, target: Target, ledger: Ledger, opening: SolveOptions | None = None) -> bool:
        """Run every search that the request admits; False if it ended before its trees were
        exhausted.

        With options for an ``opening``, drafts make the first incumbent, unless the relaxations
        already prove that nothing beats a single machine or what is known; beside a hint hardly any
        draft is worth its time.
        """
        try:
            if self._alone(target):
                alone = NO_EXCHANGE, 1
                with ledger.turn(alone):
                    _offer_single_machines(self.market, target)
                ledger.end(alone)
            market = self._charged(target)
            if target.beat is not None:
                market = _aimed(market, target)
            searches = self.searches(market, target)
            hinted = opening is not None and opening.hint is not None and target.best is not None
            closed = {id(search) for search in searches if self._hopeless}
            if opening is not None and not hinted:
                closed = self._open(target, searches, opening)
            if len(closed) < len(searches):
                searches, closed = self._tightened(target, searches, closed)
            for search in searches:
                if id(search) in closed:  # it stays closed: a better incumbent asks for more
                    mode = search.mode.strategy, search.mode.local_steps
                    ledger.end(mode)
                    ledger.root(mode, ledger.bound(mode))  # its relaxation alone has closed it
            if target.tied is None:
                self._begun = searches
            left = [search for search in searches if id(search) not in closed]
            return Schedule(target, ledger, left).run()
        except (StoppedError, KeyboardInterrupt, MemoryError) as why:
            self._stop(why)
            return False

    def _tightened(
        self, target: Target, searches: list[Search], closed: set[int]
    ) -> tuple[list[Search], set[int]]:
        """Return the searches, and which of them are closed, with bounds that know what the first
        incumbent asks of an improvement: prices of a dollar, and what data costs at least.
        """
        limited = target.max_usd_per_sample < math.inf and target.beat is None
        if not limited and not self.market.charges_data:
            return searches, closed
        market = self._charged(target)
        if limited or target.beat is not None:
            market = _aimed(market, target)
        done = {(s.mode.strategy, s.mode.local_steps) for s in searches if id(s) in closed}
        anew = self.searches(market, target)
        return anew, {id(s) for s in anew if (s.mode.strategy, s.mode.local_steps) in done}

    def _charged(self, target: Target) -> Market:
        """Return the market in which data is charged for the least samples that an improvement has
        pass through its workers, and for the most that one of them may cost.
        """
        passed = least_multiplier(self.market.problem)
        return self.market.with_data(
            target.min_speed * passed, target.max_usd_per_hour, target.max_usd_per_sample / passed
        )

    @staticmethod
    def _excluded(target: Target, searches: list[Search]) -> bool:
        """Return whether a few nodes prove that nothing beats a value that is known without a
        placement.

        Most such values are beaten by nothing. A draft costs more than that proof, so it is made
        where these nodes find something or do not end.
        """
        if target.beat is None or target.best is not None:
            return False
        nodes = min(EXCLUDING_NODES, target.node_limit or EXCLUDING_NODES)
        trial = replace(target.deaf, first=True, node_limit=nodes)
        try:
            for search in searches:
                search.aim(trial)
            excluded = Schedule(trial, Ledger(trial), searches).run()
        except FirstPlacementError:
            excluded = False
        except OutOfTimeError as why:
            if why.reason is not Reason.NODES:
                raise
            excluded = False
        finally:
            for search in searches:
                search.aim(target)
        target.ticks += trial.ticks if excluded else 0
        target.candidates += trial.candidates if excluded else 0
        return excluded

    def _open(self, target: Target, searches: list[Search], opening: SolveOptions) -> set[int]:
        """Make a first incumbent if some search needs one, and return which searches cannot improve
        it, by identity; where nodes are few, only those before the first that needs one.
        """
        every = {id(search) for search in searches}
        if target.short and self._excluded(target, searches):
            return every
        is_open = _openness(target, searches)
        left = [*dropwhile(lambda search: not is_open(search), searches)]
        if not left:
            return every
        if target.beat is not None and not target.short:
            left = [left[0], *filter(is_open, left[1:])]
            if self._excluded(target, left):
                return every
        _offer_draft(target, opening, left)
        closed = every - {id(search) for search in left}
        if target.short:  # the schedule asks the others when it comes to them
            return closed
        is_open = _openness(target, searches)
        return closed | {id(search) for search in left if not is_open(search)}

    def _break_tie(self, target: Target, best: Placement) -> tuple[Placement, Target | None]:
        """Find the cheapest of the fastest, or the fastest of the cheapest."""
        objective, value = target.objective, target.best_value
        if objective.by_sample:
            return best, None
        second = replace(target.deaf, tied=(objective, value))
        second.demand(objective.ahead(value, -TOLERANCE))
        second.objective = _tie_breaker(objective)
        second.best, second.best_key, second.candidates = None, (math.inf, math.inf), 0
        # A stopped second search leaves the answer optimal: only the tie stays undecided.
        least, most = TIE_NODES
        second.node_limit = min(max(least, target.ticks // 10), most)
        second.ticks, second.pause_nodes = 0, None
        second.offer(best)
        self._search(second, Ledger(second))
        return second.best or best, second

    def _note_roots(self, target: Target, ledger: Ledger) -> None:
        """Note what the relaxation of each mode proves alone; None if it is empty."""
        from .gossip_search import GossipSearch

        outermost = unbeatable_value(self.market, target)
        bounds: dict[tuple[str, int], float | None] = {
            **dict.fromkeys(self.market.problem.modes, outermost)
        }
        if self._alone(target):
            bounds[NO_EXCHANGE, 1] = _best_single_machine(self.market, target)
        trial = replace(target.deaf, gap=0.0, deadline=math.inf)
        # What no time or memory is left for keeps the outermost value.
        with allowance.closing(), suppress(OutOfTimeError, MemoryError):
            for search in self.searches(_aimed(self.market, target), trial):
                trial.best, trial.best_value = target.best, target.best_value
                once = search.relaxed() if isinstance(search, GossipSearch) else None
                bounds[search.mode.strategy, search.mode.local_steps] = (
                    root_bound(search.may_improve, trial, outermost) if once is None else once
                )
        for mode, value in bounds.items():
            ledger.root(mode, value)

    def _bound_what_is_left(self, target: Target, ledger: Ledger) -> None:
        """Work out a bound of each mode that a stopped search has left open, in little time."""
        target.deadline = math.inf
        if self._alone(target):
            ledger.root((NO_EXCHANGE, 1), _best_single_machine(self.market, target))
        # What no time or memory is left for keeps the outermost value.
        outermost = unbeatable_value(self.market, target)
        with allowance.closing(), suppress(StoppedError, MemoryError):
            searches = self._begun or self.searches(_aimed(self.market, target), target)
            Schedule(target, ledger, searches).close(outermost)
        for mode in self.market.problem.modes:
            if not ledger.of(mode).worked_out:
                ledger.root(mode, outermost)

    def _alone(self, target: Target) -> bool:
        """Return whether a single machine may be an answer."""
        return self.market.fewest_regions <= 1 and target.problem.requirements.min_workers == 1


def _status(target: Target, *, finished: bool, stopped: Reason | None) -> Status:
    """Return how a search ended: by proof, at any placement, or at a limit."""
    if finished:
        return Status.INFEASIBLE if target.best is None else Status.OPTIMAL
    if target.first and target.best is not None:
        return Status.FEASIBLE
    return stopped_by(stopped or Reason.TIME)


def _opening(problem: Problem, options: SolveOptions) -> SolveOptions | None:
    """Return the options of the first incumbent; None where one is known or none is wanted."""
    known = options.start is not None or bool(problem.requirements.used)
    early = options.node_limit is not None and options.beat is None  # see `_wants_draft`
    if known or (early and not options.first):
        return None
    return options.deaf


def _tie_breaker(objective: Objective) -> Objective:
    """Return what decides among equals: the price behind speed, the speed behind all else."""
    return objective_named("cost" if objective.by_speed else "throughput")


def _best_without_moving_data(problem: Problem, options: SolveOptions) -> Placement | None:
    """Find the best placement that leaves the data where it is; None if none may."""
    if not problem.requirements.data_moves:
        return None
    limits = replace(
        options.deaf,
        time_limit_s=options.time_limit_s / 3,
        start=None,
        hint=None,
        bound_if_stopped=False,
        certificate=False,
    )
    return solve(
        replace(problem, requirements=problem.requirements.with_data_staying()), limits
    ).placement


def _wants_draft(problem: Problem, options: SolveOptions) -> bool:
    """Return whether searches would take longer to find a first incumbent than a draft."""
    known = options.start or options.hint or options.beat is not None
    return not (known if options.node_limit is not None else not problem.requirements.used)


def _aimed(market: Market, target: Target) -> Market:
    """Evaluate the bound at the samples/s that a dollar an hour must buy for an improvement, for
    each mode and each straight part of its round, where the price per sample is limited, or a value
    is to be beaten within a budget.

    One row bounds a price per sample: its neighbours in the usual grid lose what they are off.
    """
    usd_per_speed = SECONDS_PER_HOUR * target.max_usd_per_sample
    if target.beat is not None and target.min_speed > 0:
        usd_per_speed = min(usd_per_speed, target.max_usd_per_hour / target.min_speed)
    if not 0 < usd_per_speed < math.inf:
        return market
    modes = (Mode(market.problem, name, steps) for name, steps in market.problem.modes)
    return market.with_multipliers(
        share * mode.multiplier / usd_per_speed
        for mode in modes
        for share, _ in mode.straight_rounds(0.0)
    )


def _searches(market: Market, target: Target) -> list[Search]:
    searches, plain = [], market.without_ways()
    for name, steps in market.problem.modes:
        target.check_time()
        mode, of = Mode(market.problem, name, steps), traits(name)
        stock = plain if of.division == "equal" else market
        searches.append(search_of(mode)(stock, target, mode))
    return searches


SEARCHES: dict[str, type[ButterflySearch | RegionSearch | HubSearch]] = {
    "butterfly": ButterflySearch,
    "leaders": RegionSearch,
    "region-hub": RegionSearch,
    "store": HubSearch,
    "regional-stores": HubSearch,
    "server": HubSearch,
}
"""Search of each transport of synchronous strategies."""


def search_of(mode: Mode) -> Callable[[Market, Target, Mode], Search]:
    """Return the class that searches a mode, by the transport of its strategy's traits."""
    transport = traits(mode.strategy).transport
    if transport == "butterfly" and mode.ring:
        from .ring_search import RingSearch

        return RingSearch
    if transport == "region-gossip":
        from .gossip_search import GossipSearch

        return GossipSearch
    return SEARCHES[transport]


def _openness(target: Target, searches: Sequence[Search]) -> Callable[[Search], bool]:
    """Return what tells whether a search may improve: all local steps of a strategy are asked about
    at once before, with exchanges as rare as the rarest and as few samples as the fewest. That
    bounds each of them, unless samples are paid for: what exchanges more often reads fewer.
    """
    every: dict[str, list[Search]] = {}
    for search in searches:
        every.setdefault(search.mode.strategy, []).append(search)
    known: dict[str, bool] = {}

    def is_open(search: Search) -> bool:
        name = search.mode.strategy
        if name not in known:
            alike = every[name]
            rarest = max(alike, key=lambda one: one.mode.local_steps)
            mode = Mode(rarest.mode.problem, name, rarest.mode.local_steps)
            mode.__dict__["multiplier"] = min(one.mode.multiplier for one in alike)
            bounds = len(alike) > 1 and not any(rarest.market.data_usd)
            widest = search_of(mode)(rarest.market, target, mode) if bounds else None
            known[name] = widest is None or widest.may_improve()
        return known[name] and search.may_improve()

    return is_open


def _offer_draft(target: Target, options: SolveOptions, searches: list[Search]) -> None:
    """Offer what `greedy` finds, then with local steps what local search does: not where nodes are
    counted, or where only placements of one region are open, which the searches enumerate faster.
    """
    drafting = Drafting(target.problem, options)
    steps = any(search.mode.local_steps > 1 for search in searches)
    for draw in (greedy.drafted, local_search.improved) if steps else (greedy.drafted,):
        left = max(0.0, target.deadline - time.monotonic())
        drafting.judge.target.deadline = time.monotonic() + DRAFT_SHARE * left
        draft = draw(drafting)
        if draft.placement is not None:
            target.offer(draft.placement)
        if draft.interrupted:  # the user ends the whole search
            raise KeyboardInterrupt
        if options.node_limit is not None or not any(map(_may_spread, searches)):
            return


def _may_spread(search: Search) -> bool:
    """Return whether a search may improve with several regions, or with a hub in another one."""
    if isinstance(search, ButterflySearch):
        return search.may_spread()
    return search.may_improve()


def _offer_single_machines(market: Market, target: Target) -> None:
    """Offer single machines in the order in which they could be best, until none can improve."""
    problem = market.problem
    if problem.requirements.min_workers > 1:
        return
    orders: dict[str, Callable[[], Array]] = {
        "throughput": lambda: -market.alone,
        "cost": lambda: market.usd,
        "cost-per-sample": lambda: market.usd / market.alone,
        "total": lambda: market.usd / market.alone,
        "carbon": lambda: market.carbon,
    }
    exchange = exchange_for("none", 1, problem)
    usd, speed, limits = market.pools.usd, market.alone, tuple[float, ...]()
    order = np.lexsort((market.usd, orders[target.objective.name]()))
    while True:
        if limits != target.limits:
            # What an improvement needs only grows, and data that moves only adds to the price.
            limits = target.limits
            able = (speed >= limits[0]) & (usd <= limits[1]) & (market.carbon <= limits[3])
            order = order[able[order]]
        if not len(order):
            return
        i, order = int(order[0]), order[1:]
        per_sample = usd_per_million_samples(float(usd[i]), float(speed[i])) / 1e6
        if per_sample <= limits[2] and market.required_machines.allows_alone(i):
            target.offer(Placement(groups=groups_of([market.pools[i]], [1]), exchange=exchange))


def _best_single_machine(market: Market, target: Target) -> float | None:
    """Return the best value of a single machine by its own figures; None if none may."""
    usd, speed, carbon = market.pools.usd, market.alone, market.carbon
    able = usd <= target.budget_usd_per_hour * (1 + TOLERANCE)
    able &= speed >= target.floor_samples_per_second * (1 - TOLERANCE)
    values = [
        target.objective.value_at(float(speed[i]), float(usd[i]), float(carbon[i]), float(usd[i]))
        for i in able.nonzero()[0].tolist()
        if market.required_machines.allows_alone(i)
    ]
    return target.objective.best(values)
