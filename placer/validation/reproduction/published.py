"""What a paper says: runs and claims, read from the CSV files beside its price book."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedClaim:
    """One claim; ``value`` is a figure in ``unit``, a placement, or empty where the statement says
    all.

    Notes
    -----
    ``condition`` says under which machines, prices and accounting the claim is judged and
    ``tolerance`` by which share of ``value`` ours may miss it; both stand in the file, so they are
    fixed before anything is worked out.
    """

    id: str
    statement: str
    value: str
    unit: str
    condition: str
    tolerance: float | None = None
    passage: str
    source: str
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRun:
    """One measured run; ``workers`` as on the command line, ``calibrates`` empty if nothing was
    fitted to it.

    Notes
    -----
    ``calculation_s`` and ``communication_s`` are parts of a step by the wall clock, as logged; they
    need not sum to it.
    """

    experiment: str
    model: str
    workers: str
    target_batch_size: int
    samples_per_second: float
    gb_sent_per_worker_and_step: float
    calculation_s: float | None
    communication_s: float | None
    calibrates: str
    source: str
    as_of: str


def published_claims(book: str) -> tuple[PublishedClaim, ...]:
    """Read the claims of a book's paper from claims.csv."""
    return tuple(PublishedClaim(**row) for row in _rows(book, "claims.csv"))


def published_runs(book: str) -> tuple[PublishedRun, ...]:
    """Read the measured runs of a book's paper from runs.csv."""
    return tuple(PublishedRun(**row) for row in _rows(book, "runs.csv"))


def _rows(book: str, file: str) -> list[dict[str, Any]]:
    return list(read_rows(shipped_catalogs() / book / file, file))
