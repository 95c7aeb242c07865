"""Where the sources stand in public that the rows of price books name; catalogs/sources.csv lists
them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs

FILE = "sources.csv"
WITHOUT_URL = ("measurement", "estimate", "definition")
"""Kinds of sources that need not stand anywhere in public."""
_VIA = re.compile(r"\(via ([^()]+)\)")
"""What repeats the figures of another: ``(via tsaol/aws-gpu)``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One line of sources.csv: the words that name it, who answers for it, what it is and where it
    stands.
    """

    source: str
    publisher: str
    kind: str
    url: str
    note: str


@lru_cache(maxsize=1)
def known_sources() -> tuple[Source, ...]:
    """Return every line of catalogs/sources.csv, in its order."""
    return tuple(Source(**row) for row in read_rows(shipped_catalogs() / FILE, FILE))


def resolve(text: str) -> Source | None:
    """Find the source that the ``source`` cell of a row names.

    Parameters
    ----------
    text
        The cell; it begins with the words by which sources.csv knows the source, and the longest
        such words win.

    Returns
    -------
    Source or None
        None for a source of the user's own.

    Examples
    --------
    >>> resolve("AWS Lambda price list (arm)").url
    'https://aws.amazon.com/lambda/pricing/'
    >>> resolve("quote 4711 of our dealer") is None
    True
    """
    sources = (
        s
        for s in known_sources()
        if text.startswith(s.source) and not text[len(s.source) :][:1].isalnum()
    )
    return max(sources, key=lambda s: len(s.source), default=None)


@lru_cache(maxsize=4096)
def trail(text: str) -> tuple[Source | None, ...]:
    """Find the source that a cell names and behind it the mirrors where it was read.

    Examples
    --------
    >>> [found.kind for found in trail("AWS EC2 price list (via tsaol/aws-gpu)")]
    ['price-list', 'mirror']
    """
    return resolve(text), *(resolve(name) for name in _VIA.findall(text))
