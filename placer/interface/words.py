"""What the Python interface takes: the words of the command line, checked before anything is read."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real

from placer.errors import PlacerError, unknown
from placer.problem.words.request import build_problem
from placer.solving.answer import SolveOptions
from placer.units import parse_fraction, parse_seconds
from placer.workload.constants import Calibration
from placer.workload.overlay import Overlay

MOST_SEED = 2**31 - 1
"""The largest seed that every solver takes."""


def solve_options(
    *,
    gap: str | float = 0.001,
    time_limit: str | float = 30.0,
    seed: int = 0,
    on_better: Callable[[float], None] | None = None,
) -> SolveOptions:
    """Read the words that say how to solve.

    Raises
    ------
    PlacerError
        Names the word that is wrong.
    """
    if not isinstance(seed, int):
        raise PlacerError(f"seed {seed!r} is not a whole number", "give a whole number")
    if not 0 <= seed <= MOST_SEED:
        raise PlacerError(f"seed {seed}", f"give a whole number from 0 to {MOST_SEED:,}")
    return SolveOptions(
        gap=parse_fraction(str(gap), "gap"),
        time_limit_s=parse_seconds(
            f"{time_limit}s" if isinstance(time_limit, int | float) else str(time_limit)
        ),
        seed=seed,
        on_better=on_better,
    )


def book_names(catalog: str | Sequence[str] | None) -> tuple[str, ...]:
    """Names of books as a tuple; empty if none were given."""
    if catalog is None:
        return ()
    if isinstance(catalog, str):
        return (catalog,)
    if not isinstance(catalog, list | tuple):
        raise PlacerError(f"catalog {catalog!r} is not a name", "give text, or a list of it")
    return tuple(text_of("catalog", name) for name in catalog)


def text_of(what: str, value: object) -> str:
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
            raise PlacerError(
                f"{name} {value!r} is of the wrong kind", "give text, as on the command line"
            )


_KINDS: dict[str, tuple[type, ...]] = {
    "gpu": (str, list, tuple, set),
    "places": (str, list, tuple, set),
    "not_places": (str, list, tuple, set),
    "use": (str, list, tuple, set),
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
