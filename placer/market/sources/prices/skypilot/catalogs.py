"""Machines and prices from SkyPilot's catalogs: rows of vms.csv become offers of a book. Of Google
Cloud a host and its devices are two rows whose prices are added. What vms.csv cannot say of prices
(basis, source, date and optional figures) stands in a file of placer beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from placer.errors import PlacerError, unknown
from placer.market.books.csv_rows import file_columns, key_columns, read_numbered_rows, read_rows
from placer.market.catalog import FREE, Catalog
from placer.market.sources.harvest import FORMULA, Harvest, Row, Tally
from placer.market.sources.prices.skypilot.names import (
    ATTACHABLE,
    COMES_WITH_DEVICE,
    PROVIDERS,
    hosts_of,
    placer_device,
)
from placer.market.sources.reading.book_rows import book_rows, date_of
from placer.market.sources.reading.fetch import READ_SECONDS, is_url, read_document
from placer.market.sources.reading.mapped_rows import Found, known_by_default, mapped_rows, unread
from placer.market.sources.reading.mapping import shipped_mapping
from placer.market.sources.reading.records import Record, read_records
from placer.market.sources.reading.web_address import public
from placer.records import replace

SOURCES = "placer-sources.csv"
"""Beside a vms.csv: the rows of offers.csv that it was made from, with the columns of offers.csv.
"""
OWN = (*key_columns("offers.csv"), "vcpus", "memory_gib", "usd_per_hour")
"""Columns that vms.csv says itself; the others are taken from there for an offer whose price is
still the same.
"""
DIGITS = 9
"""Prices are compared to 1e-9 USD/h: the sums of Google Cloud's hosts and devices are rounded so.
"""

Key = tuple[Any, ...]


def source_rows(book: Catalog, providers: Iterable[str]) -> dict[str, list[Row]]:
    """Return the rows of each provider's `SOURCES`.

    An offer with a text that a spreadsheet would take for a formula is left out: its price comes
    back as any of SkyPilot's does.
    """
    columns = list(file_columns("offers.csv"))
    rows: dict[str, list[Row]] = {provider: [] for provider in providers}
    for offer in book.offers:
        cells = [getattr(offer, column) for column in columns]
        formula = any(isinstance(cell, str) and cell.startswith(FORMULA) for cell in cells)
        if offer.provider in rows and offer.price_basis not in FREE and not formula:
            exact = (repr(cell) if isinstance(cell, float) else cell for cell in cells)
            rows[offer.provider].append(dict(zip(columns, exact, strict=True)))
    return rows


def _known_prices(place: str, tally: Tally) -> dict[Key, Row]:
    """Read what lies beside a vms.csv, by the key of the offer; nothing beside a URL."""
    path = Path(place).parent / SOURCES
    if is_url(place) or not path.is_file():
        return {}
    document = read_document(str(path), most_bytes=MOST_BYTES)
    tally.origins.append(document.origin)
    rows = (row for _, row in read_numbered_rows(path, "offers.csv", document.data))
    return {_key(row): row for row in rows if row["price_basis"] not in FREE}


def _key(row: Row) -> Key:
    """Return what tells an offer, and its price: of another one nothing is known."""
    names = (row[column] for column in key_columns("offers.csv"))
    return *names, round(float(row["usd_per_hour"] or 0), DIGITS)


MOST_BYTES = 64 * 2**20  # Largest vms.csv, unpacked: the largest of SkyPilot's has about 5 MB
OWN_FILES = ("regions.csv", "gpus.csv")
"""Files with placer's columns that may lie in the folder, for what no shipped book knows."""
ONLY_HOST = "host"
"""What the column Hosts, which placer alone writes, says of a machine that is only there to be
added to devices; of devices it names the hosts.
"""
SIZES = ("vCPUs", "MemoryGiB", "Price")


