"""Words that name machines, devices and places of a catalog, and the offers they match."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from placer.errors import PlacerError, unknown
from placer.market.catalog import MARKETS, Catalog, VmOffer

Words = str | Iterable[str] | None
ASKED_MARKETS = ("any", *MARKETS)
"""Markets as a question names them: any stands for all."""
CONTINENTS = {
    "africa": "AF",
    "asia": "AS",
    "europe": "EU",
    "north-america": "NA",
    "oceania": "OC",
    "south-america": "SA",
}
"""Continents as --in, --not-in and --keep take them: by name or code."""


def filter_offers(
    catalog: Catalog, *, gpu: Words = None, places: Words = None, market: str = "any"
) -> list[VmOffer]:
    """Return the offers with some GPUs, at some places, in one market, in the order of the book."""
    market = market.replace("-", "_")
    if market not in ASKED_MARKETS:
        raise unknown("market", market, ASKED_MARKETS)
    gpus, patterns = gpus_of(gpu, catalog), patterns_of(places, catalog)
    return [
        offer
        for offer in catalog.offers
        if (not gpus or offer.gpu in gpus)
        and market in ("any", offer.market)
        and (not patterns or any(fnmatchcase(offer.place, p) for p in patterns))
    ]


def match_places(value: Words, catalog: Catalog) -> list[str]:
    """Return the places of a catalog that names or wildcards match, sorted."""
    patterns = patterns_of(value, catalog)
    return sorted(
        place for place in catalog.regions if any(fnmatchcase(place, p) for p in patterns)
    )


def words(value: Words, what: str) -> list[str]:
    """Split comma-separated words; lists pass through; a wish without any word is an error.

    Raises
    ------
    PlacerError
        If something else than text is given, or nothing.
    """
    if value is None:
        return []
    parts = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(part, str) for part in parts):
        raise PlacerError(f"{what} {value!r} is not text", "give names, separated by commas")
    found = [word.strip() for part in parts for word in part.split(",") if word.strip()]
    if not found:
        said = f" '{value}'" if isinstance(value, str) else ""
        raise PlacerError(f"{what}{said} is empty", "leave it out, or name something")
    return found


def gpus_of(value: Words, catalog: Catalog) -> tuple[str, ...]:
    """Resolve GPU names; a family such as A100 stands for all its sizes, A100:80GB for A100-80."""
    found: list[str] = []
    for word in words(value, "gpu"):
        name = word.upper().replace(":", "-").removesuffix("GB")
        exact = [gpu for gpu in catalog.gpus if gpu.upper() == name]
        family = [gpu for gpu in catalog.gpus if gpu.upper().startswith(f"{name}-")]
        matches = exact or family
        if not matches:
            raise unknown("GPU", word, catalog.rented_gpus)
        if not any(gpu in catalog.rented_gpus for gpu in matches):
            raise PlacerError(
                f"catalog '{catalog.name}' rents no {word}",
                f"it has {', '.join(catalog.rented_gpus)}",
            )
        found += matches
    return tuple(dict.fromkeys(found))


def gpus_like(pattern: str, catalog: Catalog) -> tuple[str, ...]:
    """Return the devices of a catalog that a name, a family or a pattern with wildcards stands for.

    Raises
    ------
    PlacerError
        If nothing matches; the nearest device is named.
    """
    if "*" not in pattern and "?" not in pattern:
        return gpus_of(pattern, catalog)
    gpus = tuple(gpu for gpu in catalog.rented_gpus if fnmatchcase(gpu.upper(), pattern.upper()))
    if not gpus:
        raise unknown("GPU", pattern, catalog.rented_gpus)
    return gpus


def patterns_of(value: Words, catalog: Catalog) -> tuple[str, ...]:
    """Read names of places, providers and continents as patterns of places."""
    return tuple(place for word in words(value, "place") for place in places_of(word, catalog))


def places_of(word: str, catalog: Catalog) -> list[str]:
    """Return the places that a name, a pattern or a continent stands for; patterns stay patterns.

    Raises
    ------
    PlacerError
        If nothing matches.
    """
    continent = CONTINENTS.get(
        word.lower(), word.upper() if word.upper() in CONTINENTS.values() else None
    )
    if continent is not None:
        return [place for place, region in catalog.regions.items() if region.continent == continent]
    pattern = word if "/" in word or word.startswith("*") else f"{word}/*"
    if not any(fnmatchcase(place, pattern) for place in catalog.regions):
        raise unknown(
            "place", word, [*catalog.regions, *{r.provider for r in catalog.regions.values()}]
        )
    return [pattern]
