"""Run one solver by name, check its answer and price it before anyone sees it."""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from math import inf
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.errors import PlacerError, unknown
from placer.files.whole_files import write_whole
from placer.market.carbon import NO_GRID
from placer.problem.problem import Problem
from placer.problem.workers.admission import STALE
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import Reason, StoppedError
from placer.solving.answer import Answer, SolveOptions, stopped_by
from placer.solving.result import Result
from placer.version import install_line

if TYPE_CHECKING:
    from placer.solving.wider_proofs import WiderProofs

_EARLIER: ContextVar[WiderProofs | None] = ContextVar("earlier_answers", default=None)


@contextmanager
def knowing(earlier: WiderProofs | None) -> Iterator[None]:
    """Let every question that is asked while this lasts have the answers of earlier ones, and keep
    its own for later ones; with None, none does.
    """
    token = _EARLIER.set(earlier)
    try:
        yield
    finally:
        _EARLIER.reset(token)


Run = Callable[[Problem, SolveOptions], Answer]
"""A solver: a question and options in, a decision and a bound out."""


def solver_names() -> list[str]:
    """List the solvers in solvers/ whose names do not start with an underscore, sorted."""
    return [*_names_in(tuple(importlib.import_module("placer.solvers").__path__))]


@cache  # to read the folder took a fortieth of the time of many small questions
def _names_in(folders: tuple[str, ...]) -> tuple[str, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(folders))
    return tuple(name for name in names if not name.startswith("_"))


def solve(problem: Problem, solver: str = "exact", options: SolveOptions | None = None) -> Result:
    """Find the best placement; infeasible is a status. With a range of batches its problem has the
    best one. `AssertionError` if a solver returned a placement that breaks a limit, or a bound that
    its value beats: an internal error, never shown as an answer. The message names a file with the
    problem.
    """
    asked, options, earlier = _Solver(solver), options or SolveOptions(), _EARLIER.get()
    if earlier is None:
        return asked.searched(problem, options)
    return asked.known_or_searched(problem, options, earlier)


class _Solver:
    """A solver with what it says of itself; ``run`` asks it."""

    def __init__(self, name: str) -> None:
        module = load_solver(name)
        self.name, self.module = name, module
        self.run: Run = module.solve
        self.proves = bool(getattr(module, "PROVES", True))
        self.draws_alike = bool(getattr(module, "DRAWS_ALIKE", False))
        self.prices_all = bool(getattr(module, "PRICES_ALL", False))

    def known_or_searched(
        self, problem: Problem, options: SolveOptions, earlier: WiderProofs
    ) -> Result:
        """Return an earlier answer that is one of this question, or of a wider one; else search."""
        known = earlier.answer(problem, self.name, options)
        if known is not None:
            return known
        began, left = time.perf_counter(), options
        wider = earlier.wider(problem, self.name, options) if options.proof == "full" else None
        if wider is not None:
            solve(wider, self.name, replace(options, time_limit_s=options.time_limit_s / 2))
            seconds = time.perf_counter() - began
            known = earlier.answer(problem, self.name, options)
            if known is not None:
                return replace(known, seconds=seconds)
            left = replace(options, time_limit_s=max(0.0, options.time_limit_s - seconds))
        left = replace(left, hint=earlier.hint(problem, self.name, options))
        result = self.searched(problem, left)
        if result.problem is problem:  # not of a batch that was chosen
            earlier.keep(result, options)
        if wider is None or result.limits is None:
            return result
        limits = replace(result.limits, time_limit_s=options.time_limit_s)
        return replace(result, limits=limits, seconds=time.perf_counter() - began)

    def searched(self, problem: Problem, options: SolveOptions) -> Result:
        """Search, as often as a range of batches or shares of speed need it."""

        def ask(asked: Problem, own: SolveOptions) -> Result:
            return solve(asked, self.name, own)

        _say_begun(options)
        began, proves = time.perf_counter(), self.proves
        if problem.requirements.open_batches:
            from placer.solving.batches.search import best_batch  # few questions need it

            found = best_batch(problem, ask, options, proves=proves)
        elif problem.requirements.has_shares:
            from placer.solving.shares import best_within_shares  # few questions need it

            found = best_within_shares(problem, ask, options, self.name, proves=proves)
        elif problem.island_question is None or problem.requirements.narrowed is not None:
            return self.divided(problem, options)
        else:
            from placer.solving.parts.search import best_executed  # models without a plan do not

            found = _verified(best_executed(problem, self.divided, options))
        return replace(found, seconds=time.perf_counter() - began)

    def divided(self, problem: Problem, options: SolveOptions) -> Result:
        """Ask about each kind of machine or, with plans, about each number of workers."""
        began, asked = time.perf_counter(), (problem, self.checked, options, self.name)
        by_count = problem.island_question is not None and problem.requirements.narrowed is None
        if self.asks_by_kind(problem):
            if self.draws_alike and not (self.proves and options.proof == "full"):
                return self.checked(problem, options)
            from placer.solving.parts.machine_kinds import best_of_kinds  # hivemind does not

            found = best_of_kinds(*asked, draws_alike=self.draws_alike)
        elif by_count and not self.prices_all:
            from placer.solving.parts.worker_counts import best_worker_count

            found = best_worker_count(*asked, proves=self.proves)
        else:
            return self.checked(problem, options)
        return _verified(replace(found, seconds=time.perf_counter() - began))

    def asks_by_kind(self, problem: Problem) -> bool:
        """Tell whether a question is asked for each kind of machine, without plans."""
        return problem.uniform and problem.island_question is None and not self.prices_all

    def checked(self, problem: Problem, options: SolveOptions) -> Result:
        """Ask once, and check and price the answer."""
        started = time.perf_counter()
        with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
            answer = _stopped_or_asked(self.run, problem, options)
        seconds = time.perf_counter() - started
        figures = None if answer.placement is None else estimate(answer.placement, problem)
        return _verified(
            Result(
                problem=problem,
                estimate=figures,
                solver=self.name,
                seconds=seconds,
                limits=options.asked,
                **asdict(answer),
            )
        )