def read_skypilot(
    places: Sequence[str],
    *,
    provider: str | None = None,
    skip_bad: bool = False,
    as_of: date | None = None,
    read_seconds: float = READ_SECONDS,
) -> Harvest:
    """Read vms.csv files as offers: one on demand and, where there is a spot price, one spot offer
    of each machine and region.

    places: Folders such as ``catalogs/v8`` with ``aws/vms.csv`` and so on, files and URLs, packed
        with gzip or not.
    provider: Of files whose folder is not named after one.
    as_of: Date of the prices that `SOURCES` does not date; vms.csv has none. Default: a file's own
        date, today for a URL.

    A price that an export of placer wrote has its basis, source and date again as long as it was
    not changed since.
    """
    if provider is not None and provider not in PROVIDERS:
        raise unknown("provider", provider, PROVIDERS)
    folders = [place for place in places if _is_folder(place)]
    files = [file for place in places for file in _files(place, provider)]
    own = _own_rows(folders)
    known = known_by_default()
    known = replace(
        known,
        regions={*known.regions, *(f"{r['provider']}/{r['region']}" for r in own["regions.csv"])},
        gpus={*known.gpus, *(row["gpu"] for row in own["gpus.csv"])},
    )
    mapping, tally = shipped_mapping("skypilot"), Tally(skip_bad=skip_bad)
    found: list[Found] = []
    said: dict[Key, Row] = {}
    for cloud, place in files:
        document = read_document(place, most_bytes=MOST_BYTES, read_seconds=read_seconds)
        tally.origins.append(document.origin)
        said |= _known_prices(place, tally)
        records = read_records(document, mapping, tally)
        if names := unread(records, mapping):
            words = f"their columns that were not read: {', '.join(names[:20])}"
            tally.note(words, document.origin.place)
        if cloud == "gcp":
            records = replace(records, rows=list(_whole_machines(records.rows, tally)))
        day = (as_of or date_of(place)).isoformat()
        found += mapped_rows(records, mapping, tally, {"provider": cloud}, day, known)
    offers = book_rows(found, mapping, tally, known)
    if not offers:
        raise tally.nothing()
    columns = [column for column in file_columns("offers.csv") if column not in OWN]
    pairs = [(offer, said.get(_key(offer))) for offer in offers]
    undated = sum(row is None for _, row in pairs)
    offers = [
        offer if row is None else {**offer, **{column: row.get(column) for column in columns}}
        for offer, row in pairs
    ]
    there = {path.parent.name for folder in folders for path in Path(folder).glob("*/vms.csv")}
    if strangers := sorted(there - set(PROVIDERS)):
        tally.words.append(f"providers that no book knows were not read: {', '.join(strangers)}")
    if as_of is None and undated:
        which = "the prices"
        if undated < len(offers):
            which = f"{undated:,} of {len(offers):,} prices"
        tally.words.append(
            f"the dates of {which} are those of the file, not of the prices (today for a URL); "
            f"--as-of, or {SOURCES} beside it, says others"
        )
    brought = {file: rows for file, rows in own.items() if rows}
    return tally.harvest({"offers.csv": offers, **brought})


def _is_folder(place: str) -> bool:
    with suppress(OSError, ValueError):
        return not is_url(place) and Path(place).is_dir()
    return False


def _files(place: str, provider: str | None) -> list[tuple[str, str]]:
    """Return the provider and place of each vms.csv that one word of the command line names."""
    if not _is_folder(place):
        return [(_provider_of(place, provider), place)]
    folder = Path(place)
    own = str(folder / "vms.csv")
    if Path(own).is_file():
        return [(_provider_of(own, provider), own)]
    files = [
        (cloud, str(path))
        for cloud in PROVIDERS
        if provider in (None, cloud)
        for path in sorted((folder / cloud).glob("vms.csv*"))[:1]
        if path.name in {"vms.csv", "vms.csv.gz"}
    ]
    if not files:
        words = f"'{place}' has no {provider or 'aws'}/vms.csv"
        raise PlacerError(words, "name a folder of SkyPilot's catalogs, such as catalogs/v8")
    return files


