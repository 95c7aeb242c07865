"""Words that name machines, devices and places of a catalog, and the offers they match."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from placer.errors import PlacerError, unknown
from placer.market.catalog import MARKETS, Catalog, VmOffer
from placer.market.words.areas import area_names, area_places

Words = str | Iterable[str] | None
ASKED_MARKETS = ("any", *MARKETS)  # Markets as a question names them: any stands for all
_VENDOR = re.compile(r"\b(NVIDIA|AMD|TESLA|GEFORCE|QUADRO|INSTINCT)-")
"""What vendors and schedulers write before the name of a device."""
_WILD = frozenset("*?[")  # What makes a pattern of a name


def filter_offers(
    catalog: Catalog, *, gpu: Words = None, places: Words = None, market: str = "any"
) -> list[VmOffer]:
    """Return the offers with some GPUs, at some places, in one market, in the order of the book."""
    market = market.replace("-", "_")
    if market not in ASKED_MARKETS:
        raise unknown("market", market, ASKED_MARKETS)
    devices, patterns = devices_of(gpu, catalog), patterns_of(places, catalog)
    return [
        offer
        for offer in catalog.offers
        if asks_for(devices, offer.gpu, offer.gpu_count)
        and market in ("any", offer.market)
        and (not patterns or is_named(offer.place, patterns))
    ]


def match_places(value: Words, catalog: Catalog) -> list[str]:
    """Return the places of a catalog that names or wildcards match, sorted."""
    patterns = patterns_of(value, catalog)
    return sorted(place for place in catalog.regions if is_named(place, patterns))


def is_named(name: str, patterns: Collection[str]) -> bool:
    """Tell whether a name is one of some, or one that a pattern among them matches.

    >>> [is_named(place, ["aws/eu-west-1", "gcp/us-*"]) for place in ("gcp/us-east1", "aws/eu")]
    [True, False]
    """
    return name in patterns or any(
        fnmatchcase(name, pattern) for pattern in patterns if not _WILD.isdisjoint(pattern)
    )


def words(value: Words, what: str) -> list[str]:
    """Split comma-separated words; lists pass through; a wish without words is an error."""
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
    """Resolve GPU names; a family such as A100 stands for all its sizes, A100:80GB and
    nvidia-a100-sxm4-80gb for A100-80. PlacerError with the nearest device if nothing matches.
    """
    found: list[str] = []
    for word in words(value, "gpu"):
        matches = gpus_named(word, catalog)
        if not matches:
            raise unknown("GPU", word, catalog.rented_gpus)
        if not any(gpu in catalog.rented_gpus for gpu in matches):
            tip = f"it has {', '.join(catalog.rented_gpus)}"
            raise PlacerError(f"catalog '{catalog.name}' rents no {word}", tip)
        found += matches
    return tuple(dict.fromkeys(found))


def devices_of(value: Words, catalog: Catalog) -> tuple[str, ...]:
    """Resolve GPUs as `gpus_of` does; ``A100:8`` stands for machines with eight of them alone, and
    is returned with the number. PlacerError if nothing matches, or no machine has so many.
    """
    found: list[str] = []
    for word in words(value, "gpu"):
        name, colon, number = word.partition(":")
        if not (colon and number.isdecimal() and len(number) < 7) or gpus_named(word, catalog):
            found += gpus_of(word, catalog)
            continue
        gpus, count = gpus_of(name, catalog), int(number)
        sizes = {offer.gpu_count for offer in catalog.offers if offer.gpu in gpus}
        if count not in sizes:
            missing = f"catalog '{catalog.name}' rents no machine with {count} x {name}"
            tip = f"it has machines with {', '.join(map(str, sorted(sizes)))}"
            raise PlacerError(missing, tip)
        found += [f"{gpu}:{count}" for gpu in gpus]
    return tuple(dict.fromkeys(found))


def asks_for(devices: tuple[str, ...], gpu: str, gpu_count: int) -> bool:
    """Tell whether a machine is among some devices as `devices_of` returns them; none: any is.

    >>> asks_for(("T4", "A100-80:8"), "A100-80", 8), asks_for(("A100-80:8",), "A100-80", 1)
    (True, False)
    """
    return not devices or gpu in devices or f"{gpu}:{gpu_count}" in devices


def gpus_named(word: str, catalog: Catalog) -> list[str]:
    """Return the devices that a name or a family stands for, however the vendor writes it."""
    name = _VENDOR.sub("", re.sub(r"[\s_:-]+", "-", word.strip().upper())).strip("-")
    name = re.sub(r"-SXM[0-9]?(?=-|$)", "", name)
    plain, memory = name.removesuffix("GB"), None
    size = re.fullmatch(r"(.+?)-([0-9]{1,4})GB", name)
    if size:
        name, memory = size[1], float(size[2])
    for written in dict.fromkeys((plain, plain.replace("-", ""), name, name.replace("-", ""))):
        exact = [gpu for gpu in catalog.gpus if gpu.upper().replace("-", "") == written]
        exact = exact or [gpu for gpu in catalog.gpus if gpu.upper() == written]
        found = exact or [gpu for gpu in catalog.gpus if gpu.upper().startswith(f"{written}-")]
        if memory is not None and written not in (plain, plain.replace("-", "")):
            # Drivers keep some of the memory by which a device is sold.
            low, high = 0.85 * memory, 1.05 * memory
            found = [gpu for gpu in found if low <= catalog.gpus[gpu].memory_gib <= high]
        if found:
            return found
    return []


def gpus_like(pattern: str, catalog: Catalog) -> tuple[str, ...]:
    """Return the devices of a catalog that a name, a family or a pattern with wildcards stands for;
    PlacerError with the nearest one if nothing matches.
    """
    if "*" not in pattern and "?" not in pattern:
        return gpus_of(pattern, catalog)
    gpus = tuple(gpu for gpu in catalog.rented_gpus if fnmatchcase(gpu.upper(), pattern.upper()))
    if not gpus:
        raise unknown("GPU", pattern, catalog.rented_gpus)
    return gpus


def patterns_of(value: Words, catalog: Catalog) -> tuple[str, ...]:
    """Read names of places, providers and areas as patterns of places."""
    return tuple(place for word in words(value, "place") for place in places_of(word, catalog))


def places_of(word: str, catalog: Catalog) -> list[str]:
    """Return the places that a word stands for: ``provider/region``, with wildcards, which stay
    patterns, or without; a provider; or an area, as `area_places` knows them. PlacerError if
    nothing matches.
    """
    pattern = word if "/" in word or word.startswith("*") else f"{word}/*"
    if any(fnmatchcase(place, pattern) for place in catalog.regions):
        return [pattern]
    inside = None if pattern == word else area_places(word, catalog)
    if inside is None:
        providers = {region.provider for region in catalog.regions.values()}
        raise unknown("place", word, [*catalog.regions, *providers, *area_names(catalog)])
    return inside
