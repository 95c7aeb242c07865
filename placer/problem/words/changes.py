"""Changes of a world, such as ``price:gcp/*:T4=x0.5``, and the price book that they make."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any

from msgspec import Struct, to_builtins

from placer.errors import PlacerError, unknown
from placer.market.books.defended_figures import defended
from placer.market.catalog import MARKET_WORDS, MARKETS, Catalog
from placer.market.scaled_market import Row, drop_offers, set_bandwidths, set_egress, set_prices
from placer.problem.words.meanings import unknown_word
from placer.problem.words.wishes import CHANGES
from placer.records import replace
from placer.units import parse_bandwidth, parse_count, parse_rate

TARGETS = {
    "price": "price:PLACE:GPU[:MARKET]=xF, +P%, -P% or USD/h of each GPU",
    "egress": (
        "egress:SRC:DST=xF, +P%, -P% or USD/GiB; DST is a place, internet, inter-region or "
        "inter-zone"
    ),
    "bandwidth": "bandwidth:SRC:DST[:one-way]=xF, +P%, -P% or a rate such as 250Mb/s",
    "rate": "rate:GPU[:COUNT]=xF, +P%, -P% or samples/s of one GPU, such as 400/s",
    "gradient": "gradient=xF, +P% or -P%",
    "quota": "quota:PLACE:GPU[:MARKET]=N",
    "own": "own=NAME=NxDEVICE@PLACE, such as own=office=2xA100-40@Berlin",
    "figures": "figures=defended",
}
"""What is no wish, with its grammar."""


def add_own_machines(catalog: Catalog, rows: Sequence[Row]) -> Catalog:
    """Put machines of one's own into a book, each at the price of its electricity."""
    from placer.market.words.own_machines import parse_own, with_own_machines
    from placer.market.words.own_places import PREFIX

    for text, *_ in rows:
        catalog = with_own_machines(catalog, parse_own(text.removeprefix(PREFIX), catalog))
    return catalog


def defend_figures(catalog: Catalog, rows: Sequence[Row]) -> Catalog:
    """Put figures that can be defended in place of those of a book; see `defended`."""
    if FIGURES in catalog.changes:
        raise PlacerError(f"'{FIGURES}' changes nothing", "the book has such figures already")
    changed = defended(catalog)
    changed.memo[AT_BOOK_FIGURES] = catalog
    return changed


OVER_BOOK: Mapping[str, Callable[[Catalog, Sequence[Row]], Catalog]] = MappingProxyType(
    {
        "price": set_prices,
        "egress": set_egress,
        "bandwidth": set_bandwidths,
        "own": add_own_machines,
        "figures": defend_figures,
    }
)
"""What changes a price book, beside ``drop``."""
DEFENDED = "defended"
"""Figures of a question unless it names those of the book."""
FIGURES = f"figures={DEFENDED}"
"""The change of a book that has them."""
AT_BOOK_FIGURES = "at-book-figures"
"""Key under which a book with defended figures keeps the one that it was made of."""
MOST_WORDS, LONGEST_WORD = 100, 1000
"""Changes of a book in a document, and characters of one."""
KNOWN_MARKETS = (*MARKETS, "*")
MOST_FACTOR = 1e6
"""Larger factors, and smaller ones than one over it, are a slip of the keyboard."""


class Change(Struct, frozen=True, kw_only=True):
    """One change of the world. ``what`` is a key of `TARGETS`, a wish, or ``drop``; ``target`` the
    patterns that say where it holds. Either ``factor`` multiplies what is there, or ``value`` takes
    its place: USD/h, USD/GiB, bytes/s, samples/s or a whole number; the text of a wish. A price is
    that of each GPU.
    """

    text: str
    what: str
    target: tuple[str, ...] = ()
    factor: float | None = None
    value: float | str | None = None


def change_document(change: Change) -> dict[str, Any]:
    """Build one change as it was written and as it was read."""
    return {**to_builtins(change), "target": list(change.target)}


