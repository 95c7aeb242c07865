"""From the user's words to a validated Problem; the command line and the Python interface share it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from placer.catalog import Catalog, MeasuredLink, VmOffer
from placer.errors import PlacerError, unknown
from placer.network import Network
from placer.problem import ALL_REGIONS, Problem, Quota, Requirements
from placer.profile import ModelProfile
from placer.units import parse_bandwidth, parse_budget, parse_count, parse_range, parse_rate

Words = str | Iterable[str] | None
CONTINENTS = {"africa": "AF", "asia": "AS", "europe": "EU", "north-america": "NA", "oceania": "OC", "south-america": "SA"}
"""Continents as --in and --not-in take them: by name or code."""
USER_SPREAD = 0.1
"""A measured stream of the user's repeats within this share: as the cloud links of Erben et al. (2024) did."""
QUOTA_COLUMNS = ["place", "gpu", "market", "gpus"]


def build_problem(
    profile: ModelProfile,
    catalog: Catalog,
    *,
    budget: str | None = None,
    min_throughput: str | None = None,
    objective: str | None = None,
    gpu: Words = None,
    places: Words = None,
    not_places: Words = None,
    market: str = "any",
    workers: str | int = "1..64",
    regions: str | int | None = None,
    quota: str | None = None,
    exchange: str = "auto",
    aggregator: str | None = None,
    storage: str | None = None,
    compression: str | None = None,
    tbs: str | int | None = None,
    data: str | None = None,
    links: Words = None,
    zones: str = "one",
    require_measured: bool = False,
) -> Problem:
    """Read the user's words and check them against profile and catalog.

    Parameters
    ----------
    budget, min_throughput
        Such as ``5/h`` and ``400/s``.
    objective
        ``throughput``, ``cost`` or ``cost-per-sample``; by default throughput, or cost if there is a
        throughput floor and no budget.
    gpu, places, not_places
        Names, comma-separated or as a list; places may have wildcards.
    market
        ``spot``, ``on-demand`` or ``any``.
    workers
        A number or a range such as ``1..16``.
    regions
        A number or a range of regions with workers, such as ``2..3``; None: any number.
    quota
        CSV file with the columns place, gpu, market, gpus.
    exchange, aggregator, storage, compression, tbs
        How gradients are exchanged; None takes the profile's or the best.
    data
        Store of the dataset, such as ``b2``; None: the data is with the workers.
    links
        Measured single streams, both directions, such as ``gcp/us-west1:aws/us-west-2=250Mb/s``.
    zones
        ``one``: workers of a region share a zone; ``spread``: they pay for traffic between zones.
    require_measured
        Leave out devices that nobody measured this model on.

    Raises
    ------
    PlacerError
        Names the word that is wrong.
    """
    catalog = with_links(catalog, words(links, "link") if links else [])
    requirements = Requirements(
        objective=("cost" if min_throughput and not budget else "throughput") if objective is None else objective,
        budget_usd_per_hour=None if budget is None else parse_budget(budget),
        min_samples_per_second=None if min_throughput is None else parse_rate(min_throughput),
        gpus=_gpus(gpu, catalog),
        places_in=_places(places, catalog),
        places_not_in=_places(not_places, catalog),
        market=market.replace("-", "_"),
        min_workers=parse_range(str(workers))[0],
        max_workers=parse_range(str(workers))[1],
        min_regions=1 if regions is None else parse_range(str(regions), "regions", ALL_REGIONS)[0],
        max_regions=ALL_REGIONS if regions is None else parse_range(str(regions), "regions", ALL_REGIONS)[1],
        exchange=_exchange(exchange, aggregator, storage, catalog),
        aggregator=None if aggregator is None else catalog.function(aggregator).place,
        storage=None if storage is None else catalog.store(storage).place,
        compression=compression,
        target_batch_size=None if tbs is None else parse_count(str(tbs), "tbs"),
        data_store=None if data is None else catalog.store(data).place,
        quotas=() if quota is None else read_quotas(Path(quota), catalog),
        same_zone=_zones(zones),
        require_measured=require_measured,
    )
    return Problem(profile=profile, catalog=catalog, requirements=requirements)


