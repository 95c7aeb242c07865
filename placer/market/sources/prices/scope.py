"""What a refresh asks a provider for, what the shipped book knows of it, and how the prices that an
interface gives become offers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError, unknown
from placer.market.accelerators import processor_vcpus
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog, Gpu
from placer.market.sources.harvest import Cell, Origin, Row, Tally
from placer.market.sources.reading.book_rows import book_rows
from placer.market.sources.reading.mapped_rows import Found, Known, known_by_default
from placer.market.sources.reading.mapping import SourceMap
from placer.market.words.selection import filter_offers, match_places, words
from placer.records import replace

PROVIDERS = ("aws", "azure", "gcp")
"""Providers whose price interface can be read; one module each in this folder."""
FIGURES = ("usd_per_hour", "usd_per_hour_low", "usd_per_hour_high")
NAMED = ("region", "instance_type", "market", "since", "usd_per_hour")
"""Columns that tell a price from all others."""
ZONED = SourceMap(kind="offers", zone="zone")


class Scope(Struct, frozen=True, kw_only=True):
    """What is asked for: ``regions``, sorted, and ``gpus``; and the shipped ``book``, of which
    ``known`` has all regions and machines of the provider.
    """

    provider: str
    regions: tuple[str, ...]
    gpus: frozenset[str]
    book: Catalog
    known: Known

    def wants(self, machine: Row) -> bool:
        """Tell whether a machine's device is asked for."""
        return machine["gpu"] in self.gpus

    def knows(self, region: str) -> bool:
        """Tell whether the shipped book has a region of the provider."""
        return f"{self.provider}/{region}" in self.known.regions

    @property
    def machines(self) -> dict[str, Row]:
        """Machines of the shipped book, by type, whose device is asked for."""
        return {name: one for name, one in self.known.machines.items() if self.wants(one)}

    def hosts(self) -> frozenset[str]:
        """Return types without a GPU that are asked for; the shipped book says their CPU."""
        machines = self.machines.items()
        return frozenset(n for n, one in machines if processor_vcpus(str(one["gpu"])) is not None)


def scope_of(provider: str, *, places: str | None = None, gpu: str | None = None) -> Scope:
    """Resolve the words of a refresh against the shipped book: regions or wildcards, such as
    ``us-west-2,eu-*``, and devices or families, such as ``T4,A100``; None for all.
    """
    if provider not in PROVIDERS:
        raise unknown("provider", provider, PROVIDERS)
    book = load_catalog("default")
    own = sorted(region.region for region in book.regions.values() if region.provider == provider)
    asked = book.gpus if gpu is None else (o.gpu for o in filter_offers(book, gpu=gpu))
    known = known_by_default(provider)
    return Scope(
        provider=provider,
        regions=tuple(own) if places is None else _regions(provider, places, own, book),
        gpus=frozenset(asked),
        book=book,
        known=replace(known, regions={f"{provider}/{region}" for region in own}),
    )


def _regions(provider: str, places: str, own: Sequence[str], book: Catalog) -> tuple[str, ...]:
    found: set[str] = set()
    for word in words(places, "region"):
        matches = {region for region in own if fnmatchcase(region, word)}
        if not matches and "/" not in word:
            raise unknown("region", word, own, "'placer offers' lists places")
        if not matches:
            pairs = (place.split("/", 1) for place in match_places(word, book))
            matches = {region for owner, region in pairs if owner == provider}
        if not matches:
            tip = f"name regions of {provider}, such as {own[-1]}"
            raise PlacerError(f"'{word}' is not a region of {provider}", tip)
        found |= matches
    return tuple(sorted(found))


def known_gpu(name: str, memory_gib: float, devices: Mapping[str, Gpu]) -> str | None:
    """Find the row of gpus.csv for a provider's name of one GPU, such as ``A100``, and its memory:
    the nearest size within 10 % counts, since some lists give the usable part. None for a slice of
    a GPU and for GPUs that gpus.csv lacks.
    """
    near = [
        (abs(memory_gib - gpu.memory_gib), len(gpu.gpu), gpu.gpu)
        for gpu in devices.values()
        if gpu.kind == "gpu"
        and (gpu.gpu == name or gpu.gpu.startswith(f"{name}-"))
        and abs(memory_gib - gpu.memory_gib) <= 0.1 * gpu.memory_gib
    ]
    return min(near)[2] if near else None


def quote(machine: Row, *, zone: str = "", **cells: Cell) -> Found:
    """Make a row of one price of one machine: a price of NaN or below 0 is counted and left out
    later; ``since`` is its first day, if known; low and high are the 10 % and 90 % quantile of the
    last 30 days.
    """
    where = " ".join(str(cells[name]) for name in NAMED)
    return Found(f"{where} {zone}", {**machine, "price_basis": "list", **cells}, zone)


def origin(place: str, chunks: Iterable[str]) -> Origin:
    """Digest of the answers that an interface gave."""
    data = "".join(chunks).encode()
    return Origin(place=place, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def checked(found: Iterable[Found], scope: Scope, tally: Tally, today: date) -> list[Row]:
    """Turn the prices of an interface into rows of offers.csv, by the checks of every import."""
    day = {"provider": scope.provider, "as_of": today.isoformat()}
    dated = [Found(one.where, {**one.row, **day}, one.zone) for one in found]
    return [_rounded(row, scope) for row in book_rows(dated, ZONED, tally, scope.known)]


def _rounded(row: Row, scope: Scope) -> Row:
    """Round prices, and add the interruptions of the shipped book: prices do not carry them."""
    kind: Any = (row[name] for name in ("instance_type", "gpu", "gpu_count", "market"))
    sold = scope.book.offer(f"{scope.provider}/{row['region']}", *kind)
    known = {name: usd for name in FIGURES if isinstance(usd := row.get(name), float | int)}
    said = sold is not None and sold.interruption_high is not None
    return {
        **row,
        **dict.fromkeys(FIGURES),
        **{name: round(usd, 6) for name, usd in known.items()},
        "interruption_low": sold.interruption_low if sold is not None else None,
        "interruption_high": sold.interruption_high if sold is not None else None,
        "source": f"{row['source']}{'; interruptions of the shipped book' * said}",
    }
