"""Machines and prices from SkyPilot's catalogs: rows of vms.csv become offers of a book."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from placer.errors import PlacerError, unknown
from placer.market.books.csv_rows import read_rows
from placer.market.sources.harvest import Harvest, Origin, Row
from placer.market.sources.prices.listing import date_of
from placer.market.sources.prices.skypilot.machines import whole_machines
from placer.market.sources.prices.skypilot.names import PROVIDERS
from placer.market.sources.prices.skypilot.price_sources import (
    SOURCES,
    Key,
    read_sources,
    with_sources,
)
from placer.market.sources.reading.book_rows import book_rows
from placer.market.sources.reading.fetch import READ_SECONDS, is_url, read_document
from placer.market.sources.reading.mapped_rows import Found, known_by_default, mapped_rows, unread
from placer.market.sources.reading.mapping import shipped_mapping
from placer.market.sources.reading.records import read_records
from placer.market.sources.reading.tally import Tally
from placer.market.sources.reading.web_address import public
from placer.records import replace

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
    origins: list[Origin] = []
    said: dict[Key, Row] = {}
    for cloud, place in files:
        document = read_document(place, most_bytes=MOST_BYTES, read_seconds=read_seconds)
        sources, beside = read_sources(place, MOST_BYTES)
        said |= sources
        origins += [document.origin, *beside]
        records = read_records(document, mapping, tally)
        if names := unread(records, mapping):
            words = f"their columns that were not read: {', '.join(names[:20])}"
            tally.note(words, document.origin.place)
        if cloud == "gcp":
            records = replace(records, rows=list(whole_machines(records.rows, tally)))
        day = (as_of or date_of(place)).isoformat()
        found += mapped_rows(records, mapping, tally, {"provider": cloud}, day, known)
    offers = book_rows(found, mapping, tally, known)
    if not offers:
        raise tally.nothing()
    offers, undated = with_sources(offers, said)
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
