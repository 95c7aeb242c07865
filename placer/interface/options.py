"""What the Python functions take beside the wishes: how to solve, names of models and books."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from placer.errors import PlacerError, unknown
from placer.interface.words import MOST_SEED
from placer.units import parse_bytes, parse_fraction, parse_seconds

if TYPE_CHECKING:
    from placer.solving.allowance import Cancel
    from placer.solving.answer import SolveOptions
    from placer.workload.profile import ModelProfile

MEMORY_HINT = "write it as 500MB, 2GB or 1GiB"


def solve_options(
    *,
    gap: str | float = 0.001,
    time_limit: str | float = 30.0,
    seed: int = 0,
    memory_limit: str | float | None = None,
    cancel: Cancel | None = None,
    **hears: Any,
) -> SolveOptions:
    """Read the words that say how to solve: `placer.interface.words.Solving` without the solver.

    Raise a `PlacerError` that names the word that is wrong.
    """
    from placer.solving.answer import SolveOptions

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
        memory_limit_bytes=None if memory_limit is None else memory_bytes(memory_limit),
        cancel=cancel,
        **hears,
    )


def check_proof(proof: object, solver: object) -> None:
    """Refuse a proof that is none of full, quick and none, or whose solver answers otherwise."""
    from placer.documents.schemas.proofs import ProofWish

    if proof not in get_args(ProofWish):
        raise unknown("proof", str(proof), get_args(ProofWish))
    if proof != "full" and solver != "exact":
        raise PlacerError(
            f"proof '{proof}' is of the solver exact, not of {solver}",
            "leave out --solver, or --proof",
        )


def memory_bytes(value: str | float) -> int:
    """Read a memory limit: text such as ``500MB`` or ``1GiB``, or a number of bytes.

    Raise a `PlacerError` that names the value that is wrong.

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


def model_of(words: str) -> ModelProfile:
    """Read what ``--model`` names, or raise a `PlacerError`. PyTorch is needed only for
    configurations of models that are no standard decoder, which have to be counted.
    """
    from placer.workload.models.model_words import read_model

    def counted(asked: Any) -> ModelProfile:
        from placer.profiler.huggingface.counted import counted_profile

        return counted_profile(asked)

    return read_model(words, counted)