def _provider_of(place: str, provider: str | None) -> str:
    """Return the provider of a file: the one that was given, else the name of its folder."""
    if provider is not None:
        return provider
    path = urlsplit(place).path if is_url(place) else str(Path(place).absolute())
    folder = path.rstrip("/").rpartition("/")[0].rpartition("/")[2]
    if folder not in PROVIDERS:
        words = f"'{public(place) if is_url(place) else place}' does not say whose machines it has"
        raise PlacerError(words, f"add --provider, one of {', '.join(PROVIDERS)}")
    return folder


def _own_rows(folders: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {file: [] for file in OWN_FILES}
    for path in (Path(folder) / file for folder in folders for file in OWN_FILES):
        if path.is_file():
            rows[path.name] += read_rows(path, path.name)
    return rows


def _whole_machines(
    rows: Sequence[tuple[str, Record]], tally: Tally
) -> Iterator[tuple[str, Record]]:
    """Yield the rows of Google Cloud that are machines: CPU machines, and hosts with their devices.

    Rows without devices are hosts and CPU machines, rows without a machine are devices. A price of
    devices is added to that of each host that they come with, or of one n1 host (`hosts_of`), in
    the same zone; spot prices alike. The key ``parts`` says of what a price is.
    """
    hosts: dict[tuple[str, str], dict[str, Record]] = {}
    for where, row in rows:
        name = row["InstanceType"]
        is_host = ATTACHABLE.fullmatch(name) or COMES_WITH_DEVICE.match(name)
        if row["AcceleratorName"] or not is_host:
            continue
        wrong = next((size for size in SIZES if not _is_positive(row[size])), None)
        if wrong:
            tally.refuse(where, f"{wrong} '{row[wrong]}' of a host is no number above 0")
            continue
        zone = hosts.setdefault(_zone(row), {})
        zone[name] = max(zone.get(name, row), row, key=lambda host: float(host["Price"]))
    for where, row in rows:
        if row["AcceleratorName"] and not row["InstanceType"]:
            yield from ((where, made) for made in _attached(row, hosts.get(_zone(row), {}), tally))
        elif row["AcceleratorName"] or not (
            row.get("Hosts") == ONLY_HOST or COMES_WITH_DEVICE.match(row["InstanceType"])
        ):
            yield where, row


def _zone(row: Record) -> tuple[str, str]:
    return row["Region"], row.get("AvailabilityZone", "")


def _attached(row: Record, hosts: Mapping[str, Record], tally: Tally) -> Iterator[Record]:
    """Yield devices with each of their hosts; TPUs as they are: nothing is known of theirs."""
    device, count = row["AcceleratorName"], row["AcceleratorCount"].removesuffix(".0")
    if device.startswith("tpu-") or not count.isdecimal():
        yield {**row, "InstanceType": device}  # which the mapping counts or refuses
        return
    if row.get("Hosts"):
        names = [name for name in row["Hosts"].split() if name in hosts]
    else:
        sizes = {name: tuple(float(host[size]) for size in SIZES) for name, host in hosts.items()}
        names = hosts_of(device, int(count), sizes)
    if not names:
        tally.leave_out("devices without a host in their zone", f"{device}:{count}")
    for name in names:
        host, devices = hosts[name], f"+{count}x{placer_device('gcp', device, name)}"
        yield {
            **row,
            **{size: host[size] for size in ("vCPUs", "MemoryGiB")},
            **{p: _sum(host.get(p, ""), row.get(p, "")) for p in ("Price", "SpotPrice")},
            "InstanceType": f"{name}{devices}" if ATTACHABLE.fullmatch(name) else name,
            "parts": f": {name} + {count}x{device}",
        }


def _sum(host: str, devices: str) -> str:
    """Add two prices; a wrong one stays, to be refused, and without one there is no sum."""
    wrong = next((price for price in (host, devices) if price and not _is_positive(price)), None)
    if wrong or not (host and devices):
        return wrong or ""
    return repr(round(float(host) + float(devices), 9))


def _is_positive(cell: str) -> bool:
    try:
        return 0 < float(cell) <= 1e9
    except ValueError:
        return False
