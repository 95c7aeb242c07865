"""The Python interface: the same words as the command line, typed results back."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from placer.book import load_catalog
from placer.by_hand import place_by_hand
from placer.calibration import Calibration
from placer.catalog import Catalog
from placer.contradictions import ContradictionError
from placer.errors import PlacerError, unknown
from placer.estimator import Estimate
from placer.estimator import estimate as estimate_placement
from placer.explanation import Explanation
from placer.explanation import explain as explain_problem
from placer.overlay import Overlay
from placer.problem import Problem
from placer.profile import ModelProfile, load_profile
from placer.recommender import recommend as recommend_problem
from placer.request import build_problem
from placer.result import Result, SolveOptions
from placer.simulation.replay import Simulation, replay
from placer.units import parse_fraction, parse_seconds

Books = str | Sequence[str] | Catalog | None
"""A catalog, its name, or the names of books that lie over each other; None: what is pinned."""


class Advisor:
    """Answers many requests; catalogs and profiles are read once. Safe to share between threads.

    Parameters
    ----------
    catalog
        Price book that requests use unless they name another: a name, a folder or a CSV file, several of them that lie over
        each other, or a catalog; None: what ``placer catalog pin`` chose, else ``default``.
    """

    def __init__(self, catalog: Books = None) -> None:
        self.catalog = catalog if isinstance(catalog, Catalog) else _book_names(catalog)
        self._catalogs: dict[tuple[str, ...], Catalog] = {}
        self._profiles: dict[str, ModelProfile] = {}
        self._lock = threading.Lock()

    def problem(self, model: str | ModelProfile, catalog: Books = None, **words: Any) -> Problem:
        """Build the validated question; ``words`` are those of `placer.request.build_problem`."""
        check_words(words)
        return build_problem(self._profile(model), self._book(catalog), **words)

    def recommend(
        self,
        model: str | ModelProfile,
        *,
        catalog: Books = None,
        solver: str = "exact",
        gap: str | float = 0.001,
        time_limit: str | float = 30.0,
        seed: int = 0,
        top: int = 8,
        on_better: Callable[[float], None] | None = None,
        **words: Any,
    ) -> Result:
        """Find, prove and explain the best placement; see `placer.recommend`."""
        if not isinstance(top, int) or top < 1:
            raise PlacerError(f"top {top!r} is not a whole number from 1", "give the rows of the considered table")
        options = solve_options(gap=gap, time_limit=time_limit, seed=seed, on_better=on_better)
        return recommend_problem(self.problem(model, catalog, **words), _text("solver", solver), options, top)

    def explain(
        self,
        model: str | ModelProfile | Problem,
        *,
        catalog: Books = None,
        why_not: str | Sequence[str] = (),
        gap: str | float = 0.001,
        time_limit: str | float = 120.0,
        **words: Any,
    ) -> Explanation:
        """Say what binds, why not something else, what one more is worth, or why nothing fits; see `placer.explain`."""
        if isinstance(model, Problem):
            check_words(words)
            if words or catalog is not None:
                raise PlacerError(f"{next(iter(words), 'catalog')} beside a whole problem", "give a model and words, or a problem alone")
            problem = model
        else:
            try:
                problem = self.problem(model, catalog, **words)
            except ContradictionError as error:  # an answer here: the contradiction is taken apart
                problem = error.problem
        seconds = parse_seconds(f"{time_limit}s" if isinstance(time_limit, int | float) else str(time_limit))
        subjects = (why_not,) if isinstance(why_not, str) else tuple(_text("why_not", subject) for subject in why_not)
        options = SolveOptions(gap=parse_fraction(str(gap), "gap"))
        return explain_problem(problem, subjects, options=options, time_limit_s=seconds)

    def estimate(self, model: str | ModelProfile, workers: str, *, catalog: Books = None, **words: Any) -> Estimate:
        """Time and price a placement given by hand; see `placer.estimate`."""
        problem = self.problem(model, catalog, **words)
        return estimate_placement(place_by_hand(workers, problem), problem)

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
        **words: Any,
    ) -> Simulation:
        """Replay a placement given by hand, event by event; see `placer.simulate`."""
        problem = self.problem(model, catalog, **words)
        chance = {"jitter": jitter, "stragglers": stragglers, "straggler_factor": straggler_factor}
        return replay(place_by_hand(workers, problem), problem, rounds=rounds, seed=seed, **chance)

    def _book(self, catalog: Books) -> Catalog:
        chosen = catalog if isinstance(catalog, Catalog) else _book_names(catalog) or self.catalog
        if isinstance(chosen, Catalog):
            return chosen
        with self._lock:
            if chosen not in self._catalogs:
                self._catalogs[chosen] = load_catalog(chosen or None)
            return self._catalogs[chosen]

    def _profile(self, model: str | ModelProfile) -> ModelProfile:
        if isinstance(model, ModelProfile):
            return model
        model = _text("model", model)
        with self._lock:
            if model not in self._profiles:
                self._profiles[model] = load_profile(model)
            return self._profiles[model]


def recommend(model: str | ModelProfile, **words: Any) -> Result:
    """Find, prove and explain the best placement.

    Parameters
    ----------
    model
        Name of a shipped profile, path of a profile file, or a profile.
    **words
        The options of ``placer recommend`` with underscores: budget, min_throughput, samples, deadline, max_carbon, objective, gpu,
        places (--in), not_places (--not-in), market, workers, regions, quota, exchange, local_steps, streams, overlap,
        samples_to_target, aggregator, storage, compression, tbs, critical_batch, data, passes, keep, interruption, unavailable,
        links (--link), calibration, zones, require_measured, catalog, solver, gap, time_limit, seed, top.

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
    >>> result = placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023", gpu="T4,A10,V100")
    >>> [group.spec for group in result.placement.groups]
    ['lambda/us-west-1=8xA10:on-demand']
    """
    return Advisor().recommend(model, **words)


def estimate(model: str | ModelProfile, workers: str, **words: Any) -> Estimate:
    """Time and price a placement given by hand; no search.

    Parameters
    ----------
    model
        As in `recommend`.
    workers
        Such as ``gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot``.
    **words
        As in `recommend`.

    Examples
    --------
    >>> import placer
    >>> got = placer.estimate("roberta-xlm", "gcp/us-central1=4xT4:spot", catalog="erben-2023")
    >>> round(got.samples_per_second.value)
    377
    """
    return Advisor().estimate(model, workers, **words)


def simulate(model: str | ModelProfile, workers: str, **words: Any) -> Simulation:
    """Replay a placement given by hand, event by event, beside what the closed form says of it.

    Parameters
    ----------
    model, workers
        As in `estimate`.
    **words
        As in `recommend`, and: ``rounds`` to replay (30); ``seed`` (0), equal seeds give equal results; ``jitter`` (0), coefficient of
        variation of the speed of each worker in each step and of each link in each round; ``stragglers`` (0), probability that
        a worker is slowed in a step, by ``straggler_factor`` (2).

    Raises
    ------
    PlacerError
        Names the word that is wrong.

    Examples
    --------
    >>> import placer
    >>> got = placer.simulate("roberta-xlm", "gcp/us-central1=4xT4:spot", catalog="erben-2023", rounds=3)
    >>> round(got.samples_per_second), round(got.difference, 6)
    (377, 0.0)
    """
    return Advisor().simulate(model, workers, **words)


def solve_options(
    *, gap: str | float = 0.001, time_limit: str | float = 30.0, seed: int = 0, on_better: Callable[[float], None] | None = None
) -> SolveOptions:
    """Read the words that say how to solve.

    Raises
    ------
    PlacerError
        Names the word that is wrong.
    """
    if not isinstance(seed, int):
        raise PlacerError(f"seed {seed!r} is not a whole number", "give a whole number")
    return SolveOptions(
        gap=parse_fraction(str(gap), "gap"),
        time_limit_s=parse_seconds(f"{time_limit}s" if isinstance(time_limit, int | float) else str(time_limit)),
        seed=seed,
        on_better=on_better,
    )


def _book_names(catalog: str | Sequence[str] | None) -> tuple[str, ...]:
    """Names of books as a tuple; empty if none were given."""
    if catalog is None:
        return ()
    if isinstance(catalog, str):
        return (catalog,)
    if not isinstance(catalog, list | tuple):
        raise PlacerError(f"catalog {catalog!r} is not a name", "give text, or a list of it")
    return tuple(_text("catalog", name) for name in catalog)


def _text(what: str, value: object) -> str:
    """Accept text and paths."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if not isinstance(value, str):
        raise PlacerError(f"{what} {value!r} is not a name", "give text")
    return value


