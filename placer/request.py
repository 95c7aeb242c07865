"""From the user's words to a validated Problem; the command line and the Python interface share it."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from placer.catalog import Catalog, VmOffer
from placer.errors import PlacerError, unknown
from placer.problem import Problem, Quota, Requirements
from placer.profile import ModelProfile
from placer.units import parse_budget, parse_count, parse_range, parse_rate

Words = str | Iterable[str] | None


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
    quota: str | None = None,
    exchange: str = "auto",
    aggregator: str | None = None,
    storage: str | None = None,
    compression: str | None = None,
    tbs: str | int | None = None,
    data: str | None = None,
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
    quota
        CSV file with the columns place, gpu, market, gpus.
    exchange, aggregator, storage, compression, tbs
        How gradients are exchanged; None takes the profile's or the best.
    data
        Store of the dataset, such as ``b2``; None: the data is with the workers.
    zones
        ``one``: workers of a region share a zone; ``spread``: they pay for traffic between zones.
    require_measured
        Leave out devices that nobody measured this model on.

    Raises
    ------
    PlacerError
        Names the word that is wrong.
    """
    requirements = Requirements(
        objective=objective or ("cost" if min_throughput and not budget else "throughput"),
        budget_usd_per_hour=None if budget is None else parse_budget(budget),
        min_samples_per_second=None if min_throughput is None else parse_rate(min_throughput),
        gpus=_gpus(gpu, catalog),
        places_in=_places(places, catalog),
        places_not_in=_places(not_places, catalog),
        market=market.replace("-", "_"),
        min_workers=parse_range(str(workers))[0],
        max_workers=parse_range(str(workers))[1],
        exchange=exchange,
        aggregator=None if aggregator is None else catalog.function(aggregator).place,
        storage=None if storage is None else catalog.store(storage).place,
        compression=compression,
        target_batch_size=None if tbs is None else parse_count(str(tbs), "tbs"),
        data_store=None if data is None else catalog.store(data).place,
        quotas=() if quota is None else read_quotas(Path(quota)),
        same_zone=_zones(zones),
        require_measured=require_measured,
    )
    return Problem(profile=profile, catalog=catalog, requirements=requirements)


def read_quotas(path: Path) -> tuple[Quota, ...]:
    """Read a quota file: CSV with place, gpu, market, gpus; ``*`` matches all, the last matching row wins.

    Raises
    ------
    PlacerError
        Names file, line, column and value.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PlacerError(
            f"quota file {path}: cannot be read ({type(error).__name__})", "give a CSV file with place,gpu,market,gpus"
        ) from None
    rows = csv.reader(lines)
    columns = ["place", "gpu", "market", "gpus"]
    header = [c.strip() for c in next(rows, [])]
    if header != columns:
        raise PlacerError(f"{path}:1: columns {','.join(header) or '(none)'}", f"the columns are {','.join(columns)}")
    found = []
    for row in rows:
        cells = [cell.strip() for cell in row]
        where = f"{path}:{rows.line_num}"
        if not any(cells):
            continue
        if len(cells) != len(columns):
            raise PlacerError(f"{where}: {len(cells)} cells instead of 4", f"the columns are {','.join(columns)}")
        market = cells[2].replace("-", "_")
        if market not in ("*", "spot", "on_demand"):
            raise PlacerError(f"{where}: market '{cells[2]}'", "write spot, on-demand or *")
        if not cells[3].isdecimal():
            raise PlacerError(f"{where}: gpus '{cells[3]}' is not a whole number", "write 0 to allow none")
        found.append(Quota(place=cells[0], gpu=cells[1], market=market, gpus=int(cells[3])))
    return tuple(found)


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


def words(value: Words) -> list[str]:
    """Split comma-separated words; lists pass through."""
    parts = [value] if isinstance(value, str) else list(value or [])
    return [word.strip() for part in parts for word in part.split(",") if word.strip()]


def _gpus(value: Words, catalog: Catalog) -> tuple[str, ...]:
    """Resolve GPU names; a family such as A100 stands for all its sizes, A100:80GB for A100-80."""
    found: list[str] = []
    for word in words(value):
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
    for word in words(value):
        pattern = word if "/" in word else f"{word}/*"
        if not any(fnmatchcase(place, pattern) for place in catalog.regions):
            raise unknown("place", word, [*catalog.regions, *{r.provider for r in catalog.regions.values()}])
        found.append(pattern)
    return tuple(found)


def _zones(value: str) -> bool:
    if value not in ("one", "spread"):
        raise unknown("zones", value, ["one", "spread"])
    return value == "one"
