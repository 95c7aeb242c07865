"""``placer catalog show``: what a catalog covers, how old it is and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placer.cli.command import Table, as_command
from placer.cli.screen.show import show
from placer.errors import PlacerError

if TYPE_CHECKING:
    pass

HEADERS = (
    "provider",
    "device",
    "regions",
    "on\ndemand",
    "spot",
    "esti-\nmated",
    "USD/h of\na device",
    "prices of",
)
"""On two lines, so that the table fits 80 columns."""
MOST_DOCUMENTS = 3
"""So many documents of a book are listed one by one; more of one kind share a line."""

if TYPE_CHECKING:
    from placer.market.books.layers import Layer


@dataclass(frozen=True, kw_only=True, slots=True)
class BookOrigin:
    """What stands in the origin.json of a book, as `placer.market.sources.save` writes it."""

    schema: str
    retrieved: str
    documents: list[Source]
    left_out: dict[str, int]
    notes: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One document that a book was made of."""

    place: str
    sha256: str
    size_bytes: int


@as_command("show", "Example: placer catalog show default")
def command(names: tuple[str, ...] = (), *, as_json: Table) -> None:
    """Show a catalog: offers by provider and device, regions, ages, sources and origin.

    Of several NAMEs, later books replace rows of earlier ones. Rows with figures not checked,
    assumed or estimated figures are counted.

    Parameters
    ----------
    names : NAME|DIR|CSV...
    """
    import msgspec

    from placer.market.books.partial_books import over_default
    from placer.market.checks.coverage import ages, cited, coverage, regions_by_provider, unsure

    book, layers = over_default(names)
    sources, own = cited(book)
    document = {
        "schema": "placer.coverage/v1",
        "catalog": book.name,
        "digest": book.digest,
        "coverage": msgspec.to_builtins(coverage(book)),
        "regions": regions_by_provider(book),
        "ages": msgspec.to_builtins(ages(book)),
        "unsure": msgspec.to_builtins(unsure(book)),
        "sources": msgspec.to_builtins(sources),
        "own_sources": own,
        "layers": [
            {"name": layer.name, "digest": layer.digest, "origin": _origin(layer)}
            for layer in layers
        ],
    }
    show(document, as_json=as_json)


def _origin(layer: Layer) -> Any:
    """Read what the command that wrote a book recorded; None for other books."""
    import msgspec

    from placer.files.bounded_file import bounded
    from placer.market.sources.harvest import BookOrigin
    from placer.market.sources.save import ORIGIN

    path: Path = next(iter(layer.files.values())).path.parent / ORIGIN
    try:
        return (
            msgspec.to_builtins(msgspec.json.decode(bounded(path, "remove it"), type=BookOrigin))
            if path.is_file()
            else None
        )
    except (OSError, ValueError, RecursionError, PlacerError):
        return None