def parse_changes(given: Iterable[str] = (), drop: Iterable[str] = ()) -> tuple[Change, ...]:
    """Read the words of ``--set`` and ``--drop``.

    >>> [change.factor for change in parse_changes(["price:gcp/*:T4=x0.5", "gradient=-25%"])]
    [0.5, 0.75]
    """
    return (
        *(_set_of(_text(word)) for word in _words(given)),
        *(_drop_of(_text(word)) for word in _words(drop)),
    )


def changed_book(catalog: Catalog, changes: Sequence[Change]) -> Catalog:
    """Change prices, egress and links of a copy of a book, or take offers away. The copy says what
    was changed and has a digest that follows from that of the book and the words; age, basis and
    name are those of the original. `PlacerError` if a pattern matches nothing.
    """
    for what, group in groupby(changes, key=lambda change: change.what):
        alike = list(group)
        if what == "drop":
            changed = drop_offers(catalog, [(change.text, change.target) for change in alike])
        else:
            changed = OVER_BOOK[what](
                catalog, [(c.text, c.target, c.factor, number_of(c.value)) for c in alike]
            )
        catalog = _recorded(
            changed, [f"drop:{c.text}" if what == "drop" else c.text for c in alike]
        )
    return catalog


def book_changed_again(catalog: Catalog, words: Sequence[str]) -> Catalog:
    """Make the changes again that a document, perhaps edited, says of its book."""
    if len(words) > MOST_WORDS or max(map(len, words), default=0) > LONGEST_WORD:
        raise PlacerError(
            f"a book with more than {MOST_WORDS} changes, or with very long ones",
            "the file was edited",
        )
    changes = [
        _drop_of(word.removeprefix("drop:")) if word.startswith("drop:") else _set_of(word)
        for word in words
    ]
    for change in changes:
        if change.what not in (*OVER_BOOK, "drop"):
            raise PlacerError(f"'{change.text}' changes no price book", "the file was edited")
    return changed_book(catalog, changes)


def defended_book(catalog: Catalog) -> Catalog:
    """Return a book at figures that can be defended; a book keeps it for all its questions."""
    known: Catalog | None = catalog.memo.get(DEFENDED)
    if known is None:
        known = defended(catalog)
        if known is not catalog:
            known = _recorded(known, [FIGURES])
            known.memo[AT_BOOK_FIGURES] = catalog
        catalog.memo[DEFENDED] = known
    return known


def changes_said(catalog: Catalog) -> str:
    """Say what was changed in a book beside its figures; empty if nothing was."""
    words = ", ".join(word for word in catalog.changes if word != FIGURES)
    return words if len(words) <= LONGEST_WORD else f"{words[:LONGEST_WORD]}..."


def _recorded(catalog: Catalog, words: Sequence[str]) -> Catalog:
    digest = catalog.digest
    for word in words:
        digest = hashlib.sha256(f"{digest}\n{word}".encode()).hexdigest()[: len(catalog.digest)]
    made = replace(catalog, digest=digest, changes=(*catalog.changes, *words))
    made.memo.update(catalog.memo)
    return made


def number_of(value: float | str | None) -> float | None:
    """Return a value that is a number; None for the text of a wish."""
    return value if isinstance(value, int | float) else None


def _set_of(text: str) -> Change:
    left, sign, right = (part.strip() for part in text.partition("="))
    what, *target = (part.strip() for part in left.split(":"))
    if what not in TARGETS and what not in CHANGES:
        raise unknown_word(
            "change", what, [*TARGETS, *CHANGES], f"known: {', '.join([*TARGETS, *CHANGES])}"
        )
    if not sign or not right:
        raise PlacerError(
            f"change '{text}' gives no new value", f"write {TARGETS.get(what, f'{what}=VALUE')}"
        )
    if what in CHANGES:
        if target:
            raise PlacerError(
                f"change '{text}': {what} is a wish and has no place", f"write {what}=VALUE"
            )
        factor = _factor(right, text) if CHANGES[what].scales else None
        return Change(text=text, what=what, factor=factor, value=None if factor else right)
    grammar = TARGETS[what].partition("=")[0]
    most, optional = grammar.count(":"), grammar.count("[:")
    if what == "price" and len(target) == 1 and target[0].replace("-", "_") in MARKETS:
        target = ["*", "*", *target]  # of all places and devices
    if not most - optional <= len(target) <= most or not all(target):
        raise PlacerError(f"change '{text}' is not complete", f"write {TARGETS[what]}")
    if what == "own":
        return Change(text=f"own={right}", what=what, value=right)
    if what == "figures":
        if right != DEFENDED:
            raise PlacerError(f"change '{text}'", f"write {TARGETS[what]}")
        return Change(text=f"{what}={right}", what=what, value=right)
    factor = _factor(right, text) if what != "quota" else None
    value = None if factor else _value(what, right, text)
    return Change(
        text=text, what=what, target=_target(what, tuple(target), text), factor=factor, value=value
    )


