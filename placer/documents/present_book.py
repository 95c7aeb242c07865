"""The book of this machine beside the part of one that a document keeps: the question of a saved
result on it, and what of the document is not as it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from placer.cost_model.reduced_problem import cut_down, used_problem
from placer.documents.result_parts import data_document
from placer.documents.saved_result import holds_market, placement_from, question_in
from placer.documents.schemas import RESULT_SCHEMA
from placer.errors import EDITED, PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.books.layers import is_path
from placer.market.catalog import Catalog, MeasuredLink, gpu_document, offer_document
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import book_changed_again, changes_said
from placer.records import Json, replace
from placer.workload.constants import PUBLISHED
from placer.workload.profile import load_profile, profile_document, profile_names

TABLES = ("functions", "stores", "egress", "settings", "regions")
"""Tables of a book that a document cuts down to some places, and keeps as they are."""


def reopened_problem(
    document: Any, where: str, catalog: Sequence[str] = ()
) -> tuple[Problem, tuple[str, ...]]:
    """Build the question of a saved result again; say what differs from the day of the result.

    Raise `PlacerError` if the document is not a result with a problem, or its book cannot be found.

    where: Name of the file, for errors.
    catalog: Books to ask it of; empty: those of the result.
    """
    if not isinstance(document, Mapping) or document.get("schema") != RESULT_SCHEMA:
        raise PlacerError(
            f"{where}: not a {RESULT_SCHEMA} document", "give a file that placer recommend -o wrote"
        )
    question = question_in(document)
    if question is None:
        raise PlacerError(
            f"{where}: has no problem to ask again", "save it with placer recommend -o FILE"
        )
    return with_present_book(Problem.from_dict(question), where, catalog)


def reopened_answer(document: Json, where: str) -> Placement | None:
    """Rebuild the placement of a saved result; None where nothing fitted.

    Raise `PlacerError` if the placement is not whole.
    """
    try:
        written = document["placement"]
        return None if written is None else placement_from(written)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlacerError(f"{where}: its placement is not whole ({error!r:.80})", EDITED) from None


def whole_problem(document: Json, where: str) -> Problem:
    """Rebuild the question of a saved result, which has a problem and a certificate, with the
    market that it was solved on.

    Raise `PlacerError` if that market is neither in the file nor on this machine.
    """
    saved, certificate = Problem.from_dict(document["problem"]), document["certificate"]
    if holds_market(certificate):
        return saved
    try:
        problem = with_present_book(saved, where)[0]
    except PlacerError:
        problem = None
    name, digest = saved.catalog.name, certificate["book"]
    if problem is None or problem.catalog.digest != digest:
        raise PlacerError(
            f"{where}: the price book '{name}' with the digest {digest[:12]} "
            "is not on this machine",
            "save the result with --certificate -o: then the market is in the file",
        )
    return problem


def with_present_book(
    saved: Problem, where: str, catalog: Sequence[str] = ()
) -> tuple[Problem, tuple[str, ...]]:
    """Put the present book under a question that kept a part of it; see `reopened_problem`."""
    names = tuple(catalog) or tuple(saved.catalog.name.split("+"))
    try:
        book = load_catalog(names)
    except PlacerError as error:
        if catalog:
            raise
        raise PlacerError(
            f"{where}: its catalog '{saved.catalog.name}' is not here ({error.message})",
            "name it with --catalog",
        ) from None
    book, changes = book_changed_again(book, saved.catalog.changes), []
    if said := changes_said(saved.catalog):
        changes.append(f"the book is changed as for the file: {said}")
    if book.digest != saved.catalog.digest:
        changes.append(
            f"catalog {book.name} differs from the one of the plan ({book.digest} now, "
            f"{saved.catalog.digest} then): everything is worked out with the present one"
        )
    # Links that the user had measured or calibrated replace those of the book.
    present = _links(book)
    changed = {
        key: link
        for key, link in _links(saved.catalog).items()
        if present.get(key) != link and {*key} <= set(book.regions)
    }
    if changed:
        book = replace(book, links=tuple({**present, **changed}.values()))
    return replace(saved, catalog=book), tuple(changes)


def _links(book: Catalog) -> dict[tuple[str, str], MeasuredLink]:
    return {(link.src, link.dst): link for link in book.links}


class Compared(Struct, frozen=True, kw_only=True):
    """What a document shares with the book of this machine: the question on that whole book, None
    where it is another one or none; and sentences.
    """

    problem: Problem | None
    wrong: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()


def compare_with_book(
    saved: Problem, placements: Iterable[Placement], data: Json, *, whole: bool
) -> Compared:
    """Compare what a document says of prices, places and links with the book of this machine, where
    that has the same digest: one of another day may differ in any row.

    saved: The question as the document has it.
    placements: What was chosen: the document has everything that their prices depend on.
    data: Name, digest and dates of the book, as the document says them.
    whole: Whether the document claims to have the whole market.
    """
    name, own = saved.catalog.name, tuple(_uncovered_inputs(saved))
    origin = _book_of(saved.catalog)
    try:
        book = origin and book_changed_again(origin, saved.catalog.changes)
        other = f"no book '{name}' is on this machine" if book is None else ""
    except PlacerError as error:
        book = None
        said = f"({error.message})"
        other = f"the changes of the file do not fit the book '{name}' on this machine {said}"
    if book is not None and book.digest != saved.catalog.digest:
        other = (
            f"the book '{name}' on this machine has the digest "
            f"{book.digest}{' after the changes' if saved.catalog.changes else ''}, that of the "
            f"file {saved.catalog.digest[:40]}; {_differing(saved.catalog, book)}"
        )
    if origin is None or book is None or other:
        return Compared(problem=None, uncovered=(f"prices, links and dates: {other}", *own))
    links, present = _links(saved.catalog), _links(book)
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
    held = f"the rows and dates of the book '{name}' ({origin.digest}) are those on this machine"
    return Compared(
        problem=problem, wrong=tuple(wrong), confirmed=(f"{held}{after}",), uncovered=own
    )


def _book_of(catalog: Catalog) -> Catalog | None:
    names = tuple(catalog.name.split("+"))
    if any(is_path(name) for name in names):
        return None
    try:
        return load_catalog(names)
    except PlacerError:
        return None


def _uncovered_inputs(saved: Problem) -> Iterator[str]:
    if said := changes_said(saved.catalog):
        yield f"that the market is as the what-if {said} says"
    name = saved.profile.name
    shipped = load_profile(name) if name in profile_names() else None
    if shipped is None:
        yield f"the profile '{name}': it does not come with placer"
    elif profile_document(saved.profile, measurements=False) != profile_document(
        shipped, measurements=False
    ):
        yield f"the profile '{name}': it is not the one that comes with placer"
    if saved.calibration != PUBLISHED:
        yield f"the constants '{saved.calibration.name[:60]}': they are not those of this version"


def _differing(saved: Catalog, book: Catalog) -> str:
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
        elif row != offer and offer_document(row) != offer_document(offer):
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
    cut = book if whole else cut_down(problem, catalog.regions.keys()).catalog
    yield from _wrong_tables(catalog, cut, there)


def _wrong_tables(catalog: Catalog, book: Catalog, there: str) -> Iterator[str]:
    for table in TABLES:
        if to_builtins(getattr(catalog, table)) != to_builtins(getattr(book, table)):
            yield f"the {table} in the file are not those of {there}"
    for name, device in catalog.gpus.items():
        if name not in book.gpus or gpu_document(device) != gpu_document(book.gpus[name]):
            yield f"the device {name[:40]} is not that of {there}"


def _wrong_dates(problem: Problem, data: Json) -> Iterator[str]:
    for key, value in data_document(problem).items():
        if data.get(key) != value:
            yield f"data.{key} is written as {str(data.get(key))[:40]}; in the book it is {value}"