def prepare(problem: Problem, solver: str = "exact") -> Callable[[Problem, SolveOptions], Result]:
    """Make a solver ready for many questions that differ from one in objective, budget and floor
    alone; one with a `prepare` of its own works out only once what they share.
    """
    wish, prepared = problem.requirements, _Solver(solver)
    parts = prepared.asks_by_kind(problem) or problem.island_question is not None
    if wish.open_batches or wish.has_shares or parts:
        return lambda asked, options: solve(asked, solver, options)
    if hasattr(prepared.module, "prepare"):
        prepared.run = prepared.module.prepare(problem)

    def answer(asked: Problem, options: SolveOptions) -> Result:
        _say_begun(options)
        return prepared.checked(asked, options)

    return answer


def _say_begun(options: SolveOptions) -> None:
    if options.on_bound is not None:
        options.on_bound(None)


def load_solver(solver: str) -> ModuleType:
    """Import a solver; `PlacerError` if there is none, or a package of it is missing."""
    if solver not in solver_names():
        raise unknown("solver", solver, solver_names())
    module = importlib.import_module(f"placer.solvers.{solver}")
    for package in getattr(module, "NEEDS", ()):
        if find_spec(package) is None:
            message = f"the solver '{solver}' needs the package {package}"
            raise PlacerError(message, install_line(solver))
    return module


def _verified(result: Result) -> Result:
    """Return a result whose placement keeps every limit and no bound that it beats."""
    problem, placement = result.problem, result.placement
    if placement is None:
        return result
    wrong = "; ".join(v.message for v in violations(placement, problem)) or _beaten(result)
    if wrong:
        raise AssertionError(
            f"solver {result.solver} is wrong: {wrong}; the problem is in {_reproducer(problem)}"
        )
    return result


def _stopped_or_asked(run: Run, problem: Problem, options: SolveOptions) -> Answer:
    """Ask a solver; one that is stopped before it has anything answers with nothing."""
    try:
        if options.cancel is not None:
            allowance.check()  # a request of many searches ends without beginning the next
        return _asked(run, problem, options)
    except StoppedError as error:
        reason = getattr(error, "reason", Reason.TIME)
    except MemoryError:
        reason = Reason.MEMORY
    status = stopped_by(reason)
    interrupted = reason is Reason.CANCELLED
    return Answer(status=status, placement=None, bound=None, candidates=0, interrupted=interrupted)