def _target(what: str, target: tuple[str, ...], text: str) -> tuple[str, ...]:
    if what in ("price", "quota"):
        return (*target[:2], _market(target))
    if what == "bandwidth" and len(target) == 3 and target[2] != "one-way":
        raise PlacerError(
            f"change '{text}': '{target[2]}' is not one-way", f"write {TARGETS[what]}"
        )
    if what == "rate" and len(target) == 2 and not re.fullmatch(r"[1-9][0-9]{0,3}", target[1]):
        raise PlacerError(
            f"change '{text}': '{target[1]}' is not a number of GPUs", f"write {TARGETS[what]}"
        )
    return target


def _drop_of(text: str) -> Change:
    target = [part.strip() for part in text.split(":")]
    if not 1 <= len(target) <= 3 or not all(target):
        raise PlacerError(
            f"drop '{text}' names no offers",
            "write PLACE or PLACE:GPU[:MARKET], such as aws/us-east-1 or 'aws/*:H100:spot'",
        )
    whole = (*target[:2], _market(target)) if len(target) > 1 else (target[0],)
    return Change(text=text, what="drop", target=whole)


def _market(target: Sequence[str]) -> str:
    """Read the market of a place, a device and perhaps a market."""
    market = target[2].replace("-", "_") if len(target) == 3 else "*"
    if market not in KNOWN_MARKETS:
        raise unknown("market", target[2], MARKET_WORDS)
    return market


def _factor(right: str, text: str) -> float | None:
    """Read ``x0.5``, ``+10%`` or ``-10%``; None for a plain value."""
    times = re.fullmatch(r"[xX]\s*([0-9.eE+-]{1,40})", right)
    percent = re.fullmatch(r"([+-][0-9.eE+-]{1,40})\s*%", right)
    if not times and not percent:
        return None
    try:
        factor = float(times[1]) if times else 1 + float(percent[1]) / 100 if percent else math.nan
    except ValueError:
        factor = math.nan
    if not 1 / MOST_FACTOR <= factor <= MOST_FACTOR:
        raise PlacerError(
            f"change '{text}': '{right}' is not a factor above 0",
            "write x0.5 for half of it, +10% or -10%",
        )
    return factor


def _value(what: str, right: str, text: str) -> float:
    if what == "bandwidth":
        return parse_bandwidth(right)
    if what == "rate":
        return parse_rate(right)
    if what == "quota":
        return 0 if right == "0" else parse_count(right, "quota")
    unit = {"price": r"(?:/h)?", "egress": r"(?:/GiB)?"}.get(what)
    match = (
        None
        if unit is None
        else re.fullmatch(r"\$?\s*([0-9]{1,9}(?:\.[0-9]{0,12})?)\s*" + unit, right)
    )
    if match is None or (what == "price" and float(match[1]) == 0):
        raise PlacerError(
            f"change '{text}': '{right}' is not a new value", f"write {TARGETS[what]}"
        )
    return float(match[1])


def _words(given: Iterable[str]) -> Iterable[str]:
    return [given] if isinstance(given, str) else given


def _text(word: object) -> str:
    if not isinstance(word, str) or not word.strip():
        raise PlacerError(
            f"change {word!r} is not text",
            "write it like the option, such as 'price:gcp/*:T4=x0.5'",
        )
    return word.strip()
