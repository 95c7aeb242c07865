"""Published figures beside placer's own: what a paper says, rows, groups of rows, claims and their
verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any

from msgspec import to_builtins

from placer.documents.schemas.measured import PaperGroup
from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.report.shown import Shown

SCHEMA = "placer.reproduction/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedClaim:
    """One claim; ``value`` is a figure in ``unit``, a placement, or empty where the statement says
    all. ``condition`` says under which machines, prices and accounting the claim is judged and
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
    fitted to it. ``calculation_s`` and ``communication_s`` are parts of a step by the wall clock,
    as logged; they need not sum to it.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One quantity of one run or placement. ``groups`` are what its error is averaged over, the
    first one is where it stands in a table; ``family`` names rows that a short table shows only the
    best of. ``published`` is None where the paper gives no number; ``low`` and ``high`` bound
    ``ours``; ``parts`` add up to it; ``calibrates`` names what was fitted to this run, empty for a
    prediction; ``best`` marks the smallest of its group.
    """

    groups: tuple[str, ...]
    label: str
    quantity: str
    unit: str
    ours: float
    published: float | None = None
    low: float | None = None
    high: float | None = None
    parts: tuple[tuple[str, float], ...] = ()
    family: str = ""
    calibrates: str = ""
    best: bool = False

    @property
    def error(self) -> float | None:
        """Relative error, ours over published less 1; None without a published figure."""
        return None if self.published is None else self.ours / self.published - 1

    @property
    def inside(self) -> bool | None:
        """Whether the published figure lies within the interval; None if either is missing."""
        if self.published is None or self.low is None or self.high is None:
            return None
        return self.low <= self.published <= self.high


class Verdict(StrEnum):
    """What became of a claim. ``contradicted``: the figures of the books, or an estimate by more
    than its tolerance, say otherwise. ``undecided``: what decides it was never published as a
    number, and placer's assumptions in its place do not settle it.
    """

    REPRODUCED = "reproduced"
    UNDECIDED = "undecided: inputs unpublished"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True)
class Finding:
    """What placer found about a claim: its own figure in words, the verdict and the reason."""

    verdict: Verdict
    ours: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A published claim and what placer found about it."""

    published: PublishedClaim
    finding: Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class Reproduction(Shown):
    """One paper worked out again."""

    paper: str
    title: str
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]

    @property
    def groups(self) -> tuple[PaperGroup, ...]:
        """Errors by quantity and group, in the order of the rows."""
        return group_errors(self.rows)

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of claims by verdict, all verdicts in their order."""
        found = [claim.finding.verdict for claim in self.claims]
        return {str(verdict): found.count(verdict) for verdict in Verdict}

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.reproduction/v1`` document; errors and coverage are shares of 1.
        Within v1 keys are only added.
        """
        return {
            "schema": SCHEMA,
            "paper": self.paper,
            "title": self.title,
            "rows": [_row_document(row) for row in self.rows],
            "groups": to_builtins(list(self.groups)),
            "verdicts": self.verdicts,
            "claims": [_claim_document(claim) for claim in self.claims],
            "notes": list(self.notes),
        }


def group_errors(rows: Iterable[Row]) -> tuple[PaperGroup, ...]:
    """Average the absolute errors of each group and quantity over the rows with a published figure.

    >>> same = {"groups": ("A",), "quantity": "samples/s", "unit": "", "published": 100.0}
    >>> rows = [Row(label="1", ours=98.0, **same), Row(label="2", ours=104.0, **same)]
    >>> round(group_errors(rows)[0].mean_error, 6), round(group_errors(rows)[0].worst_error, 6)
    (0.03, 0.04)
    """
    members: dict[tuple[str, int, str], list[Row]] = {}
    for row in rows:
        if row.published is not None:
            for position, name in enumerate(row.groups):
                members.setdefault((row.quantity, position, name), []).append(row)
    quantities = list(dict.fromkeys(quantity for quantity, _, _ in members))
    order = sorted(members, key=lambda key: (quantities.index(key[0]), key[1]))
    return tuple(_group(key[2], key[0], members[key]) for key in order)


def _group(name: str, quantity: str, rows: list[Row]) -> PaperGroup:
    errors = [row.error for row in rows if row.error is not None]
    inside = [row.inside for row in rows if row.inside is not None]
    return PaperGroup(
        name=name,
        quantity=quantity,
        rows=len(rows),
        mean_error=fmean(abs(error) for error in errors),
        worst_error=max(errors, key=abs),
        coverage=fmean(inside) if inside else None,
    )


LINK_ERROR = 0.06
"""Median error of estimated round-trip times on providers that the link model was not fitted to:
smaller differences decide nothing.
"""


def told(held: bool) -> Verdict:
    """Judge a claim that either holds or does not."""
    return Verdict.REPRODUCED if held else Verdict.CONTRADICTED


def decided(margin: float) -> Verdict:
    """Judge an order of estimated times by the share by which it holds (negative: by which the
    opposite holds).

    >>> [str(decided(margin)) for margin in (0.2, 0.01, -0.2)]
    ['reproduced', 'undecided: inputs unpublished', 'contradicted']
    """
    return told(margin > 0) if abs(margin) > LINK_ERROR else Verdict.UNDECIDED


def within(claim: PublishedClaim, ours: float) -> Verdict:
    """Judge a published figure by the tolerance that stands beside it."""
    if claim.tolerance is None:
        raise ValueError(f"claim {claim.id} has no tolerance")
    return told(abs(ours / float(claim.value) - 1) <= claim.tolerance)


def percent_range(shares: Sequence[float]) -> str:
    """Write shares of 1 from the smallest to the largest in percent.

    >>> percent_range([0.011, -0.2, 0.006]), percent_range([0.0, -1e-12])
    ('-20.0 % to +1.1 %', '+0.0 %')
    """
    low, high = (
        f"{100 * share:+.1f}".replace("-0.0", "+0.0") for share in (min(shares), max(shares))
    )
    return f"{low} %" if low == high else f"{low} % to {high} %"


def _row_document(row: Row) -> dict[str, Any]:
    names = ("label", "family", "quantity", "unit", "published", "ours", "low", "high")
    return {
        "groups": list(row.groups),
        **{name: getattr(row, name) for name in names},
        "error": row.error,
        "inside_interval": row.inside,
        "calibrates": row.calibrates,
        "parts": dict(row.parts),
        "best": row.best,
    }


def _claim_document(claim: Claim) -> dict[str, Any]:
    said, found = claim.published, claim.finding
    names = ("unit", "passage", "source", "as_of", "condition", "tolerance")
    return {
        "id": said.id,
        "statement": said.statement,
        "published": said.value,
        **{name: getattr(said, name) for name in names},
        "verdict": str(found.verdict),
        "ours": found.ours,
        "why": found.why,
    }
