"""Catalogs of whole and of partial books: a partial one is looked at over the default book."""

from __future__ import annotations

from collections.abc import Sequence

from placer.market.books.book_reader import REQUIRED_FILES, stacked
from placer.market.books.layers import Layer, find_layer
from placer.market.books.pin import DEFAULT_CATALOG, default_words
from placer.market.catalog import Catalog


def over_default(words: Sequence[str]) -> tuple[Catalog, tuple[Layer, ...]]:
    """Read some layers; if no one of them is whole, the default book lies under them.

    Parameters
    ----------
    words
        Names, folders or files; none: what is pinned.

    Returns
    -------
    tuple of Catalog and of its layers
        The lowest layer first.

    Raises
    ------
    PlacerError
        If a layer cannot be read.
    """
    layers = tuple(find_layer(word) for word in words or default_words())
    if not all(any(file in layer.files for layer in layers) for file in REQUIRED_FILES):
        layers = (find_layer(DEFAULT_CATALOG), *layers)
    return stacked(layers), layers