def check_words(given: Mapping[str, object]) -> None:
    """Refuse words that no request has, and values of the wrong kind.

    Raises
    ------
    PlacerError
        Names the word, with the nearest one that exists.
    """
    known = inspect.signature(build_problem).parameters
    for name, value in given.items():
        if name not in known or name in ("profile", "catalog"):
            raise unknown("word", name, [k for k in known if k not in ("profile", "catalog")])
        kinds = _KINDS.get(name, (str, os.PathLike))
        if not (isinstance(value, kinds) or (value is None and known[name].default is None)):
            raise PlacerError(f"{name} {value!r} is of the wrong kind", "give text, as on the command line")


_KINDS: dict[str, tuple[type, ...]] = {
    "gpu": (str, list, tuple, set),
    "places": (str, list, tuple, set),
    "not_places": (str, list, tuple, set),
    "workers": (str, Integral),
    "regions": (str, Integral),
    "links": (str, list, tuple),
    "calibration": (str, os.PathLike, Calibration, Overlay),
    "tbs": (str, Integral),
    "samples": (str, Integral),
    "critical_batch": (str, Integral),
    "local_steps": (str, Integral),
    "streams": (str, Integral),
    "overlap": (bool,),
    "samples_to_target": (str, list, tuple),
    "data": (str, os.PathLike, list, tuple),
    "passes": (str, Real),
    "keep": (str, list, tuple),
    "interruption": (str, Real),
    "unavailable": (str, Real),
    "require_measured": (bool,),
}
"""What a word may be beside text."""
