"""Refresh a user's book from a provider's own prices: ask, check, compare with the book before,
write at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from placer.errors import PlacerError, SourceError
from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import check_book_name, own_book_names, own_books
from placer.market.books.layers import catalog_names
from placer.market.books.pin import pinned
from placer.market.sources.changes import Changes, changes
from placer.market.sources.harvest import Harvest, Row
from placer.market.sources.prices import azure, gcp
from placer.market.sources.prices.aws import listing as aws
from placer.market.sources.prices.quotes import Gathered, checked
from placer.market.sources.save import ORIGIN, locked, replaceable, save
from placer.market.sources.scope import Scope, scope_of

OFFERS = "offers.csv"


@dataclass(frozen=True, kw_only=True, slots=True)
class Refreshed:
    """What a refresh found and did.

    Parameters
    ----------
    folder
        Where the book lies; None after a dry run.
    rows
        The offers of the new book.
    changes
        Against the book of this name before; None if there was none.
    left_out
        How many prices were left out, by reason.
    kept
        Regions that failed and whose old offers were kept, with how many.
    failed
        Regions that failed, with their error.
    """

    name: str
    provider: str
    folder: Path | None
    rows: Sequence[Row]
    changes: Changes | None
    left_out: Mapping[str, int]
    notes: Sequence[str]
    kept: Mapping[str, int]
    failed: Mapping[str, str]


def refresh(
    provider: str,
    *,
    places: str | None = None,
    gpu: str | None = None,
    name: str | None = None,
    partial: bool = False,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda words: None,
) -> Refreshed:
    """Read a provider's prices and write them as a book of the user.

    Parameters
    ----------
    provider
        ``aws``, ``azure`` or ``gcp``.
    places
        Regions or wildcards, such as ``us-west-2,eu-*``; None for all that the shipped book knows.
    gpu
        Devices or families; None for all.
    name
        Name of the book; None for the provider's.
    partial
        Keep the old offers of regions that fail; otherwise one region that fails ends the refresh.
    dry_run
        Write nothing.
    tell
        Called with what is being read.

    Raises
    ------
    PlacerError
        With exit code 2 for wrong words or missing credentials; with exit code 7 if the provider
        does not deliver, another process refreshes this book, or it cannot be written. The old book
        stays as it was.
    """
    scope = scope_of(provider, places=places, gpu=gpu)
    book = check_book_name(provider if name is None else name, catalog_names())
    if partial and provider != "aws":
        raise PlacerError(
            f"--partial says nothing for {provider}, whose regions come in one list",
            "leave --partial out",
        )
    with nullcontext() if dry_run else locked(book, "refreshed", 0):
        before = _before(book, provider)
        gathered = _gathered(scope, tell, partial)
        now = datetime.now(UTC)
        rows, left_out, notes = checked(gathered, scope, now.date())
        kept = [
            row
            for row in before or ()
            if row["region"] in gathered.failed and scope.wants_gpu(row["gpu"])
        ]
        if not rows:
            raise _nothing(provider, left_out)
        everything = sorted(
            [*rows, *kept],
            key=lambda row: (str(row["region"]), str(row["instance_type"]), str(row["market"])),
        )
        compared = (
            None if before is None else changes(before, everything, scope.regions, scope.gpus)
        )
        notes = [*notes, *_failures(gathered.failed, kept), *_doubts(book, compared, dry_run)]
        harvest = Harvest(
            rows={OFFERS: everything}, origins=gathered.origins, left_out=left_out, notes=notes
        )
        folder = None if dry_run else save(harvest, book)
    return Refreshed(
        name=book,
        provider=provider,
        folder=folder,
        rows=everything,
        changes=compared,
        left_out=left_out,
        notes=notes,
        kept={region: sum(row["region"] == region for row in kept) for region in gathered.failed},
        failed=gathered.failed,
    )


def _gathered(scope: Scope, tell: Callable[[str], None], partial: bool) -> Gathered:
    if scope.provider == "aws":
        return aws.gather(scope, tell, partial=partial)
    return {"azure": azure.gather, "gcp": gcp.gather}[scope.provider](scope, tell)


def _before(book: str, provider: str) -> list[dict[str, Any]] | None:
    """Return the offers of the book that is there; None if there is none or nobody can read it.

    Raises
    ------
    PlacerError
        If it holds something that no refresh of this provider wrote, and that a new book would
        lose.
    """
    folder = replaceable(own_books() / book)
    try:
        files = sorted(path.name for path in folder.iterdir())
        rows = list(read_rows(folder / OFFERS, OFFERS)) if OFFERS in files else []
    except (OSError, PlacerError):
        return None
    others = sorted({str(row["provider"]) for row in rows} - {provider}) + [
        file for file in files if file not in (OFFERS, ORIGIN)
    ]
    if others:
        raise PlacerError(
            f"the book '{book}' holds more than prices of {provider}: {', '.join(others[:3])}",
            "choose another name with --as",
        )
    return rows


def _failures(failed: Mapping[str, str], kept: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    for region, why in failed.items():
        rows = [row for row in kept if row["region"] == region]
        days = sorted({str(row["as_of"]) for row in rows})
        what = (
            f"{len(rows)} old offers of {days[0]} were kept"
            if rows
            else "the book has no offers of it"
        )
        notes.append(f"{region} failed ({why}): {what}")
    return notes


def _doubts(book: str, compared: Changes | None, dry_run: bool) -> list[str]:
    """Return what to look at before the new book is used."""
    doubts = []
    if compared is None and book in own_book_names():
        doubts.append(
            f"the book '{book}' that was there cannot be read, so nothing is compared with it"
        )
    if compared is not None and compared.gone > compared.up + compared.down + compared.same:
        doubts.append(
            "more than half of the old offers are gone: the provider may have answered only in part"
        )
    if not dry_run and any(book == word for word, _ in pinned()):
        doubts.append(
            f"the book '{book}' is pinned as it was before: pin it again with 'placer catalog pin'"
        )
    return doubts


def _nothing(provider: str, left_out: Mapping[str, int]) -> PlacerError:
    reasons = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))[:2]
    why = f": {'; '.join(f'{reason} ({count:,})' for reason, count in reasons)}" if reasons else ""
    return SourceError(
        f"{provider} gave no price that can be used{why}",
        "widen --in and --gpu; the old book stays as it was",
    )
