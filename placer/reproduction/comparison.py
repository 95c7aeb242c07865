"""Published figures beside placer's own: what a paper says, rows, groups of rows, claims and their
verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from placer.documents.schemas import measured
from placer.documents.schemas.measured import Claim, PaperGroup, PaperRow, Verdict
from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.report.shown import Shown

VERDICTS = Verdict.REPRODUCED, Verdict.UNDECIDED, Verdict.CONTRADICTED
"""What claims are given today."""


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


def published_runs(book: str) -> tuple[PublishedRun, ...]:
    """Read the measured runs of a book's paper from runs.csv."""
    return tuple(PublishedRun(**row) for row in _rows(book, "runs.csv"))


def _rows(book: str, file: str) -> list[dict[str, Any]]:
    return list(read_rows(shipped_catalogs() / book / file, file))


def paper_row(
    *,
    groups: Sequence[str],
    ours: float,
    published: float | None = None,
    low: float | None = None,
    high: float | None = None,
    **words: Any,
) -> PaperRow:
    """Put one quantity of a run or placement beside the published one, with the bounds of ours;
    ``words`` are further fields of `PaperRow`.
    """
    inside = None
    if published is not None and low is not None and high is not None:
        inside = low <= published <= high
    usual = {"family": "", "calibrates": "", "parts": {}, "best": False}
    return PaperRow(
        groups=list(groups),
        ours=ours,
        published=published,
        low=low,
        high=high,
        error=None if published is None else ours / published - 1,
        inside_interval=inside,
        **{**usual, **words},
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """What placer found about a claim: its own figure in words, the verdict and the reason."""

    verdict: Verdict
    ours: str
    why: str


def judged_claims(book: str, judge: Callable[[PublishedClaim], Finding]) -> tuple[Claim, ...]:
    """Put what placer finds beside each claim of a book's paper, from claims.csv."""
    claims = []
    for row in _rows(book, "claims.csv"):
        said = PublishedClaim(**row)
        told = {**asdict(said), **asdict(judge(said))}
        claims.append(Claim(published=told.pop("value"), **told))
    return tuple(claims)


class Reproduction(measured.Reproduction, Shown, frozen=True):
    """One paper worked out again."""


def reproduction(
    paper: str, title: str, rows: Sequence[PaperRow], claims: Sequence[Claim], notes: Sequence[str]
) -> Reproduction:
    """Add the errors by quantity and group, and the number of claims by verdict."""
    found = [claim.verdict for claim in claims]
    return Reproduction(
        paper=paper,
        title=title,
        rows=list(rows),
        groups=list(group_errors(rows)),
        claims=list(claims),
        notes=list(notes),
        verdicts={str(verdict): found.count(verdict) for verdict in VERDICTS},
    )


def group_errors(rows: Iterable[PaperRow]) -> tuple[PaperGroup, ...]:
    """Average the absolute errors of each group and quantity over the rows with a published figure.

    >>> same = {"groups": ("A",), "quantity": "samples/s", "unit": "", "published": 100.0}
    >>> rows = [paper_row(label="1", ours=98.0, **same), paper_row(label="2", ours=104.0, **same)]
    >>> round(group_errors(rows)[0].mean_error, 6), round(group_errors(rows)[0].worst_error, 6)
    (0.03, 0.04)
    """
    members: dict[tuple[str, int, str], list[PaperRow]] = {}
    for one in rows:
        if one.published is not None:
            for position, name in enumerate(one.groups):
                members.setdefault((one.quantity, position, name), []).append(one)
    quantities = list(dict.fromkeys(quantity for quantity, _, _ in members))
    order = sorted(members, key=lambda key: (quantities.index(key[0]), key[1]))
    return tuple(_group(key[2], key[0], members[key]) for key in order)


def _group(name: str, quantity: str, rows: list[PaperRow]) -> PaperGroup:
    errors = [one.error for one in rows if one.error is not None]
    inside = [one.inside_interval for one in rows if one.inside_interval is not None]
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
