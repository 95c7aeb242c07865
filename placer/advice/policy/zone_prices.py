"""Prices of machines and of bytes for the zones of a trace: from a file, else from a catalog."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from placer.advice.policy.trace import Market
from placer.errors import PlacerError
from placer.files.bounded_file import bounded
from placer.market.catalog import Catalog
from placer.market.launch_log import LaunchLog, region_of
from placer.market.network.graph import network_of
from placer.units import parse_moment

Array = npt.NDArray[Any]
HINT = (
    "write columns zone and usd_per_hour, perhaps on_demand_usd_per_hour; or utc and one for each "
    "zone, as in a log of launches"
)
MOST_BYTES = 64 * 2**20
Rows = Iterator[tuple[str, list[str]]]
"""Cells of each line that has some, with where it stands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ZonePrices:
    """Spot prices of zones, and the on-demand machines.

    ``usd_per_hour`` has the shape (zones,), or (observations, zones) of a log. ``on_demand_zone``
    is the zone in whose region the on-demand machines are.
    """

    usd_per_hour: Array
    on_demand_usd_per_hour: float
    on_demand_zone: str
    source: str


def places_of(zones: Sequence[str], catalog: Catalog) -> tuple[str, ...]:
    """Return the place of each zone: ``gcp/us-east4-a`` or ``us-east4-a`` is in ``gcp/us-east4``;
    PlacerError if the catalog has no such place, or several providers have it.
    """
    places = []
    for zone in zones:
        region = region_of(zone)
        found = [at for at in catalog.regions if region in (at, at.partition("/")[2])]
        if len(found) != 1:
            known = f"{len(found)} providers have it" if found else f"not in catalog {catalog.name}"
            raise PlacerError(
                f"zone '{zone}': {known}",
                "name it with its provider, such as gcp/us-east4-a, or give --egress USD with "
                "--prices",
            )
        places += found
    return tuple(places)


def catalog_prices(zones: Sequence[str], device: str, catalog: Catalog) -> ZonePrices:
    """Price zones by a catalog: the cheapest spot machine of a device in each region, and the
    cheapest on-demand machine of all of them; PlacerError if a region has none.
    """
    places = places_of(zones, catalog)
    spot = [_cheapest(place, device, "spot", catalog) for place in places]
    for zone, price in zip(zones, spot, strict=True):
        if price is None:
            raise PlacerError(
                f"catalog {catalog.name} has no spot {device} for zone '{zone}'",
                "give --prices FILE, or leave the zone out of the trace",
                exit_code=5,
            )
    usd, zone = cheapest_on_demand(zones, device, catalog)
    return ZonePrices(
        usd_per_hour=np.array(spot, dtype=float),
        on_demand_usd_per_hour=usd,
        on_demand_zone=zone,
        source=f"catalog {catalog.name} ({catalog.as_of[0]} to {catalog.as_of[1]}), {device}",
    )


def cheapest_on_demand(zones: Sequence[str], device: str, catalog: Catalog) -> tuple[float, str]:
    """Return the least on-demand price in the regions of some zones, and its zone."""
    found = [
        (price, zone)
        for zone, place in zip(zones, places_of(zones, catalog), strict=True)
        if (price := _cheapest(place, device, "on_demand", catalog)) is not None
    ]
    if not found:
        raise PlacerError(
            f"catalog {catalog.name} has no on-demand {device} in the regions of the trace",
            "give --on-demand USD, the price of one machine and hour",
            exit_code=5,
        )
    return min(found)


def _cheapest(place: str, device: str, market: str, catalog: Catalog) -> float | None:
    offers = (o for o in catalog.offers_at(place) if (o.device, o.market) == (device, market))
    return min((offer.usd_per_hour for offer in offers), default=None)


def file_prices(
    zones: Sequence[str], log: LaunchLog | None, path: Path
) -> tuple[Array, tuple[float, str] | None]:
    """Read the spot prices of zones, and the least on-demand price, from CSV.

    A table has a row for each zone or region, a trace a column for each zone: its prices are those
    at the observations of the log. Raises PlacerError, which names the line, column and value that
    are wrong, or the zone without a price.
    """
    try:
        text = bounded(path, "give a shorter file of prices", MOST_BYTES).decode("utf-8-sig")
        lines = [*csv.reader(text.splitlines(), strict=True)]
    except UnicodeDecodeError:
        raise PlacerError(f"{path}: cannot be read as UTF-8 text", "save it as UTF-8 CSV") from None
    except csv.Error as error:
        raise PlacerError(f"{path}: not valid CSV: {error}", "check the quotes") from None
    except OSError as error:
        raise PlacerError(f"{path}: {error.strerror or error}", "check the path") from None
    head = [name.strip().lower() for name in lines[0]] if lines else []
    if head[:1] == ["utc"] and len(head) > 1 and log is not None:
        names = [name.strip() for name in lines[0]]
        return _price_trace(log, names, lines[1:], str(path)), None
    if {"zone", "usd_per_hour"} <= set(head):
        return _price_table(zones, head, lines[1:], str(path))
    raise PlacerError(f"{path}: no file of prices", HINT)


