"""A training job with a deadline, and its market: capacity and prices of zones tick by tick."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from placer.errors import PlacerError
from placer.files.bounded_file import bounded
from placer.market.catalog import Catalog
from placer.market.launch_log import LaunchLog, region_of
from placer.market.network.graph import network_of
from placer.units import parse_moment

Array = npt.NDArray[Any]
RESTART_H = 0.2
"""Hours that new machines are paid before they work: start, image, checkpoint (assumed)."""
REFORM_H = 0.05
"""Hours that an island is paid without work when its number of machines changes (assumed)."""
EFFICIENCY = 0.95
"""Speed of a job in several places over that in one, with local steps (assumed)."""
QUORUM = 0.5
"""Share of the machines below which the job stands still (assumed)."""
CHECKPOINT_GIB = 50.0
EXCHANGE_GIB_PER_H = 16.0
MOST_MACHINES = 4_096
LEAST, MOST = math.ulp(0.0), math.nextafter(math.inf, 0.0)
"""The least figure above 0, and the largest that is not infinite."""
FIGURES = (
    (("work_h", "deadline_h"), LEAST, MOST, "is not a number of hours", "give hours above 0"),
    (
        ("restart_h", "reform_h", "checkpoint_gib", "exchange_gib_per_h"),
        0,
        MOST,
        "is not possible",
        "give 0 or more",
    ),
    (("efficiency", "quorum"), LEAST, 1, "is not a share", "give more than 0, at most 1"),
)
"""Least and most of some fields of a job, with what is said of others."""
STEADY_TICKS, STEADY_H = 3, 0.5
"""Ticks and hours over which machines must be there before a job that runs takes them."""
MEMORY_H = 48.0
"""Hours over which lives are averaged."""
PRIOR_H = 3.0
"""One life of so many hours is assumed before any is seen."""
LEAST_TICK_H = 1 / 60
MOST_TICKS = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Work that so many machines together do in ``work_h`` hours, and the deadline.

    Half of the machines do half of the work in an hour; below ``quorum`` they do none. In several
    places the speed is ``efficiency`` times that, and never more than that of all machines.
    ``checkpoint_gib`` goes to each new place, ``exchange_gib_per_h`` to and from every place but
    one while there are several.
    """

    machines: int
    work_h: float
    deadline_h: float
    restart_h: float = RESTART_H
    reform_h: float = REFORM_H
    efficiency: float = EFFICIENCY
    quorum: float = QUORUM
    checkpoint_gib: float = CHECKPOINT_GIB
    exchange_gib_per_h: float = EXCHANGE_GIB_PER_H

    def __post_init__(self) -> None:
        """Refuse a job that not even on-demand machines finish."""
        if not 1 <= self.machines <= MOST_MACHINES:
            raise PlacerError(
                f"a job of {self.machines} machines", f"give 1 to {MOST_MACHINES:,} machines"
            )
        for names, low, high, wrong, hint in FIGURES:
            for name in names:
                value = getattr(self, name)
                if not low <= value <= high:
                    raise PlacerError(f"{name} {value} {wrong}", hint)
        if self.deadline_h < self.work_h + self.restart_h - 1e-9:
            raise PlacerError(
                f"{self.work_h:g} h of work and a start of {self.restart_h:g} h do not fit in "
                f"{self.deadline_h:g} h",
                "give a later deadline, or more machines",
            )

    def speed(self, working: float, places: int) -> float:
        """Return the hours of work that so many working machines do in one hour, held in some
        places.

        >>> job = Job(machines=16, work_h=24, deadline_h=30)
        >>> job.speed(16, 1), job.speed(16, 2), job.speed(8, 1)
        (1.0, 0.95, 0.5)
        """
        whole = working / self.machines * (self.efficiency if places > 1 else 1.0)
        return min(1.0, whole)


