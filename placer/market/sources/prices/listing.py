"""Price lists of any source as rows of one file of a book, by a mapping."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from placer.market.sources.harvest import Harvest
from placer.market.sources.reading.book_rows import book_rows
from placer.market.sources.reading.fetch import READ_SECONDS, is_url, read_document
from placer.market.sources.reading.mapped_rows import Found, known_by_default, mapped_rows, unread
from placer.market.sources.reading.mapping import PLACED, SourceMap
from placer.market.sources.reading.records import read_records
from placer.market.sources.reading.tally import Tally


def read_listing(
    places: Sequence[str],
    mapping: SourceMap,
    *,
    skip_bad: bool = False,
    as_of: date | None = None,
    read_seconds: float = READ_SECONDS,
) -> Harvest:
    """Read documents as rows of one file of a book.

    Parameters
    ----------
    places
        Paths or URLs.
    mapping
        Where their rows lie, and which of their names is which; equal names need no mention.
    skip_bad
        Leave wrong rows out and count them.
    as_of
        Date of rows that say none; None leaves that to the mapping.
    read_seconds
        Longest silence of a server; s.

    Raises
    ------
    PlacerError
        If a column that is needed is neither there nor mapped nor set; with exit code 7 if a
        document was not delivered, or names ``place:line``, column and cell that are wrong.
    """
    tally = Tally(skip_bad=skip_bad)
    by_book = mapping.machines == "book"
    counted = mapping.kind in PLACED and (skip_bad or mapping.unknown_names == "counted")
    known = known_by_default(mapping.set.get("provider", "")) if counted or by_book else None
    found: list[Found] = []
    origins = []
    notes: list[str] = []
    for place in places:
        document = read_document(place, read_seconds=read_seconds)
        records = read_records(document, mapping, tally)
        day = as_of or (date_of(place) if mapping.undated == "file" else None)
        found += mapped_rows(
            records, mapping, tally, {}, None if day is None else day.isoformat(), known
        )
        origins.append(document.origin)
        names = unread(records, mapping)
        notes += [f"their columns that were not read: {', '.join(names[:20])}"] if names else []
        if records.cut_off:
            notes.append("the last line has no end: check that the file is complete")
    rows = book_rows(found, mapping, tally)
    if not rows:
        raise tally.nothing()
    return Harvest(
        rows={f"{mapping.kind}.csv": rows},
        origins=origins,
        left_out=tally.reasons(),
        notes=[*dict.fromkeys(notes), *tally.sentences()],
    )


def date_of(place: str) -> date:
    """Return the day of a document: that of the file, today for a URL."""
    today = datetime.now(UTC).date()
    if is_url(place):
        return today
    return min(today, datetime.fromtimestamp(Path(place).stat().st_mtime, UTC).date())
