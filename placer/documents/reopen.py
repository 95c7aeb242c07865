"""The question of a saved result on a whole price book, of which its file holds only a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placer.documents.certificate import holds_market
from placer.documents.saved_result import placement_from
from placer.documents.schemas import RESULT_SCHEMA
from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import book_changed_again, changes_said
from placer.records import replace


def reopened_problem(
    document: Any, where: str, catalog: Sequence[str] = ()
) -> tuple[Problem, tuple[str, ...]]:
    """Build the question of a saved result again.

    Parameters
    ----------
    document
        What ``placer recommend -o`` wrote.
    where
        Name of the file, for errors.
    catalog
        Books to ask it of; empty: those of the result.

    Returns
    -------
    tuple of Problem and of sentences
        The sentences say what differs from the day of the result.

    Raises
    ------
    PlacerError
        If the document is not a result with a problem, or its book cannot be found.
    """
    if not isinstance(document, Mapping) or document.get("schema") != RESULT_SCHEMA:
        raise PlacerError(
            f"{where}: not a {RESULT_SCHEMA} document", "give a file that placer recommend -o wrote"
        )
    question = document.get("problem", document.get("question"))
    if question is None:
        raise PlacerError(
            f"{where}: has no problem to ask again", "save it with placer recommend -o FILE"
        )
    return with_present_book(Problem.from_dict(question), where, catalog)


def reopened_answer(document: Mapping[str, Any], where: str) -> Placement | None:
    """Rebuild the placement of a saved result; None where nothing fitted.

    Raises
    ------
    PlacerError
        If the placement is not whole.
    """
    try:
        written = document["placement"]
        return None if written is None else placement_from(written)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlacerError(
            f"{where}: its placement is not whole ({error!r:.80})",
            "the file was edited, or made by another version",
        ) from None


def whole_problem(document: Mapping[str, Any], where: str) -> Problem:
    """Rebuild the question of a saved result with the market that it was solved on.

    Parameters
    ----------
    document
        A ``placer.result/v1`` document with its problem and a certificate.
    where
        Name of the file, for errors.

    Raises
    ------
    PlacerError
        If that market is neither in the file nor on this machine.
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
    """Put the whole present book under a question that kept only what its placement uses; see
    `reopened_problem`.
    """
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
            f"{saved.catalog.digest} then): "
            "everything is worked out with the present one"
        )
    return replace(saved, catalog=_with_links_of(saved.catalog, book)), tuple(changes)


def _with_links_of(saved: Catalog, book: Catalog) -> Catalog:
    """Put links that the user had measured or calibrated over those of the book."""
    present = {(link.src, link.dst): link for link in book.links}
    own = {(link.src, link.dst): link for link in saved.links}
    changed = {
        key: link
        for key, link in own.items()
        if present.get(key) != link and {*key} <= set(book.regions)
    }
    return replace(book, links=tuple({**present, **changed}.values())) if changed else book