def _asked(run: Run, problem: Problem, options: SolveOptions) -> Answer:
    """Ask a solver; the least time for a number of samples is found as the most samples/s."""
    wish, better, proved = problem.requirements, options.on_better, options.on_bound
    objective = objective_of(wish)
    if objective.searched == objective.name:
        return run(problem, options)

    def value(searched: float | None) -> float | None:
        return None if searched is None else objective.from_searched(searched)

    if better is not None:
        options = replace(options, on_better=lambda found: better(objective.from_searched(found)))
    if proved is not None:
        options = replace(options, on_bound=lambda bound: proved(value(bound)))
    if options.beat is not None:
        options = replace(options, beat=objective.to_searched(options.beat))
    answer = run(
        replace(problem, requirements=replace(wish, objective=objective.searched)), options
    )
    proof = tuple(
        replace(mode, bound=value(mode.bound), root_bound=value(mode.root_bound))
        for mode in answer.proof
    )
    return replace(answer, bound=value(answer.bound), proof=proof)


def _beaten(result: Result) -> str:
    value, bound = result.value, result.bound
    if value is None or bound is None or not result.objective.beats_bound(value, bound):
        return ""
    return f"its bound {bound:.9g} is beaten by its value {value:.9g}"


def _reproducer(problem: Problem) -> Path:
    import platformdirs

    text = json.dumps(problem.to_dict(), sort_keys=True)
    folder = platformdirs.user_cache_path("placer")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"problem-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    write_whole(path, text.encode())
    return path


FILTERS = {
    "": "unknown speed",
    "gpu": "GPU",
    "device-memory": "GPU memory",
    "host-memory": "host memory",
    "estimated": "unmeasured speed",
    STALE: "age of price",
}
"""What removed an offer, in words, by the code of its first problem."""


def require_pools(problem: Problem) -> None:
    """Say why if the request admits no machine at all."""
    if problem.worker_kinds if problem.island_question is not None else problem.pools:
        return
    from placer.solving.nearest_plan import nearest_plan  # only where nothing fits

    what = f"no offer of catalog '{problem.catalog.name}' passes your filters"
    what += f" for {problem.profile.name}"
    nearest = nearest_plan(problem)
    if nearest is not None:
        lacks, remedy = nearest
        raise PlacerError(f"{what}: {lacks}", remedy)
    reasons, filters, newest, quota = _removals(problem)
    common = max(reasons, key=lambda r: (reasons[r], r), default="the catalog has no offers")
    if newest:
        raise PlacerError(
            f"catalog '{problem.catalog.name}': all prices that fit are from before "
            f"{problem.requirements.oldest_price} (newest {newest})",
            "raise --max-price-age, or fetch new prices with 'placer catalog refresh'",
            exit_code=5,
        )
    if common.endswith(NO_GRID):
        raise PlacerError(
            f"catalog '{problem.catalog.name}' cannot say what its machines emit: {common}",
            "leave out --max-carbon and --objective carbon, or choose a catalog with grids, such "
            "as default",
            exit_code=5,
        )
    removed = ", ".join(f"by {name}: {count:,}" for name, count in filters.most_common())
    if removed:
        what += f"; removed {removed}"
    # What passes everything else is lost by quota alone, however few machines that are.
    raise PlacerError(what, quota or f"widen the request; most often: {common}")


def _removals(problem: Problem) -> tuple[Counter[str], Counter[str], str, str]:
    """Count offers by what removes them, in sentences and by kind of filter; and return the newest
    date of those that are only too old, and the quota that excludes the cheapest that passes
    everything else. Both are empty without any.
    """
    from placer.solving.nearest_plan import WISHES

    reasons, filters = Counter[str](), Counter[str]()
    newest, quota, least_usd = "", "", inf
    for offer in problem.catalog.offers:
        where = problem.place_problem(offer.place)
        wrong = problem.offer_problems(offer)
        if problem.island_question is not None:  # `nearest_plan` has told of plans
            wrong = [(code, message) for code, message in wrong if code in WISHES]
        filter_ = "place" if where else next((code for code, _ in wrong), "")
        causes = [where] if where else [message for _, message in wrong][:1]
        if not where and [code for code, _ in wrong] == [STALE]:
            newest = max(newest, offer.as_of)
        for pool in () if causes else problem.pools_of(offer):
            short = problem.quota_problem(offer, pool.machines)
            if short:
                causes, filter_ = [short], "quota"
                if pool.usd_per_hour < least_usd:
                    quota, least_usd = short, pool.usd_per_hour
        reasons.update(causes or ["nobody knows how fast it is"])
        filters[FILTERS.get(filter_, filter_)] += 1
    return reasons, filters, newest, quota
