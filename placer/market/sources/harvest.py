"""What a source gave: rows of a book, what was left out and why, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta, Struct

from placer.records import Count

FORMULA = ("=", "+", "-", "@")
"""A text that begins so is a formula to spreadsheets that open the book."""
Cell = str | float | int | None
Row = Mapping[str, Cell]


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """One document that a source read; ``place`` is a URL, a path or the name of an interface."""

    place: str
    sha256: str
    size_bytes: int


class BookOrigin(Struct, frozen=True, kw_only=True, tag_field="schema", tag="placer.origin/v1"):
    """The file origin.json beside a book that a command wrote.

    Parameters
    ----------
    retrieved
        In UTC.
    left_out
        Left out, by reason.
    """

    retrieved: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    documents: list[Origin]
    left_out: dict[str, Count]
    notes: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Harvest:
    """Rows of a partial book before they are checked and written.

    Parameters
    ----------
    rows
        Rows by file, such as ``offers.csv``, with the columns of catalogs/columns.csv; None is an
        empty cell.
    origins
        The documents that were read, each with its digest.
    left_out
        How many rows of the source were left out, by reason in words: ``{"region that no book
        knows: aws/us-gov-west-1": 12}``.
    notes
        Sentences for the user: what is estimated, what to do next.
    """

    rows: Mapping[str, Sequence[Row]]
    origins: Sequence[Origin]
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
