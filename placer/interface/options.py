"""What the Python functions take beside the wishes: how to solve, names of books, counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from placer.errors import PlacerError
from placer.solving.allowance import Cancel
from placer.solving.answer import SolveOptions
from placer.units import parse_bytes, parse_fraction, parse_seconds

MEMORY_HINT = "write it as 500MB, 2GB or 1GiB"
MOST_SEED = 2**31 - 1
"""The largest seed that every solver takes."""


def solve_options(
    *,
    gap: str | float = 0.001,
    time_limit: str | float = 30.0,
    seed: int = 0,
    on_better: Callable[[float], None] | None = None,
    on_bound: Callable[[float | None], None] | None = None,
    memory_limit: str | float | None = None,
    cancel: Cancel | None = None,
) -> SolveOptions:
    """Read the words that say how to solve.

    Parameters
    ----------
    gap
        Relative gap to prove, such as ``0.1%`` or 0.001.
    time_limit
        Such as ``2min``; a number is seconds.
    seed
        Of randomised solvers.
    on_better
        Called with the value of each better answer.
    on_bound
        Called a few times a second with the best bound so far; with None where a search begins.
    memory_limit
        Resident memory of the process, such as ``2GB``; a number is bytes. None: what the process
        holds and a quarter of the machine beside it, at most 2 GB.
    cancel
        Token that another thread may set to end the search, such as `threading.Event`.

    Raises
    ------
    PlacerError
        Names the word that is wrong.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise PlacerError(f"seed {seed!r} is not a whole number", "give a whole number")
    if not 0 <= seed <= MOST_SEED:
        raise PlacerError(f"seed {seed}", f"give a whole number from 0 to {MOST_SEED:,}")
    for name, value in (("gap", gap), ("time_limit", time_limit)):
        if isinstance(value, bool):
            raise PlacerError(f"{name} {value} is not a number", "give a number, or text")
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise PlacerError(f"cancel {cancel!r} is not a cancel token", "give a threading.Event")
    return SolveOptions(
        gap=parse_fraction(str(gap), "gap"),
        time_limit_s=parse_seconds(
            f"{time_limit}s" if isinstance(time_limit, int | float) else str(time_limit)
        ),
        seed=seed,
        on_better=on_better,
        on_bound=on_bound,
        memory_limit_bytes=None if memory_limit is None else memory_bytes(memory_limit),
        cancel=cancel,
    )


def memory_bytes(value: str | float) -> int:
    """Read a memory limit: text such as ``500MB`` or ``1GiB``, or a number of bytes.

    Raises
    ------
    PlacerError
        Names the value that is wrong.

    Examples
    --------
    >>> memory_bytes("1GiB"), memory_bytes(500_000_000)
    (1073741824, 500000000)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PlacerError(f"memory limit {value!r} is not a number of bytes", MEMORY_HINT)
    try:
        count = parse_bytes(value if isinstance(value, str) else f"{value}B")
    except PlacerError:
        raise PlacerError(
            f"memory limit '{value}' is not a number of bytes above 0", MEMORY_HINT
        ) from None
    return int(count)


def whole_number(what: str, value: object, least: int, hint: str) -> int:
    """Return a whole number, or refuse what is none or below the least."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PlacerError(f"{what} {value!r} is not a whole number from {least}", hint)
    return value


def book_names(catalog: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return names of books as a tuple; empty if none were given."""
    if catalog is None:
        return ()
    if isinstance(catalog, str):
        return (catalog,)
    if not isinstance(catalog, list | tuple):
        raise PlacerError(f"catalog {catalog!r} is not a name", "give text, or a list of it")
    return tuple(text_of("catalog", name) for name in catalog)


def text_of(what: str, value: object) -> str:
    """Return text or a path as text."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if not isinstance(value, str):
        raise PlacerError(f"{what} {value!r} is not a name", "give text")
    return value
