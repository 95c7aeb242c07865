"""Refresh a user's book from a provider's prices: ask, check, compare, write at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError, SourceError
from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import check_book_name, own_book_names, own_books
from placer.market.books.layers import catalog_names, pinned
from placer.market.sources.harvest import Row, Tally
from placer.market.sources.prices import aws, azure, gcp
from placer.market.sources.prices.scope import checked, scope_of
from placer.market.sources.save import ORIGIN, locked, replaceable, save
from placer.records import Count

OFFERS = "offers.csv"
Key = tuple[str, str, str]  # Place, machine type and market of an offer


class Change(Struct, frozen=True, kw_only=True):
    """One machine whose price moved; USD/h."""

    place: str
    instance_type: str
    market: str
    before_usd_per_hour: float
    after_usd_per_hour: float

    @property
    def share(self) -> float:
        """Change as a share of the price before: 0.1 is 10 % dearer."""
        return self.after_usd_per_hour / self.before_usd_per_hour - 1


class Changes(Struct, frozen=True, kw_only=True):
    """How many prices rose, fell, stayed, came, went, or were not asked for this time, and the
    largest move.
    """

    up: Count
    down: Count
    same: Count
    new: Count
    gone: Count
    not_asked: Count
    largest: Change | None


class Refreshed(Struct, frozen=True, kw_only=True, tag_field="schema", tag="placer.refresh/v1"):
    """What a refresh found and did. written is null after a dry run.

    changes: Null where there was no book of this name.
    left_out: Left out, by reason.
    failed: Regions that failed, with their error.
    kept: Regions that failed and whose old offers were kept.
    """

    catalog: str
    provider: str
    written: str | None
    offers: Count
    regions: list[str]
    changes: Changes | None
    left_out: dict[str, Count]
    failed: dict[str, str]
    kept: dict[str, Count]
    notes: list[str]


def refresh(
    provider: str,
    *,
    places: str | None = None,
    gpu: str | None = None,
    name: str | None = None,
    partial: bool = False,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda words: None,
) -> tuple[Refreshed, Sequence[Row]]:
    """Read a provider's prices and write them as a book of the user; return what was done, and the
    offers of the book.

    ``places`` and ``gpu`` are as `scope_of` reads them; ``name`` is that of the book, None: the
    provider's. ``partial`` keeps the old offers of regions that fail; otherwise one that fails ends
    the refresh. ``tell`` is called with what is being read. Exit code 2 stands for wrong words or
    missing credentials; 7 if the provider does not deliver, another process refreshes this book, or
    it cannot be written. The old book stays as it was.
    """
    scope = scope_of(provider, places=places, gpu=gpu)
    book = check_book_name(provider if name is None else name, catalog_names())
    if partial and provider != "aws":
        words = f"--partial says nothing for {provider}, whose regions come in one list"
        raise PlacerError(words, "leave --partial out")
    with nullcontext() if dry_run else locked(book, "refreshed", 0):
        before, tally = _before(book, provider), Tally(skip_bad=True, by_reason=True)
        failed: dict[str, str] = {}
        if provider == "aws":
            found = aws.gather(scope, tally, tell, failed if partial else None)
        else:
            found = {"azure": azure.gather, "gcp": gcp.gather}[provider](scope, tally, tell)
        rows = checked(found, scope, tally, datetime.now(UTC).date())
        left_out = dict(sorted(tally.reasons().items()))
        kept = [row for row in before or () if row["region"] in failed and row["gpu"] in scope.gpus]
        if not rows:
            reasons = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))[:2]
            why = "; ".join(f"{reason} ({count:,})" for reason, count in reasons)
            words = f"{provider} gave no price that can be used{f': {why}' if why else ''}"
            raise SourceError(words, "widen --in and --gpu; the old book stays as it was")
        everything = sorted([*rows, *kept], key=_key)
        compared = None
        if before is not None:
            compared = changes(before, everything, scope.regions, scope.gpus)
        tally.words += _doubts(book, failed, kept, compared, dry_run)
        harvest = tally.harvest({OFFERS: everything})
        written = None if dry_run else str(save(harvest, book))
    done = Refreshed(
        catalog=book,
        provider=provider,
        written=written,
        offers=len(everything),
        regions=sorted({str(row["region"]) for row in everything}),
        changes=compared,
        left_out=left_out,
        failed=failed,
        kept={region: sum(row["region"] == region for row in kept) for region in failed},
        notes=[*harvest.notes],
    )
    return done, everything


def changes(
    before: Iterable[Mapping[str, Any]],
    after: Iterable[Row],
    regions: Collection[str],
    gpus: Collection[str],
) -> Changes:
    """Compare rows of offers.csv by place, machine and market; of the regions and devices that were
    asked for: an old offer beyond them is not gone.
    """
    old, new = {_key(row): row for row in before}, {_key(row): row for row in after}
    moves = [
        Change(
            place=key[0],
            instance_type=key[1],
            market=key[2],
            before_usd_per_hour=float(old[key]["usd_per_hour"]),
            after_usd_per_hour=float(new[key]["usd_per_hour"] or 0),
        )
        for key in sorted(old.keys() & new.keys())
    ]
    moved = [move for move in moves if move.share]
    missing = [old[key] for key in old.keys() - new.keys()]
    beyond = sum(row["region"] not in regions or row["gpu"] not in gpus for row in missing)
    return Changes(
        up=sum(move.share > 0 for move in moved),
        down=sum(move.share < 0 for move in moved),
        same=len(moves) - len(moved),
        new=len(new.keys() - old.keys()),
        gone=len(missing) - beyond,
        not_asked=beyond,
        largest=max(moved, key=lambda move: abs(move.share), default=None),
    )


def _key(row: Mapping[str, Any]) -> Key:
    return f"{row['provider']}/{row['region']}", str(row["instance_type"]), str(row["market"])


def _before(book: str, provider: str) -> list[dict[str, Any]] | None:
    """Return the offers of the book that is there; None if there is none or nobody can read it.
    PlacerError if it holds something that no refresh of this provider wrote: it would be lost.
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
        words = f"the book '{book}' holds more than prices of {provider}: {', '.join(others[:3])}"
        raise PlacerError(words, "choose another name with --as")
    return rows


def _doubts(
    book: str,
    failed: Mapping[str, str],
    kept: Sequence[Mapping[str, Any]],
    compared: Changes | None,
    dry_run: bool,
) -> Iterator[str]:
    for region, why in failed.items():
        days = sorted(str(row["as_of"]) for row in kept if row["region"] == region)
        what = f"{len(days)} old offers of {days[0]} were kept" if days else ""
        yield f"{region} failed ({why}): {what or 'the book has no offers of it'}"
    if compared is None and book in own_book_names():
        yield f"the book '{book}' that was there cannot be read, so nothing is compared with it"
    if compared is not None and compared.gone > compared.up + compared.down + compared.same:
        yield (
            "more than half of the old offers are gone: the provider may have answered only in part"
        )
    if not dry_run and any(book == word for word, _ in pinned()):
        yield (
            f"the book '{book}' is pinned as it was before: pin it again with 'placer catalog pin'"
        )
