"""The book, profile and constants in a document, compared with those on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from placer.cost_model.reduced_problem import cut_down, used_problem
from placer.documents.result_parts import data_document
from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.books.layers import is_path
from placer.market.catalog import Catalog, gpu_document, offer_document
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import book_changed_again, changes_said
from placer.records import replace
from placer.workload.constants import PUBLISHED
from placer.workload.profile import load_profile, profile_document, profile_names

TABLES = ("functions", "stores", "egress", "settings")
"""Tables of a book that a document cuts down to some places, and keeps as they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What a document shares with the book of this machine.

    Notes
    -----
    ``problem`` is the question on the whole book of this machine; None where that is another book,
    or none. Sentences name what is ``wrong``, ``confirmed`` or ``uncovered``.
    """

    problem: Problem | None
    wrong: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()


def compare_with_book(
    saved: Problem, placements: Iterable[Placement], data: Mapping[str, Any], *, whole: bool
) -> Compared:
    """Compare what a document says of prices, places and links with the book of this machine.

    Parameters
    ----------
    saved
        The question as the document has it.
    placements
        What was chosen: the document has everything that their prices depend on.
    data
        Name, digest and dates of the book, as the document says them.
    whole
        Whether the document claims to have the whole market.

    Notes
    -----
    A book is compared only under its own digest: one of another day may differ in any row.
    """
    name = saved.catalog.name
    book = _book_of(saved.catalog)
    own = tuple(_uncovered_inputs(saved))
    if book is None:
        words = f"prices, links and dates: no book '{name}' is on this machine"
        return Compared(problem=None, uncovered=(words, *own))
    origin = book.digest
    try:
        book = book_changed_again(book, saved.catalog.changes)
    except PlacerError as error:
        words = (
            f"prices, links and dates: the changes of the file do not fit the book '{name}' on "
            f"this machine ({error.message})"
        )
        return Compared(problem=None, uncovered=(words, *own))
    if book.digest != saved.catalog.digest:
        words = (
            f"prices, links and dates: the book '{name}' on this machine has the digest "
            f"{book.digest}{' after the changes' if saved.catalog.changes else ''}, that of the "
            f"file {saved.catalog.digest[:40]}; {_differing(saved.catalog, book)}"
        )
        return Compared(problem=None, uncovered=(words, *own))
    links = {(link.src, link.dst): link for link in saved.catalog.links}
    present = {(link.src, link.dst): link for link in book.links}
    changed = {key: link for key, link in links.items() if present.get(key) != link}
    here = book if not changed else replace(book, links=tuple({**present, **links}.values()))
    problem = replace(saved, catalog=here)
    wrong = [*_wrong_rows(saved, problem, placements, whole=whole), *_wrong_dates(problem, data)]
    for key, link in present.items():
        # A link of the user's own replaces one of the book and says where it comes from.
        given = links.get(key)
        doctored = given is not None and given != link and given.source == link.source
        if doctored or (given is None and {*key} <= saved.catalog.regions.keys()):
            wrong.append(f"the link from {key[0]} to {key[1]} is not that of the book '{name}'")
    if changed:
        own = (*own, f"{len(changed)} links of the user's own")
    said = changes_said(saved.catalog)
    after = f", after the what-if {said}" if said else ""
    confirmed = (
        f"the rows and dates of the book '{name}' ({origin}) are those on this machine{after}"
    )
    return Compared(
        problem=problem, wrong=tuple(wrong), confirmed=(confirmed,), uncovered=tuple(own)
    )


def _book_of(catalog: Catalog) -> Catalog | None:
    """Read the book that a document names; None if it is not on this machine."""
    names = tuple(catalog.name.split("+"))
    if any(is_path(name) for name in names):
        return None
    try:
        return load_catalog(names)
    except PlacerError:
        return None


def _uncovered_inputs(saved: Problem) -> Iterator[str]:
    """Say which inputs beside the book are not those of this machine."""
    if said := changes_said(saved.catalog):
        yield f"that the market is as the what-if {said} says"
    name = saved.profile.name
    shipped = load_profile(name) if name in profile_names() else None
    if shipped is None:
        yield f"the profile '{name}': it does not come with placer"
    elif _plain(saved.profile) != _plain(shipped):
        yield f"the profile '{name}': it is not the one that comes with placer"
    if saved.calibration != PUBLISHED:
        yield f"the constants '{saved.calibration.name[:60]}': they are not those of this version"


def _plain(profile: Any) -> dict[str, Any]:
    return profile_document(profile, measurements=False)


def _differing(saved: Catalog, book: Catalog) -> str:
    """Count the offers of a document that cost something else in another book."""
    prices = {_key(offer): offer.usd_per_hour for offer in book.offers}
    other = sum(prices.get(_key(offer)) != offer.usd_per_hour for offer in saved.offers)
    return f"{other:,} of the {len(saved.offers):,} offers in the file have another price there"


def _key(offer: Any) -> tuple[Any, ...]:
    return offer.place, offer.instance_type, offer.gpu, offer.gpu_count, offer.market


def _wrong_rows(
    saved: Problem, problem: Problem, placements: Iterable[Placement], *, whole: bool
) -> Iterator[str]:
    """Yield rows that the document has otherwise than the book, or lacks."""
    catalog, book = saved.catalog, problem.catalog
    there = f"the book '{book.name}' of the same digest"
    rows = {_key(offer): offer for offer in book.offers}
    for offer in catalog.offers:
        row = rows.get(_key(offer))
        name = f"{offer.instance_type} {offer.market} in {offer.place}"
        if row is None:
            yield f"{there} has no {name}"
        elif row.usd_per_hour != offer.usd_per_hour:
            yield (
                f"{name} costs {offer.usd_per_hour:g} USD/h in the file, {row.usd_per_hour:g} in "
                f"{there}"
            )
        elif offer_document(row) != offer_document(offer):
            yield f"{name} is not the row of {there}"
    given = {_key(offer) for offer in catalog.offers}
    wanted = {_key(pool.offer) for pool in problem.pools} if whole else set()
    for placement in () if whole else placements:
        wanted |= {_key(offer) for offer in used_problem(problem, placement).catalog.offers}
    lacking = sorted(wanted - given)
    if lacking:
        yield (
            f"the file lacks {len(lacking):,} offers of {there}, such as {lacking[0][1]} "
            f"{lacking[0][4]} in {lacking[0][0]}"
        )
    yield from _wrong_tables(catalog, book if whole else _cut(problem, catalog), there)


def _cut(problem: Problem, catalog: Catalog) -> Catalog:
    return cut_down(problem, catalog.regions.keys()).catalog


def _wrong_tables(catalog: Catalog, book: Catalog, there: str) -> Iterator[str]:
    """Yield tables of prices, places and devices that differ."""
    for table in TABLES:
        if to_builtins(getattr(catalog, table)) != to_builtins(getattr(book, table)):
            yield f"the {table} in the file are not those of {there}"
    if to_builtins(catalog.regions) != to_builtins(book.regions):
        yield f"the regions in the file are not those of {there}"
    for name, device in catalog.gpus.items():
        if name not in book.gpus or gpu_document(device) != gpu_document(book.gpus[name]):
            yield f"the device {name[:40]} is not that of {there}"


def _wrong_dates(problem: Problem, data: Mapping[str, Any]) -> Iterator[str]:
    """Yield dates of the book that are written otherwise."""
    for key, value in data_document(problem).items():
        if data.get(key) != value:
            yield f"data.{key} is written as {str(data.get(key))[:40]}; in the book it is {value}"