@dataclass(frozen=True, kw_only=True, slots=True)
class Market:
    """Zones with spot machines, and one place with on-demand machines.

    Places are the zones in order, and last the on-demand place. ``egress_usd_per_gib`` has the
    shape (places, places). On-demand machines are taken to be there whenever they are wanted.
    """

    zones: tuple[str, ...]
    on_demand_place: str
    on_demand_usd_per_hour: float
    egress_usd_per_gib: tuple[tuple[float, ...], ...]
    source: str = ""

    @property
    def on_demand(self) -> int:
        """Number of the on-demand place."""
        return len(self.zones)

    @property
    def places(self) -> tuple[str, ...]:
        """Names of all places."""
        return (*self.zones, f"{self.on_demand_place} (on-demand)")


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known when a tick begins; one entry a zone.

    ``launched``: spot machines that there are. ``steady``: the fewest of the last half hour.
    ``life_h``: how long enough machines have lasted lately. ``usd_per_hour``: price of one.
    """

    launched: tuple[int, ...]
    steady: tuple[int, ...]
    life_h: tuple[float, ...]
    usd_per_hour: tuple[float, ...]


def steady(launched: Array, tick_h: float) -> Array:
    """Return the fewest machines of the last half hour, or three ticks; shape (ticks, zones)."""
    built: Array = launched.copy()
    for back in range(1, max(STEADY_TICKS, round(STEADY_H / tick_h))):
        built[back:] = np.minimum(built[back:], launched[: len(launched) - back])
    return built


def lives_h(enough: Array, tick_h: float, memory_h: float = MEMORY_H) -> Array:
    """Return how many hours enough machines, shape (ticks, zones), have lasted lately, at each
    tick.

    (hours with enough + 3) / (ends + 1): the mean life with one life of 3 h assumed.
    """
    back = max(1, round(memory_h / tick_h))
    ends = np.zeros(enough.shape, dtype=float)
    ends[1:] = enough[:-1] & ~enough[1:]

    def recent(values: Array, last: int) -> Array:
        total = np.cumsum(values, axis=0, dtype=float)
        built: Array = total.copy()
        built[last:] -= total[:-last]
        return built

    built: Array = (recent(enough, back + 1) * tick_h + PRIOR_H) / (recent(ends, back) + 1.0)
    return built


def observed(launched: Array, usd_per_hour: Array, tick_h: float, job: Job) -> list[Observation]:
    """Return what is known at each tick of some launches; shapes (ticks, zones)."""
    enough = launched >= min(job.machines, int(launched.max(initial=1)))
    columns = (launched, steady(launched, tick_h), lives_h(enough, tick_h), usd_per_hour)
    return [
        Observation(
            launched=tuple(there), steady=tuple(held), life_h=tuple(lives), usd_per_hour=tuple(usd)
        )
        for there, held, lives, usd in zip(*(column.tolist() for column in columns), strict=True)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Machines and prices at each tick; shape (ticks, zones).

    ``most`` is how many machines each zone was asked for. ``carried`` is the share of cells in
    which nobody looked: they have what the zone had last, 0 before anybody looked.
    """

    zones: tuple[str, ...]
    first: datetime
    tick_h: float
    launched: Array
    usd_per_hour: Array
    most: int
    carried: float

    @property
    def ticks(self) -> int:
        """Ticks of the trace."""
        return len(self.launched)

    def time(self, tick: int) -> datetime:
        """Return when a tick begins."""
        return self.first + timedelta(hours=tick * self.tick_h)

    def observations(self, job: Job, *, censored: bool = False) -> list[Observation]:
        """Return what a policy knows at each tick: nothing of what follows.

        ``censored``: a zone that launched all that were asked for counts as one with any number.
        """
        launched = self.launched
        if censored:
            launched = np.where(launched >= self.most, max(self.most, job.machines), launched)
        return observed(launched, self.usd_per_hour, self.tick_h, job)


def trace_of(log: LaunchLog, usd_per_hour: Array, tick_h: float | None = None) -> Trace:
    """Put a log of launches on a grid.

    Spot prices are those at each observation; shape (observations, zones) or (zones,). Without
    ``tick_h`` a tick is the median time between observations. Raises PlacerError if the log has one
    observation, or would have too many ticks.
    """
    if len(log.hours) < 2:
        raise PlacerError("a log of one observation is not a trace", "log launches for some hours")
    tick_h = float(np.median(np.diff(log.hours))) if tick_h is None else tick_h
    if tick_h < LEAST_TICK_H:
        raise PlacerError(
            f"ticks of {tick_h * 3600:.3g} s",
            "give ticks of a minute or more, such as --tick 10min",
        )
    tick_h = round(tick_h * 3600) / 3600
    # The last observation holds for one tick.
    count = int(log.hours[-1] / tick_h + 1e-6) + 1
    if count > MOST_TICKS:
        raise PlacerError(f"{count:,} ticks", f"give longer ticks: at most {MOST_TICKS:,} of them")
    at = np.searchsorted(log.hours, np.arange(count) * tick_h + 1e-6, side="right") - 1
    repeated = np.concatenate([[False], at[1:] == at[:-1]])
    seen = (log.launched[at] >= 0) & ~repeated[:, None]
    carried = log.launched.copy()
    for row in range(1, len(carried)):
        carried[row] = np.where(carried[row] < 0, carried[row - 1], carried[row])
    prices = np.broadcast_to(usd_per_hour, log.launched.shape)
    return Trace(
        zones=log.zones,
        first=log.first,
        tick_h=tick_h,
        launched=np.maximum(carried[at], 0),
        usd_per_hour=prices[at],
        most=log.most,
        carried=1.0 - float(seen.mean()),
    )


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
