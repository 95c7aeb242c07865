"""The advisor, and the verbs that search once or not at all: the words of the command line, typed
results back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Unpack,
)

from placer.errors import PlacerError
from placer.interface.options import book_names, check_proof, solve_options, text_of, whole_number
from placer.interface.verb import described, verb
from placer.interface.words import (
    Asked,
    Books,
    Limited,
    Model,
    Placed,
    Searched,
    Solving,
    Swept,
    Texts,
)
from placer.problem.words.wishes import WISHES, Quotas, Wishes
from placer.records import replace

if TYPE_CHECKING:  # loaded by the verbs that need them
    from placer.advice.explanation.explain import Explanation
    from placer.advice.frontier import Frontier
    from placer.interface.by_hand import Comparison, PlacementEstimate
    from placer.market.catalog import Catalog
    from placer.problem.placement import Placement
    from placer.problem.problem import Problem
    from placer.solving.answer import SolveOptions
    from placer.solving.result import Result
    from placer.solving.wider_proofs import WiderProofs
    from placer.validation.simulation.replay import Simulation
    from placer.workload.profile import ModelProfile

P = ParamSpec("P")
R = TypeVar("R")
LEAST_S = 0.1
"""Seconds of a search at least, where reading the question took all its time."""
MOST_ROWS = 1_000
"""Rows of a considered table, or offers of a list, that one request of the service may ask for."""


class Posed(NamedTuple):
    """A question that was read: who answers it, the problem, and how it is solved."""

    advisor: Advisor
    problem: Problem
    solver: str
    options: SolveOptions


def pose(model: Asked, words: Mapping[str, Any], **changed: Any) -> Posed:
    """Read the words of a verb.

    ``model``: as the verb takes it. ``words``: its wishes, its catalog and how to solve; others are
    left alone. ``**changed``: in place of what the words say. Raise a `PlacerError` that names the
    word that is wrong.
    """
    options = solve_options(**{n: v for n, v in words.items() if n in OPTIONS})
    solver = text_of("solver", words.get("solver", "exact"))
    catalog = words.get("catalog")
    advisor = words.get("advisor") or Advisor(catalog)
    asked = {n: v for n, v in words.items() if n not in NO_WISHES} | changed
    return Posed(advisor, advisor.problem(model, catalog, **asked), solver, options)


OPTIONS = frozenset(Solving.__annotations__) - {"solver"}
"""Words that say how to solve."""
NO_WISHES = frozenset({*Swept.__annotations__} - {*WISHES})
"""Words of verbs that are no wishes."""


@verb("result")
def recommend(
    model: Asked,
    *,
    verify: str | None = None,
    top: int = 8,
    certificate: bool = False,
    proof: str = "full",
    alternatives: bool | Literal["short"] = True,
    **words: Unpack[Searched],
) -> Result:
    """Find, prove and explain the best placement for a model.

    ``result.placement`` is None if nothing fits; then ``result.nearest`` says what would.
    Raise `PlacerError`, which names the word that is wrong.

    verify (NAME): Ask a second solver and say whether both agree: milp (PuLP with HiGHS) or cpsat
        (OR-Tools).
    top (1..): Rows of the considered table.
    certificate: Keep what was proved about each strategy.
    proof ({full, quick, none}): Prove the answer; or answer at once, with a quick bound or none.

        Quick answers are drafts: a better placement may exist, and a tighter limit may find one.
    alternatives: Whether to add what is only compared with the answer; without it ten times faster.

        These are options, baselines, near misses, nearest and verdict: schedulers that read
        placement and estimate leave them out. ``"short"`` adds what ``placer recommend`` prints
        without ``-v``: all but the best with local steps and what is best at another price of the
        decisive row.

    >>> import placer
    >>> words = {"catalog": "erben-2023", "gpu": ["T4", "A10"]}
    >>> result = placer.recommend("roberta-xlm", budget="5/h", **words)
    >>> [group.spec for group in result.placement.groups]
    ['lambda/us-west-1=8xA10:on-demand']
    """
    from placer.advice.recommendation.bottlenecks import is_usual
    from placer.advice.recommendation.recommend import recommend as recommend_problem
    from placer.solving import allowance

    whole_number("top", top, 1, "give the rows of the considered table")
    if not isinstance(alternatives, bool) and alternatives != "short":
        raise PlacerError(
            f"alternatives {alternatives!r} is neither True nor False nor 'short'",
            "say alternatives=False for the answer alone",
        )
    check_proof(proof, words["solver"])
    if verify is not None:
        from placer.solving.cross_check import check_verifier

        check_verifier(text_of("solver", words["solver"]), text_of("verify", verify))
    started = time.monotonic()
    advisor, problem, solver, options = pose(model, words)
    options = replace(options, certificate=certificate, proof=proof)
    # A whole question has no words that say whether its most workers were asked for.
    grows = problem is not model or is_usual(problem.requirements)
    left_s = _left_s(options, started)
    with allowance.opened(left_s, options.memory_limit_bytes, options.cancel):
        result = recommend_problem(
            problem,
            solver,
            options,
            top,
            alternatives=alternatives,
            proofs=advisor._proofs_about(problem),
            more_workers=grows and str(words.get("workers") or "..").endswith(".."),
        )
    if verify is None:
        return result
    from placer.solving.cross_check import verified

    return verified(result, verify, options)


@verb("pareto", time_limit="60s")
def pareto(model: Asked, *, points: int = 12, **words: Unpack[Searched]) -> Frontier:
    """Find what each budget buys: the frontier of USD/h against samples/s that count.

    The wishes ``budget`` and ``min_throughput`` are the upper and the lower end; there is no
    ``objective``. Return points from the cheapest to the fastest, each with its bounds; none if
    nothing fits. Raise `PlacerError`, which names the word that is wrong.

    points (N): Most points, the cheapest and the fastest among them.
    gap (SHARE): Relative gap to prove for each point, such as 0.1% or 0.001.
    time_limit (TIME): For the whole frontier, such as 60s; then the points so far.

    >>> import placer
    >>> words = {"catalog": "erben-2023", "gpu": ["T4", "A10"]}
    >>> frontier = placer.pareto("roberta-xlm", budget="5/h", points=4, **words)
    >>> [round(point.usd_per_hour, 2) for point in frontier.points], frontier.proved
    ([0.13, 0.6, 1.88, 4.8], True)
    """
    from placer.advice.frontier import frontier
    from placer.cost_model.objective import aimed_at
    from placer.problem.problem import Problem

    whole_number("points", points, 1, "give the most points, at least 2")
    if words.get("objective") is not None:
        raise PlacerError(
            f"objective '{words['objective']}' for a frontier",
            "leave it out: a frontier shows both ends and all between",
        )
    aim = {} if isinstance(model, Problem) else {"objective": "throughput"}
    _, problem, solver, options = pose(model, words, **aim)
    problem = replace(problem, requirements=aimed_at(problem.requirements, "throughput"))
    return frontier(problem, solver, options, points)


@verb("explanation", time_limit="2min")
def explain(
    model: Asked, *, why_not: Texts = (), start: Placement | None = None, **words: Unpack[Limited]
) -> Explanation:
    """Explain an answer: what binds, why not something else, what one more dollar or GPU is worth,
    when to leave a region, or why nothing fits.

    ``conflict`` is set where nothing fits; else ``binding``, ``why_not``, ``worth`` and
    ``staying``. Raise `PlacerError`, which names the word that is wrong.

    time_limit (TIME): Stop after this long and say what is missing.
    why_not (X): PLACE, GPU, EXCHANGE, PLACE=GPU:market, spot, on-demand, community, 2-regions or
        stages; default: the most tempting ones.
    start (Python): An answer that is known, with which the search begins where it keeps the limits.

    >>> import placer
    >>> explanation = placer.explain("roberta-xlm", budget="0.01/h", catalog="erben-2023")
    >>> [wish.code for wish in explanation.conflict.wishes]
    ['budget']
    """
    from placer.advice.explanation.explain import explain as explain_problem
    from placer.advice.worlds.whatif import keep
    from placer.problem.contradictions import ContradictionError

    subjects = (why_not,) if isinstance(why_not, str) else why_not
    subjects = tuple(text_of("why_not", subject) for subject in subjects)
    seconds = solve_options(time_limit=words["time_limit"]).time_limit_s
    limits: dict[str, Any] = {name: words.get(name) for name in ("gap", "memory_limit", "cancel")}
    options = solve_options(**limits)
    try:
        problem = pose(model, words).problem
    except ContradictionError as error:  # an answer here: the contradiction is taken apart
        problem = error.problem
    if start is not None and not keep(start, problem).broken:
        options = replace(options, start=start)
    return explain_problem(problem, subjects, options=options, time_limit_s=seconds)


@verb("estimate", searches=0)
def estimate(
    model: Model,
    workers: str,
    *,
    quota: Annotated[Quotas | None, WISHES["quota"]] = None,
    **words: Unpack[Placed],
) -> PlacementEstimate:
    """Time and price a placement given by hand, without a search.

    >>> import placer
    >>> estimate = placer.estimate("roberta-xlm", "gcp/us-central1=4xT4:spot", catalog="erben-2023")
    >>> round(estimate.samples_per_second.value)
    370
    """
    from placer.interface.by_hand import estimate_by_hand

    problem = pose(model, words, quota=quota, mixed=True, supply="any").problem
    return estimate_by_hand(workers, problem)


@verb("comparison", searches=0)
def compare(
    model: Model,
    placements: Sequence[str],
    *,
    every_exchange: bool = False,
    **words: Unpack[Placed],
) -> Comparison:
    """Compare placements given by hand.

    placements: Placements, each written as the workers of an estimate.
    every_exchange: One row for each exchange that can run.
    """
    from placer.interface.by_hand import Comparison, check_every, side_by_side

    check_every(words.get("exchange", "auto"), every=every_exchange)
    problem = pose(model, words).problem
    options = side_by_side(problem, placements, every=every_exchange)
    return Comparison(problem=problem, options=tuple(options))


@verb("simulation", searches=0)
def simulate(
    model: Model,
    workers: str,
    *,
    rounds: int = 30,
    seed: int = 0,
    jitter: float = 0.0,
    stragglers: float = 0.0,
    straggler_factor: float = 2.0,
    **words: Unpack[Placed],
) -> Simulation:
    """Replay a placement given by hand, event by event, beside what the closed form says of it.

    Raise `PlacerError`, which names the word that is wrong.

    rounds (N): Rounds to replay, from exchange to exchange.
    seed (N): Equal numbers give equal results.
    jitter (X): Coefficient of variation of speeds, 0 to 2.

        It is that of each worker in each step, and of each link in each round.
    stragglers (P): Probability that a worker is slow in a step.
    straggler_factor (X): By how much it is slow then.

    >>> import placer
    >>> workers = "gcp/us-central1=4xT4:spot"
    >>> replay = placer.simulate("roberta-xlm", workers, catalog="erben-2023", rounds=3)
    >>> round(replay.samples_per_second), round(replay.difference, 6)
    (370, 0.0)
    """
    from placer.solving.by_hand import place_by_hand
    from placer.validation.simulation.replay import replay

    problem = pose(model, words).problem
    chance = {"jitter": jitter, "stragglers": stragglers, "straggler_factor": straggler_factor}
    return replay(place_by_hand(workers, problem), problem, rounds=rounds, seed=seed, **chance)


def _left_s(options: SolveOptions, started: float) -> float:
    """Return the seconds that reading the question has left, but a little in any case."""
    limit_s = options.time_limit_s
    return max(limit_s - (time.monotonic() - started), min(limit_s, LEAST_S))


class Method(Generic[P, R]):
    """A verb as a method: it is asked of the advisor."""

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function

    @property
    def __wrapped__(self) -> Callable[P, R]:
        return described(self._function)

    def __get__(self, advisor: Advisor | None, owner: type) -> Callable[P, R]:
        function = self.__wrapped__
        if advisor is None:
            return function

        @wraps(function)
        def ask(*args: P.args, **words: P.kwargs) -> R:
            return function(*args, **{**words, "advisor": advisor})  # type: ignore[arg-type]

        return ask


class Advisor:
    """An advisor that answers many requests and reads catalogs and profiles once. Threads may share
    it.

    ``catalog``: price book that requests use unless they name another: a name, a folder or a CSV
    file, several of them, of which later ones win, or a catalog; None: what ``placer catalog pin``
    chose, else ``default``.
    """

    def __init__(self, catalog: Books = None) -> None:
        from placer.market.catalog import Catalog

        self.catalog = catalog if isinstance(catalog, Catalog) else book_names(catalog)
        self._catalogs: dict[tuple[str, ...], Catalog] = {}
        self._profiles: dict[str, ModelProfile] = {}
        self._proofs: WiderProofs | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        chosen = self.catalog
        named = "+".join(chosen) if isinstance(chosen, tuple) else chosen.name
        return f"<Advisor on {named or 'the pinned catalog'}>"

    def __reduce__(self) -> tuple[type[Advisor], tuple[Books]]:
        """Pickle what requests use; catalogs and profiles are read again."""
        return type(self), (self.catalog,)

    @verb("")
    def problem(self, model: Asked, catalog: Books = None, **words: Unpack[Wishes]) -> Problem:
        """Build the validated question; the words are those of `placer.recommend`. A whole problem
        stays as it is.
        """
        from placer.problem.problem import Problem
        from placer.problem.words.request import build_problem
        from placer.problem.words.values import check_words

        check_words(words)  # before anything is read
        if isinstance(model, Problem):
            if words or catalog:
                raise PlacerError(
                    f"{next(iter(words), 'catalog')} together with a whole problem",
                    "give a model and words, or a problem alone",
                )
            return model
        return build_problem(self._profile(model), self.book(catalog), **words)

    recommend = Method(recommend)
    pareto = Method(pareto)
    explain = Method(explain)
    estimate = Method(estimate)
    compare = Method(compare)
    simulate = Method(simulate)

    def book(self, catalog: Books = None) -> Catalog:
        """Return the catalog that a question with these books is asked of.

        Raise `PlacerError` if there is no such book, or it cannot be read.
        """
        from placer.market.books.book_reader import load_catalog
        from placer.market.catalog import Catalog

        chosen = catalog if isinstance(catalog, Catalog) else book_names(catalog) or self.catalog
        if isinstance(chosen, Catalog):
            return chosen
        with self._lock:
            if chosen not in self._catalogs:
                self._catalogs[chosen] = load_catalog(chosen or None)
            return self._catalogs[chosen]

    def _proofs_about(self, problem: Problem) -> WiderProofs | None:
        """Return what earlier requests proved of wider questions on the same book and model."""
        from placer.solving.wider_proofs import WiderProofs

        with self._lock:
            if self._proofs is None:
                self._proofs = WiderProofs()
            profiles, catalogs = [*self._profiles.values()], [*self._catalogs.values()]
        own = any(problem.catalog is each for each in (*catalogs, self.catalog))
        # Catalog and profile are read once and stay as they are, so identity is enough.
        known = own and any(problem.profile is each for each in profiles)
        return self._proofs if known else None

    def _profile(self, model: str | ModelProfile) -> ModelProfile:
        from placer.interface.options import model_of
        from placer.workload.profile import ModelProfile

        if isinstance(model, ModelProfile):
            return model
        model = text_of("model", model)
        with self._lock:
            if model not in self._profiles:
                self._profiles[model] = model_of(model)
            return self._profiles[model]