def _rows(head: list[str], rows: list[list[str]], path: str) -> Rows:
    for number, cells in enumerate(rows, 2):
        if len(cells) not in (0, len(head)):
            raise PlacerError(
                f"{path}:{number}: {len(cells)} columns where the header has {len(head)}", HINT
            )
        if cells:
            yield f"{path}:{number}", cells


def _price_table(
    zones: Sequence[str], head: list[str], rows: list[list[str]], path: str
) -> tuple[Array, tuple[float, str] | None]:
    spot: dict[str, float] = {}
    on_demand: dict[str, float] = {}
    for where, cells in _rows(head, rows, path):
        row = dict(zip(head, (cell.strip() for cell in cells), strict=True))
        zone = row["zone"]
        if zone in spot:
            raise PlacerError(f"{where}: '{zone}' appears twice", "keep one row")
        spot[zone] = _usd(row["usd_per_hour"], f"{where}:usd_per_hour")
        if text := row.get("on_demand_usd_per_hour"):
            on_demand[zone] = _usd(text, f"{where}:on_demand_usd_per_hour")
    named = [(zone, zone if zone in spot else region_of(zone)) for zone in zones]
    for zone, name in named:
        if name not in spot:
            raise PlacerError(f"{path}: no price for zone '{zone}'", "add a row for it")
    found = [(on_demand[name], zone) for zone, name in named if name in on_demand]
    return np.array([spot[name] for _, name in named]), min(found, default=None)


def _price_trace(log: LaunchLog, head: list[str], rows: list[list[str]], path: str) -> Array:
    missing = [zone for zone in log.zones if zone not in head]
    if missing:
        raise PlacerError(f"{path}: no column for zone '{missing[0]}'", "add its prices")
    columns = [head.index(zone) for zone in log.zones]
    times: list[float] = []
    usd: list[list[float]] = []
    for where, cells in _rows(head, rows, path):
        moment = parse_moment(cells[0], f"{where}:utc", HINT)
        times.append((moment - log.first).total_seconds() / 3600)
        if len(times) > 1 and times[-1] <= times[-2]:
            raise PlacerError(f"{where}: not later than the line before", "sort the file")
        usd.append([_usd(cells[at], f"{where}:{head[at]}") for at in columns])
    if not times or times[0] > 0:
        raise PlacerError(
            f"{path}: has no price of {log.first:%Y-%m-%dT%H:%MZ}, when the trace begins",
            "begin with a line that is as old",
        )
    at = np.searchsorted(np.array(times), log.hours, side="right") - 1
    return np.array(usd)[at]


def _usd(cell: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise PlacerError(
            f"{where}: '{cell[:40]}' is not a price",
            "write USD for one machine and hour, such as 2.37",
        )
    return value


def market_of(
    zones: Sequence[str], prices: ZonePrices, catalog: Catalog, egress_usd_per_gib: float | None
) -> Market:
    """Build the market: egress by one price between any two regions, else by the catalog's."""
    named = (*zones, prices.on_demand_zone)
    if egress_usd_per_gib is not None:
        regions = [region_of(zone) for zone in named]
        table = [[0.0 if a == b else egress_usd_per_gib for b in regions] for a in regions]
    else:
        price = network_of(catalog).egress_price
        pairs = [*zip(named, places_of(named, catalog), strict=True)]
        table = [
            [0.0 if a == b else price(src, dst, same_zone=False).usd_per_gib for b, dst in pairs]
            for a, src in pairs
        ]
    return Market(
        zones=tuple(zones),
        on_demand_place=region_of(prices.on_demand_zone),
        on_demand_usd_per_hour=prices.on_demand_usd_per_hour,
        egress_usd_per_gib=tuple(map(tuple, table)),
        source=prices.source,
    )
