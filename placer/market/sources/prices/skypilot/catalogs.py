"""Machines and prices from SkyPilot's catalogs: rows of vms.csv become offers of a book."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from placer.errors import PlacerError, unknown
from placer.market.books.book_reader import load_catalog
from placer.market.books.csv_rows import read_rows
from placer.market.catalog import Catalog, Gpu
from placer.market.checks.doubts import is_slip
from placer.market.sources.harvest import Harvest, Origin, Row
from placer.market.sources.prices.skypilot.machines import Machine, gcp_machines, plain_machines
from placer.market.sources.prices.skypilot.names import PROVIDERS
from placer.market.sources.prices.skypilot.price_sources import (
    SOURCES,
    Key,
    read_sources,
    with_sources,
)
from placer.market.sources.prices.skypilot.rows import Tally, read_vm_rows
from placer.market.sources.reading.fetch import READ_SECONDS, is_url, read_document
from placer.market.sources.reading.web_address import public

BASE_BOOK = "default"
"""The book whose regions, devices and prices imported rows are compared with."""
MOST_BYTES = 64 * 2**20
"""Largest vms.csv, unpacked: the largest of SkyPilot's has about 5 MB."""
OWN_FILES = ("regions.csv", "gpus.csv")
"""Files with placer's columns that may lie in the folder: places and devices that no shipped book
knows.
"""


def read_skypilot(
    places: Sequence[str],
    *,
    provider: str | None = None,
    skip_bad: bool = False,
    as_of: date | None = None,
    read_seconds: float = READ_SECONDS,
) -> Harvest:
    """Read vms.csv files as offers.

    Parameters
    ----------
    places
        Folders such as ``catalogs/v8`` with ``aws/vms.csv`` and so on, files and URLs, packed with
        gzip or not.
    provider
        Provider of files whose folder is not named after one.
    skip_bad
        Leave wrong rows out and count them.
    as_of
        Date of the prices that `placer.market.sources.prices.skypilot.price_sources.SOURCES` does
        not date; vms.csv has none. Default: a file's own date, today for a URL.
    read_seconds
        Longest silence of a server; s.

    Returns
    -------
    Harvest
        One on-demand offer and, where there is a spot price, one spot offer of each machine and
        region.

    Raises
    ------
    PlacerError
        With exit code 7: a document was not delivered or is no vms.csv, a row is wrong, or no row
        can be used.

    Notes
    -----
    A region's spot price is that of its cheapest zone; its on-demand price is the highest where
    zones differ. A machine that stands twice in one zone with two prices costs the higher one. Both
    are said. A price that an export of placer wrote has its basis, source and date again as long as
    it was not changed since.
    """
    if provider is not None and provider not in PROVIDERS:
        raise unknown("provider", provider, PROVIDERS)
    folders = [place for place in places if _is_folder(place)]
    files = [file for place in places for file in _files(place, provider)]
    own = _own_rows(folders)
    base = load_catalog(BASE_BOOK)
    regions = {*base.regions, *(f"{row['provider']}/{row['region']}" for row in own["regions.csv"])}
    gpus = {**base.gpus, **{row["gpu"]: Gpu(**row) for row in own["gpus.csv"]}}
    tally = Tally(skip_bad=skip_bad)
    machines: list[tuple[Machine, str]] = []
    origins: list[Origin] = []
    known: dict[Key, Row] = {}
    for cloud, place in files:
        document = read_document(place, most_bytes=MOST_BYTES, read_seconds=read_seconds)
        sources, beside = read_sources(place, MOST_BYTES)
        known |= sources
        origins += [document.origin, *beside]
        rows = read_vm_rows(document, tally)
        read = gcp_machines if cloud == "gcp" else plain_machines
        day = (as_of or _date_of(place)).isoformat()
        machines += [(machine, day) for machine in read(cloud, rows, regions, gpus, tally)]
    usual = _usual_prices(base, [machine for machine, _ in machines])
    offers = list(_offers([(m, day) for m, day in machines if _plausible(m, usual, tally)], tally))
    if not offers:
        raise tally.nothing()
    offers, undated = with_sources(offers, known)
    dates = [] if as_of is not None or not undated else [_undated(undated, len(offers))]
    return Harvest(
        rows={"offers.csv": offers, **{file: rows for file, rows in own.items() if rows}},
        origins=origins,
        left_out=tally.reasons(),
        notes=[*tally.sentences(), *_unread(folders), *dates],
    )


def _undated(undated: int, offers: int) -> str:
    which = "the prices" if undated == offers else f"{undated:,} of {offers:,} prices"
    return (
        f"the dates of {which} are those of the file, not of the prices (today for a URL); "
        f"--as-of, or {SOURCES} beside it, says others"
    )


def _is_folder(place: str) -> bool:
    try:
        return not is_url(place) and Path(place).is_dir()
    except (OSError, ValueError):
        return False


def _unread(folders: Sequence[str]) -> list[str]:
    names = sorted(
        {path.parent.name for folder in folders for path in Path(folder).glob("*/vms.csv")}
        - set(PROVIDERS)
    )
    return [f"providers that no book knows were not read: {', '.join(names)}"] if names else []


