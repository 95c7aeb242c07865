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
from placer.errors import PlacerError, unknown
from placer.estimator import Estimate
from placer.estimator import estimate as estimate_placement
from placer.overlay import Overlay
from placer.problem import Problem
from placer.profile import ModelProfile, load_profile
from placer.reaction import WhatIf, what_if
from placer.recommender import recommend as recommend_problem
from placer.request import build_problem
from placer.result import Result, SolveOptions
from placer.scenario import parse_changes
from placer.simulation.replay import Simulation, replay
from placer.sweep_words import sweep_problem
from placer.sweeping import Sweep
from placer.units import parse_fraction, parse_seconds

SOLVE_WORDS: dict[str, Any] = {"gap": 0.001, "time_limit": 30.0, "seed": 0}
"""Words that say how to solve, and what they are without a word."""
SWEEP_WORDS = ("solver", "set", "drop", "output", "shard", "jobs", "dask", "tell")
"""Words of a sweep beside those of the request."""
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

    def whatif(
        self,
        model: str | ModelProfile,
        *,
        set: Sequence[str] = (),  # noqa: A002 - the word of the command line
        drop: Sequence[str] = (),
        catalog: Books = None,
        solver: str = "exact",
        gap: str | float = 0.001,
        time_limit: str | float = 30.0,
        seed: int = 0,
        on_better: Callable[[float], None] | None = None,
        **words: Any,
    ) -> WhatIf:
        """Solve a question as it is and as changed; see `placer.whatif`."""
        options = solve_options(gap=gap, time_limit=time_limit, seed=seed, on_better=on_better)
        changes = parse_changes(set, drop)
        return what_if(self.problem(model, catalog, **words), changes, _text("solver", solver), options)

    def sweep(self, model: str | ModelProfile, over: Sequence[str], *, catalog: Books = None, **words: Any) -> Sweep:
        """Solve a question over ranges; see `placer.sweep`."""
        own = {name: words.pop(name) for name in SWEEP_WORDS if name in words}
        options = solve_options(**{name: words.pop(name, default) for name, default in SOLVE_WORDS.items()})
        return sweep_problem(self.problem(model, catalog, **words), over, options=options, **own)

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
        The options of ``placer recommend`` with underscores: budget, min_throughput, objective, gpu,
        places (--in), not_places (--not-in), market, workers, regions, quota, exchange, local_steps, streams, overlap,
        samples_to_target, aggregator, storage, compression, tbs, data, passes, keep, interruption, unavailable,
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


def whatif(model: str | ModelProfile, **words: Any) -> WhatIf:
    """Solve a question as it is and as changed, and say what keeping the old choice would do in the changed world.

    Parameters
    ----------
    model
        As in `recommend`.
    **words
        As in `recommend`, without ``top``, and: ``set``, a list of changes such as ``price:gcp/*:T4=x0.5``; ``drop``, a list of offers that
        are gone, such as ``aws/us-east-1``. See ``placer whatif --help``.

    Raises
    ------
    PlacerError
        Names the word that is wrong, or the pattern that matches nothing.

    Examples
    --------
    >>> import placer
    >>> got = placer.whatif("roberta-xlm", set=["price:lambda/*:A10=x3"], budget="5/h", catalog="erben-2023", gpu="T4,A10,V100")
    >>> got.same, [group.spec for group in got.after.placement.groups]
    (False, ['gcp/us-central1=8xT4:spot'])
    """
    return Advisor().whatif(model, **words)


def sweep(model: str | ModelProfile, over: Sequence[str], **words: Any) -> Sweep:
    """Solve a question for every combination of one to three ranges.

    Parameters
    ----------
    model
        As in `recommend`.
    over
        Ranges such as ``budget=2/h..20/h:7``, ``bandwidth:*:*=x0.25..4:log 5`` or ``gpu=T4,A10``; see ``placer sweep --help``.
    **words
        As in `whatif` (``set`` and ``drop`` hold at every point), and: ``output``, a file that grows line by line and is taken up again;
        ``shard`` such as ``1/4``; ``jobs``, processes that solve side by side; ``dask``, address of a scheduler; ``tell``, a function that
        hears how many points of how many are done.

    Raises
    ------
    PlacerError
        Names the word that is wrong.

    Examples
    --------
    >>> import placer
    >>> got = placer.sweep("roberta-xlm", ["budget=2/h,5/h"], catalog="erben-2023", gpu="T4,A10,V100")
    >>> [row["workers"] for row in got.rows]
    [['lambda/us-west-1=3xA10:on-demand'], ['lambda/us-west-1=8xA10:on-demand']]
    """
    return Advisor().sweep(model, over, **words)


def solve_options(
    *, gap: str | float, time_limit: str | float, seed: int, on_better: Callable[[float], None] | None = None
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
