"""The Python interface: the same words as the command line, typed results back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

from placer.advice.recommendation.recommend import Alternatives
from placer.advice.recommendation.recommend import recommend as recommend_problem
from placer.advice.recommendation.wider_proofs import WiderProofs
from placer.cost_model.objective import aimed_at
from placer.errors import PlacerError
from placer.interface.models import model_of
from placer.interface.options import book_names, solve_options, text_of, whole_number
from placer.interface.signatures import with_wishes
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.problem.contradictions import ContradictionError
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.request import build_problem
from placer.problem.words.values import check_words
from placer.problem.words.wishes import Quotas, TrainingWishes, Wishes
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import Cancel
from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.workload.profile import ModelProfile

if TYPE_CHECKING:  # loaded by the verbs that need them: the main job takes half a second
    from placer.advice.explanation.answer import Explanation
    from placer.advice.frontier.points import Frontier
    from placer.interface.by_hand import PlacementEstimate
    from placer.validation.simulation.replay import Simulation

Books = str | Sequence[str] | Catalog | None
"""A catalog, its name, or names of books, of which later ones win; None: what is pinned."""
Asked = str | ModelProfile | Problem
"""A model by its name or profile, or a whole question such as ``result.problem``, and then no
words.
"""
LEAST_S = 0.1
"""Seconds of a search at least, where reading the question took all its time."""


class Advisor:
    """An advisor that answers many requests and reads catalogs and profiles once. Threads may share
    it.

    Parameters
    ----------
    catalog
        Price book that requests use unless they name another: a name, a folder or a CSV file,
        several of them, of which later ones win, or a catalog; None: what ``placer catalog pin``
        chose, else ``default``.
    """

    def __init__(self, catalog: Books = None) -> None:
        self.catalog = catalog if isinstance(catalog, Catalog) else book_names(catalog)
        self._catalogs: dict[tuple[str, ...], Catalog] = {}
        self._profiles: dict[str, ModelProfile] = {}
        self._proofs = WiderProofs()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        named = self.catalog.name if isinstance(self.catalog, Catalog) else "+".join(self.catalog)
        return f"<Advisor on {named or 'the pinned catalog'}>"

    def __reduce__(self) -> tuple[type[Advisor], tuple[Books]]:
        """Pickle what requests use; catalogs and profiles are read again."""
        return type(self), (self.catalog,)

    @with_wishes
    def problem(self, model: Asked, catalog: Books = None, **words: Unpack[Wishes]) -> Problem:
        """Build the validated question; the words are those of `placer.recommend`. A whole problem
        stays as it is.
        """
        check_words(words)  # before anything is read
        if isinstance(model, Problem):
            if words or catalog:
                raise PlacerError(
                    f"{next(iter(words), 'catalog')} together with a whole problem",
                    "give a model and words, or a problem alone",
                )
            return model
        return build_problem(self._profile(model), self._book(catalog), **words)

    @with_wishes
    def recommend(
        self,
        model: str | ModelProfile,
        *,
        catalog: Books = None,
        solver: str = "exact",
        verify: str | None = None,
        gap: str | float = 0.001,
        time_limit: str | float = 30.0,
        seed: int = 0,
        top: int = 8,
        certificate: bool = False,
        alternatives: Alternatives = True,
        on_better: Callable[[float], None] | None = None,
        on_bound: Callable[[float | None], None] | None = None,
        memory_limit: str | float | None = None,
        cancel: Cancel | None = None,
        **words: Unpack[Wishes],
    ) -> Result:
        """Find, prove and explain the best placement; see `placer.recommend`."""
        whole_number("top", top, 1, "give the rows of the considered table")
        options = replace(
            solve_options(
                gap=gap,
                time_limit=time_limit,
                seed=seed,
                on_better=on_better,
                on_bound=on_bound,
                memory_limit=memory_limit,
                cancel=cancel,
            ),
            certificate=certificate,
        )
        if not isinstance(alternatives, bool) and alternatives != "short":
            raise PlacerError(
                f"alternatives {alternatives!r} is neither True nor False nor 'short'",
                "say alternatives=False for the answer alone",
            )
        if verify is not None:
            from placer.solving.cross_check import check_verifier

            check_verifier(solver, text_of("verify", verify))
        started, solver = time.monotonic(), text_of("solver", solver)
        problem = self.problem(model, catalog, **words)
        with allowance.opened(_left_s(options, started), options.memory_limit_bytes, cancel):
            result = recommend_problem(
                problem,
                solver,
                options,
                top,
                alternatives=alternatives,
                proofs=self._proofs if self._holds(problem) else None,
                more_workers=str(words.get("workers") or "..").endswith(".."),
            )
        if verify is None:
            return result
        from placer.solving.cross_check import verified

        return verified(result, verify, options)

    @with_wishes
    def pareto(
        self,
        model: Asked,
        *,
        catalog: Books = None,
        points: int = 12,
        solver: str = "exact",
        gap: str | float = 0.001,
        time_limit: str | float = 60.0,
        seed: int = 0,
        on_better: Callable[[float], None] | None = None,
        memory_limit: str | float | None = None,
        cancel: Cancel | None = None,
        **words: Unpack[Wishes],
    ) -> Frontier:
        """Find the frontier of cost against throughput; see `placer.pareto`."""
        from placer.advice.frontier.search import frontier

        whole_number("points", points, 1, "give the most points, at least 2")
        if words.get("objective") is not None:
            raise PlacerError(
                f"objective '{words['objective']}' for a frontier",
                "leave it out: a frontier shows both ends and all between",
            )
        options = solve_options(
            gap=gap,
            time_limit=time_limit,
            seed=seed,
            on_better=on_better,
            memory_limit=memory_limit,
            cancel=cancel,
        )
        if not isinstance(model, Problem):
            words["objective"] = "throughput"
        problem = self.problem(model, catalog, **words)
        problem = replace(problem, requirements=aimed_at(problem.requirements, "throughput"))
        return frontier(problem, text_of("solver", solver), options, points)

    @with_wishes
    def explain(
        self,
        model: Asked,
        *,
        catalog: Books = None,
        why_not: str | Sequence[str] = (),
        gap: str | float = 0.001,
        time_limit: str | float = 120.0,
        memory_limit: str | float | None = None,
        cancel: Cancel | None = None,
        start: Placement | None = None,
        **words: Unpack[Wishes],
    ) -> Explanation:
        """Say what binds, why not something else, what one more is worth, or why nothing fits; see
        `placer.explain`.
        """
        from placer.advice.explanation.explain import explain as explain_problem
        from placer.advice.worlds.whatif import keep

        try:
            problem = self.problem(model, catalog, **words)
        except ContradictionError as error:  # an answer here: the contradiction is taken apart
            problem = error.problem
        subjects = (
            (why_not,)
            if isinstance(why_not, str)
            else tuple(text_of("why_not", subject) for subject in why_not)
        )
        seconds = solve_options(time_limit=time_limit).time_limit_s
        options = solve_options(gap=gap, memory_limit=memory_limit, cancel=cancel)
        if start is not None and not keep(start, problem).broken:
            options = replace(options, start=start)
        return explain_problem(problem, subjects, options=options, time_limit_s=seconds)

    @with_wishes
    def estimate(
        self,
        model: str | ModelProfile,
        workers: str,
        *,
        catalog: Books = None,
        quota: Quotas | None = None,
        **words: Unpack[TrainingWishes],
    ) -> PlacementEstimate:
        """Time and price a placement given by hand; see `placer.estimate`."""
        from placer.interface.by_hand import estimate_by_hand

        problem = self.problem(model, catalog, quota=quota, mixed=True, supply="any", **words)
        return estimate_by_hand(workers, problem)

    @with_wishes
    def simulate(
        self,
        model: str | ModelProfile,
        workers: str,
        *,
        catalog: Books = None,
        rounds: int = 30,
        seed: int = 0,
        jitter: float = 0.0,
        stragglers: float = 0.0,
        straggler_factor: float = 2.0,
        **words: Unpack[TrainingWishes],
    ) -> Simulation:
        """Replay a placement given by hand, event by event; see `placer.simulate`."""
        from placer.solving.by_hand import place_by_hand
        from placer.validation.simulation.replay import replay

        problem = self.problem(model, catalog, **words)
        chance = {"jitter": jitter, "stragglers": stragglers, "straggler_factor": straggler_factor}
        return replay(place_by_hand(workers, problem), problem, rounds=rounds, seed=seed, **chance)

    def book(self, catalog: Books = None) -> Catalog:
        """Return the catalog that a question with these books is asked of.

        Raises
        ------
        PlacerError
            If there is no such book, or it cannot be read.
        """
        return self._book(catalog)

    def _book(self, catalog: Books) -> Catalog:
        chosen = catalog if isinstance(catalog, Catalog) else book_names(catalog) or self.catalog
        if isinstance(chosen, Catalog):
            return chosen
        with self._lock:
            if chosen not in self._catalogs:
                self._catalogs[chosen] = load_catalog(chosen or None)
            return self._catalogs[chosen]

    def _holds(self, problem: Problem) -> bool:
        """Return whether a question is about a catalog and a profile that are read once, as they
        are.
        """
        with self._lock:
            profiles, catalogs = [*self._profiles.values()], [*self._catalogs.values()]
        own = any(problem.catalog is each for each in (*catalogs, self.catalog))
        return own and any(problem.profile is each for each in profiles)

    def _profile(self, model: str | ModelProfile) -> ModelProfile:
        if isinstance(model, ModelProfile):
            return model
        model = text_of("model", model)
        with self._lock:
            if model not in self._profiles:
                self._profiles[model] = model_of(model)
            return self._profiles[model]


def _left_s(options: SolveOptions, started: float) -> float:
    """Return the seconds that reading the question has left of its time, but a little in any
    case.
    """
    limit_s = options.time_limit_s
    return max(limit_s - (time.monotonic() - started), min(limit_s, LEAST_S))


@with_wishes
def recommend(
    model: str | ModelProfile,
    *,
    catalog: Books = None,
    solver: str = "exact",
    verify: str | None = None,
    gap: str | float = 0.001,
    time_limit: str | float = 30.0,
    seed: int = 0,
    top: int = 8,
    certificate: bool = False,
    alternatives: Alternatives = True,
    on_better: Callable[[float], None] | None = None,
    on_bound: Callable[[float | None], None] | None = None,
    memory_limit: str | float | None = None,
    cancel: Cancel | None = None,
    **words: Unpack[Wishes],
) -> Result:
    """Find, prove and explain the best placement.

    Parameters
    ----------
    model
        Name of a shipped profile, path of a profile file, or a profile.
    catalog
        Price book: a name, a folder or a CSV file, several of them, of which later ones
        replace rows of earlier ones, or a catalog; None: the pinned ones.
    solver
        ``exact`` proves; the others are those of ``placer recommend --solver``.
    verify
        A second solver that is asked too.
    gap
        Relative gap to prove, such as ``0.1%`` or 0.001.
    time_limit
        Time after which the search stops with the best answer so far; a number is seconds.
    seed
        Of randomised solvers.
    top
        Rows of the considered table.
    certificate
        Whether to keep what was proved about each strategy.
    alternatives
        Whether to add what is only compared with the answer (options, baselines, near misses,
        nearest, verdict). Schedulers that read placement and estimate leave it out. ``"short"``
        adds what ``placer recommend`` prints without ``-v``: all but the best with local steps and
        what is best at another price of the decisive row.
    on_better
        Called with the value of each better answer.
    on_bound
        Called a few times a second with the best bound so far, in the unit of the objective; with
        None where a search begins. Only ``exact`` knows one before it ends.
    memory_limit
        Memory at which the search stops with the best answer so far: resident memory of the
        process, such as ``2GB``; a number is bytes. None: what the process holds, and beside it a
        quarter of the machine, at most 2 GB.
    cancel
        Token that another thread may set to end the search with the best answer so far:
        `threading.Event`, or whatever has ``is_set()``.
    **words
        The wishes, as text or as plain values where the unit is plain:

        {wishes}

    Returns
    -------
    Result
        ``result.placement`` is None if nothing fits; then ``result.nearest`` says what would.

    Raises
    ------
    PlacerError
        Names the word that is wrong.

    Examples
    --------
    >>> import placer
    >>> words = {"catalog": "erben-2023", "gpu": ["T4", "A10"]}
    >>> result = placer.recommend("roberta-xlm", budget="5/h", **words)
    >>> [group.spec for group in result.placement.groups]
    ['lambda/us-west-1=8xA10:on-demand']
    """
    return Advisor(catalog).recommend(
        model,
        solver=solver,
        verify=verify,
        gap=gap,
        time_limit=time_limit,
        seed=seed,
        top=top,
        certificate=certificate,
        alternatives=alternatives,
        on_better=on_better,
        on_bound=on_bound,
        memory_limit=memory_limit,
        cancel=cancel,
        **words,
    )


@with_wishes
def pareto(
    model: Asked,
    *,
    catalog: Books = None,
    points: int = 12,
    solver: str = "exact",
    gap: str | float = 0.001,
    time_limit: str | float = 60.0,
    seed: int = 0,
    on_better: Callable[[float], None] | None = None,
    memory_limit: str | float | None = None,
    cancel: Cancel | None = None,
    **words: Unpack[Wishes],
) -> Frontier:
    """Find what each budget buys: the frontier of USD/h against samples/s that count.

    Parameters
    ----------
    model
        As in `recommend`; or a whole problem, such as ``result.problem``, and then no words.
    catalog, solver, gap, seed, on_better, memory_limit, cancel
        As in `recommend`.
    points
        The most points.
    time_limit
        For all points together; a number is seconds.
    **words
        The wishes without ``objective``; ``budget`` and ``min_throughput`` are the upper and the
        lower end:

        {wishes}

    Returns
    -------
    Frontier
        Points from the cheapest to the fastest, each with its bounds; none if nothing fits.

    Raises
    ------
    PlacerError
        Names the word that is wrong.

    Examples
    --------
    >>> import placer
    >>> words = {"catalog": "erben-2023", "gpu": ["T4", "A10"]}
    >>> frontier = placer.pareto("roberta-xlm", budget="5/h", points=4, **words)
    >>> [round(point.usd_per_hour, 2) for point in frontier.points], frontier.proved
    ([0.13, 0.6, 1.88, 4.8], True)
    """
    return Advisor(catalog).pareto(
        model,
        points=points,
        solver=solver,
        gap=gap,
        time_limit=time_limit,
        seed=seed,
        on_better=on_better,
        memory_limit=memory_limit,
        cancel=cancel,
        **words,
    )


@with_wishes
def explain(
    model: Asked,
    *,
    catalog: Books = None,
    why_not: str | Sequence[str] = (),
    gap: str | float = 0.001,
    time_limit: str | float = 120.0,
    memory_limit: str | float | None = None,
    cancel: Cancel | None = None,
    start: Placement | None = None,
    **words: Unpack[Wishes],
) -> Explanation:
    """Explain an answer: what binds, why not something else, what one more dollar or GPU is worth,
    when to leave a region, or why nothing fits.

    Parameters
    ----------
    model
        As in `recommend`; or a whole problem, such as ``result.problem``, and then no words.
    catalog, gap, memory_limit, cancel
        As in `recommend`.
    why_not
        Names of places, GPUs, exchanges, ``place=GPU:market``, ``spot``, ``on-demand`` or
        ``2-regions``; by default the most tempting ones.
    time_limit
        For the whole explanation; a number is seconds.
    start
        An answer that is known, with which the search begins where it keeps the limits.
    **words
        The wishes:

        {wishes}

    Returns
    -------
    Explanation
        ``conflict`` is set where nothing fits; else ``binding``, ``why_not``, ``worth`` and
        ``staying``.

    Raises
    ------
    PlacerError
        Names the word that is wrong.

    Examples
    --------
    >>> import placer
    >>> explanation = placer.explain("roberta-xlm", budget="0.01/h", catalog="erben-2023")
    >>> [wish.code for wish in explanation.conflict.wishes]
    ['budget']
    """
    return Advisor().explain(
        model,
        catalog=catalog,
        why_not=why_not,
        gap=gap,
        time_limit=time_limit,
        memory_limit=memory_limit,
        cancel=cancel,
        start=start,
        **words,
    )


@with_wishes
def estimate(
    model: str | ModelProfile,
    workers: str,
    *,
    catalog: Books = None,
    quota: Quotas | None = None,
    **words: Unpack[TrainingWishes],
) -> PlacementEstimate:
    """Time and price a placement given by hand; no search.

    Parameters
    ----------
    model, catalog
        As in `recommend`.
    workers
        Such as ``gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot``.
    quota
        As in `recommend`.
    **words
        The wishes that say what is trained and how:

        {wishes}

    Examples
    --------
    >>> import placer
    >>> estimate = placer.estimate("roberta-xlm", "gcp/us-central1=4xT4:spot", catalog="erben-2023")
    >>> round(estimate.samples_per_second.value)
    370
    """
    return Advisor(catalog).estimate(model, workers, quota=quota, **words)


@with_wishes
def simulate(
    model: str | ModelProfile,
    workers: str,
    *,
    catalog: Books = None,
    rounds: int = 30,
    seed: int = 0,
    jitter: float = 0.0,
    stragglers: float = 0.0,
    straggler_factor: float = 2.0,
    **words: Unpack[TrainingWishes],
) -> Simulation:
    """Replay a placement given by hand, event by event, beside what the closed form says of it.

    Parameters
    ----------
    model, workers, catalog
        As in `estimate`.
    rounds
        Rounds to replay, from exchange to exchange.
    seed
        Equal seeds give equal results.
    jitter
        Coefficient of variation of the speed of each worker in each step and of each link in each
        round.
    stragglers, straggler_factor
        Probability that a worker is slow in a step, and by how much.
    **words
        The wishes that say what is trained and how:

        {wishes}

    Raises
    ------
    PlacerError
        Names the word that is wrong.

    Examples
    --------
    >>> import placer
    >>> workers = "gcp/us-central1=4xT4:spot"
    >>> replay = placer.simulate("roberta-xlm", workers, catalog="erben-2023", rounds=3)
    >>> round(replay.samples_per_second), round(replay.difference, 6)
    (370, 0.0)
    """
    return Advisor(catalog).simulate(
        model,
        workers,
        rounds=rounds,
        seed=seed,
        jitter=jitter,
        stragglers=stragglers,
        straggler_factor=straggler_factor,
        **words,
    )