def _files(place: str, provider: str | None) -> list[tuple[str, str]]:
    """Return the provider and place of each vms.csv that one word of the command line names."""
    if _is_folder(place):
        folder = Path(place)
        if (folder / "vms.csv").is_file():
            return [(_provider_of(str(folder / "vms.csv"), provider), str(folder / "vms.csv"))]
        files = [
            (cloud, str(path))
            for cloud in PROVIDERS
            if provider in (None, cloud)
            for path in sorted((folder / cloud).glob("vms.csv*"))[:1]
            if path.name in {"vms.csv", "vms.csv.gz"}
        ]
        if not files:
            raise PlacerError(
                f"'{place}' has no {provider or 'aws'}/vms.csv",
                "name a folder of SkyPilot's catalogs, such as catalogs/v8",
            )
        return files
    return [(_provider_of(place, provider), place)]


def _provider_of(place: str, provider: str | None) -> str:
    """Return the provider of a file: the one that was given, else the name of its folder."""
    if provider is not None:
        return provider
    path = urlsplit(place).path if is_url(place) else str(Path(place).absolute())
    folder = path.rstrip("/").rpartition("/")[0].rpartition("/")[2]
    if folder not in PROVIDERS:
        shown = public(place) if is_url(place) else place
        raise PlacerError(
            f"'{shown}' does not say whose machines it has",
            f"add --provider, one of {', '.join(PROVIDERS)}",
        )
    return folder


def _own_rows(folders: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of regions.csv and gpus.csv beside the providers' folders."""
    return {
        file: [
            row
            for folder in folders
            if (Path(folder) / file).is_file()
            for row in read_rows(Path(folder) / file, file)
        ]
        for file in OWN_FILES
    }


def _date_of(place: str) -> date:
    today = datetime.now(UTC).date()
    return (
        today
        if is_url(place)
        else min(today, datetime.fromtimestamp(Path(place).stat().st_mtime, UTC).date())
    )


def _usual_prices(base: Catalog, machines: Sequence[Machine]) -> dict[str, float]:
    """Return the median on-demand price of one device, by device: in the base book, else in the
    files.
    """
    prices: dict[str, list[float]] = {}
    for machine in machines:
        prices.setdefault(machine.gpu, []).append(machine.usd_per_hour / machine.gpu_count)
    booked = {
        gpu: usd
        for (gpu, market), usd in base.usual_usd_per_gpu_hour.items()
        if market == "on_demand"
    }
    return {gpu: median(found) for gpu, found in prices.items()} | booked


def _plausible(machine: Machine, usual: Mapping[str, float], tally: Tally) -> bool:
    for name, usd in (("Price", machine.usd_per_hour), ("SpotPrice", machine.spot_usd_per_hour)):
        if usd is not None and is_slip(usd / machine.gpu_count, usual[machine.gpu]):
            times = usd / machine.gpu_count / usual[machine.gpu]
            tally.refuse(
                machine.where,
                f"{name} {usd:g} of {machine.instance_type} is {times:.3g} times what a "
                f"{machine.gpu} costs",
            )
            return False
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class _Zones:
    """One machine in every zone of a region."""

    machines: Sequence[Machine]
    as_of: str


def _offers(found: Collection[tuple[Machine, str]], tally: Tally) -> Iterator[Row]:
    """Fold zones into regions: one offer of each machine, region and market."""
    groups: dict[tuple[str, str, str, str, int], list[tuple[Machine, str]]] = {}
    for machine, day in found:
        key = (
            machine.provider,
            machine.region,
            machine.instance_type,
            machine.gpu,
            machine.gpu_count,
        )
        groups.setdefault(key, []).append((machine, day))
    for group in groups.values():
        zones = _Zones(
            machines=[machine for machine, _ in group], as_of=max(day for _, day in group)
        )
        dearest = max(zones.machines, key=lambda m: m.usd_per_hour)
        if min(m.usd_per_hour for m in zones.machines) < dearest.usd_per_hour:
            tally.note(
                "zones of a region differ in the on-demand price: the highest one counts",
                dearest.where,
            )
        yield _offer(zones, dearest, "on_demand", dearest.usd_per_hour, "")
        spots = [
            (m.spot_usd_per_hour, m.zone, m)
            for m in zones.machines
            if m.spot_usd_per_hour is not None
        ]
        if spots:
            usd, zone, machine = min(spots, key=lambda spot: spot[:2])
            if usd > dearest.usd_per_hour:
                tally.note("a spot price is above on-demand", machine.where)
            yield _offer(
                zones,
                machine,
                "spot",
                usd,
                f"; cheapest of {len(spots)} zones: {zone}" if len(spots) > 1 else "",
            )


def _offer(zones: _Zones, machine: Machine, market: str, usd_per_hour: float, words: str) -> Row:
    return {
        "provider": machine.provider,
        "region": machine.region,
        "instance_type": machine.instance_type,
        "gpu": machine.gpu,
        "gpu_count": machine.gpu_count,
        "vcpus": min(m.vcpus for m in zones.machines),
        "memory_gib": min(m.memory_gib for m in zones.machines),
        "market": market,
        "usd_per_hour": usd_per_hour,
        "price_basis": "list",
        "available": None,
        "source": f"SkyPilot catalog {machine.provider}/vms.csv{machine.parts}{words}",
        "as_of": zones.as_of,
    }