def read_quotas(path: Path, catalog: Catalog | None = None) -> tuple[Quota, ...]:
    """Read a quota file: CSV with place, gpu, market, gpus; ``*`` matches all, the last matching row wins.

    Parameters
    ----------
    catalog
        If given, every row must match a place and a device of it.

    Raises
    ------
    PlacerError
        Names file, line, column and value.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise PlacerError(
            f"quota file '{path}' cannot be read ({type(error).__name__})", "give a CSV file with place,gpu,market,gpus"
        ) from None
    rows = csv.reader(lines)
    try:
        header = [c.strip() for c in next(rows, [])]
        if header != QUOTA_COLUMNS:
            raise PlacerError(f"{path}:1: columns {','.join(header) or '(none)'}", f"the columns are {','.join(QUOTA_COLUMNS)}")
        return tuple(_quota([cell.strip() for cell in row], f"{path}:{rows.line_num}", catalog) for row in rows if any(row))
    except csv.Error as error:
        raise PlacerError(f"{path}:{rows.line_num}: not valid CSV: {error}", "check this line") from None


def _quota(cells: list[str], where: str, catalog: Catalog | None) -> Quota:
    if len(cells) != len(QUOTA_COLUMNS):
        raise PlacerError(f"{where}: {len(cells)} cells instead of 4", f"the columns are {','.join(QUOTA_COLUMNS)}")
    place, gpu, market, gpus = (
        cells[0] if "/" in cells[0] or cells[0] == "*" else f"{cells[0]}/*",
        cells[1],
        cells[2].replace("-", "_"),
        cells[3],
    )
    if market not in ("*", "spot", "on_demand"):
        raise PlacerError(f"{where}: market '{cells[2]}'", "write spot, on-demand or *")
    if not re.fullmatch(r"[0-9]{1,9}", gpus):
        raise PlacerError(f"{where}: gpus '{gpus}' is not a whole number", "write 0 to allow none")
    if catalog is not None:
        if not any(fnmatchcase(known, place) for known in catalog.regions):
            raise unknown("place", f"{cells[0]}' in '{where}", catalog.regions)
        gpu = next((known for known in catalog.gpus if known.upper() == gpu.upper()), gpu)
        if not any(fnmatchcase(known, gpu) for known in catalog.gpus):
            raise unknown("GPU", f"{gpu}' in '{where}", catalog.rented_gpus)
    return Quota(place=place, gpu=gpu, market=market, gpus=int(gpus))


def with_links(catalog: Catalog, given: list[str]) -> Catalog:
    """Put measured links of the user's over those of a catalog; round-trip times stay as they are known.

    Raises
    ------
    PlacerError
        If a link does not follow ``A:B=RATE``, or a place is unknown.
    """
    rows: dict[tuple[str, str], MeasuredLink] = {(link.src, link.dst): link for link in catalog.links}
    network = Network(catalog)
    for word in given:
        match = re.fullmatch(r"(?P<a>[^:=]+):(?P<b>[^:=]+)=(?P<rate>.+)", word)
        if match is None:
            raise PlacerError(f"link '{word}' is not a measured link", "write it as gcp/us-west1:aws/us-west-2=250Mb/s")
        gbps = parse_bandwidth(match["rate"]) * 8 / 1e9
        for src, dst in ((match["a"], match["b"]), (match["b"], match["a"])):
            rows[src, dst] = MeasuredLink(
                src=src,
                dst=dst,
                gbps_one_stream=gbps,
                gbps_low=gbps * (1 - USER_SPREAD),
                gbps_high=gbps * (1 + USER_SPREAD),
                rtt_ms=network.link(src, dst).rtt_s * 1e3,
                basis="measured",
                source="given with --link",
                as_of=catalog.as_of[1],
            )
    return replace(catalog, links=tuple(rows.values())) if given else catalog


def filter_offers(catalog: Catalog, *, gpu: Words = None, places: Words = None, market: str = "any") -> list[VmOffer]:
    """Offers of a catalog with some GPUs, at some places, in one market; in the order of the book."""
    wish = Requirements(gpus=_gpus(gpu, catalog), places_in=_places(places, catalog), market=market.replace("-", "_"))
    return [
        offer
        for offer in catalog.offers
        if (not wish.gpus or offer.gpu in wish.gpus)
        and wish.market in ("any", offer.market)
        and (not wish.places_in or any(fnmatchcase(offer.place, p) for p in wish.places_in))
    ]


def match_places(value: Words, catalog: Catalog) -> list[str]:
    """Places of a catalog that names or wildcards match, sorted."""
    patterns = _places(value, catalog)
    return sorted(place for place in catalog.regions if any(fnmatchcase(place, p) for p in patterns))


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
        raise PlacerError(f"{what} '{value}' is empty", "leave it out to allow all")
    return found


def _exchange(exchange: str, aggregator: str | None, storage: str | None, catalog: Catalog) -> str:
    """Places of an aggregator or a store ask for a central exchange."""
    if exchange == "all-reduce" and (aggregator is not None or storage is not None):
        raise PlacerError("an all-reduce has no aggregator and no store", "leave out --aggregator and --storage, or use --exchange central")
    if exchange != "central" and aggregator is None and storage is None:
        return exchange
    if exchange in ("auto", "central") and not (catalog.functions and catalog.stores):
        missing = "stores" if catalog.functions else "functions"
        raise PlacerError(
            f"catalog '{catalog.name}' has no {missing}, so a central exchange cannot run", "use --exchange all-reduce, or another catalog"
        )
    return "central" if exchange == "auto" else exchange


def _gpus(value: Words, catalog: Catalog) -> tuple[str, ...]:
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
            raise PlacerError(f"catalog '{catalog.name}' rents no {word}", f"it has {', '.join(catalog.rented_gpus)}")
        found += matches
    return tuple(dict.fromkeys(found))


def _places(value: Words, catalog: Catalog) -> tuple[str, ...]:
    found = []
    for word in words(value, "place"):
        continent = CONTINENTS.get(word.lower(), word.upper() if word.upper() in CONTINENTS.values() else None)
        if continent is not None:
            found += [place for place, region in catalog.regions.items() if region.continent == continent]
            continue
        pattern = word if "/" in word or word.startswith("*") else f"{word}/*"
        if not any(fnmatchcase(place, pattern) for place in catalog.regions):
            raise unknown("place", word, [*catalog.regions, *{r.provider for r in catalog.regions.values()}])
        found.append(pattern)
    return tuple(found)


def _zones(value: str) -> bool:
    if value not in ("one", "spread"):
        raise unknown("zones", value, ["one", "spread"])
    return value == "one"
