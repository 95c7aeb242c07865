"""Capacity as data: how often one zone launches so many machines, and how long they stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from placer.market.books.csv_rows import shipped_table

ANY = "*"  # Every provider, or every device


class CapacityRow(Struct, frozen=True, kw_only=True):
    """What one zone launches: at least ``machines`` of ``machines_asked`` in a share of the time.

    A row with a ``zone`` is about that zone. One without is about any zone of its region, and one
    without a ``region`` about any zone of a class: of a provider and device, either of which may be
    ``*``. Such machines are all still there after t hours with the probability
    (1 + t / survival_b_h) ^ -survival_a. ``corr_region`` and ``corr_across`` are correlations of
    the latent states of two zones of a region, and of two regions. None: not observed.
    """

    provider: str
    device: str
    market: str
    machines_asked: int
    machines: int
    basis: str
    source: str
    as_of: str
    region: str = ""
    zone: str = ""
    share: float | None = None
    share_low: float | None = None
    share_high: float | None = None
    survival_a: float | None = None
    survival_b_h: float | None = None
    corr_region: float | None = None
    corr_across: float | None = None
    zones: int | None = None

    @property
    def level(self) -> str:
        """``zone``, ``region`` or ``class``: how wide the row is."""
        return "zone" if self.zone else "region" if self.region else "class"

    @property
    def place(self) -> str:
        """The name that users write: ``provider/region``; the provider alone of a class row."""
        return f"{self.provider}/{self.region}" if self.region else self.provider


class ZoneCapacity(Struct, frozen=True, kw_only=True):
    """What a table knows of one zone; each part from the narrowest rows that have it.

    ``launches`` and ``stays`` are rows with a share, and with survival, by rising machines; the
    same machines only once. ``corr_region`` and ``corr_across``, and ``zones`` that a region has,
    are None where no row knows them.
    """

    launches: tuple[CapacityRow, ...]
    stays: tuple[CapacityRow, ...]
    corr_region: float | None
    corr_across: float | None
    zones: int | None

    @property
    def most(self) -> int:
        """Most machines that anybody saw launch in one zone, or saw refused; 0 without rows."""
        return self.launches[-1].machines if self.launches else 0


def zone_capacity(
    rows: Iterable[CapacityRow],
    *,
    provider: str,
    region: str,
    device: str,
    market: str,
    zone: str = "",
) -> ZoneCapacity:
    """Look up one zone, or any zone of a region: its own rows, then those of its region, then those
    of its class.

    Classes count from the narrowest: provider and device, the device alone, the provider alone,
    all. What a narrow row does not know comes from a wider one: a log of launches says nothing
    about how long machines stay.
    """
    found = [
        row
        for row in rows
        if row.zone in ("", zone) and covers(row, provider, region, device, market)
    ]
    levels = sorted({_width(row) for row in found})
    groups = [[row for row in found if _width(row) == width] for width in levels]
    launches = next((g for g in ([r for r in g if r.share is not None] for g in groups) if g), [])
    stays = next((g for g in ([r for r in g if r.survival_a is not None] for g in groups) if g), [])
    likeness = next((r for g in groups for r in g if r.corr_region is not None), None)
    return ZoneCapacity(
        launches=_by_machines(launches),
        stays=_by_machines(stays),
        corr_region=None if likeness is None else likeness.corr_region,
        corr_across=None if likeness is None else likeness.corr_across,
        zones=next((r.zones for group in groups for r in group if r.zones is not None), None),
    )


def covers(row: CapacityRow, provider: str, region: str, device: str, market: str) -> bool:
    """Tell whether a row is about machines of a region, or of one of its zones."""
    return (
        row.market == market
        and row.provider in (ANY, provider)
        and row.region in ("", region)
        and row.device in (ANY, device)
    )


def named_zones(
    rows: Iterable[CapacityRow], *, provider: str, region: str, device: str, market: str
) -> tuple[str, ...]:
    """Return the zones of a region that a table names for such machines, sorted."""
    named = (row for row in rows if row.zone and covers(row, provider, region, device, market))
    return tuple(sorted({row.zone for row in named}))


def most_launched(
    rows: Iterable[CapacityRow], provider: str, region: str, device: str, market: str
) -> int | None:
    """Return the most machines that a zone of a region launched together of some that were asked
    for; None where the rows about the region name nobody who was refused one.
    """
    own = [row for row in rows if row.region and covers(row, provider, region, device, market)]
    launched = max((row.machines for row in own if row.share), default=0)
    return launched if any(row.machines_asked > launched for row in own) else None


def _width(row: CapacityRow) -> tuple[bool, bool, bool, bool]:
    return not row.zone, not row.region, row.device == ANY, row.provider == ANY


def _by_machines(rows: Sequence[CapacityRow]) -> tuple[CapacityRow, ...]:
    """Order rows by machines; of the same machines the one that was asked for most counts."""
    best = {row.machines: row for row in sorted(rows, key=lambda row: row.machines_asked)}
    return tuple(best[machines] for machines in sorted(best))


def rows_about(
    rows: Iterable[CapacityRow], machines: Iterable[tuple[str, str, str, str]]
) -> tuple[CapacityRow, ...]:
    """Return the rows that are about at least one of some machines, each its provider, region,
    device and market, in their order; community machines launch and stay as spot ones do.
    """
    kinds = {(*kind, "spot" if market == "community" else market) for *kind, market in machines}
    return tuple(row for row in rows if any(covers(row, *kind) for kind in kinds))


def class_rows() -> tuple[CapacityRow, ...]:
    """Return the class rows of catalogs/capacity.csv, which lie beneath every book.

    They are in no digest of a book, as the figures of accelerators.csv are not: a saved result
    keeps the rows that it used.
    """
    return shipped_table("capacity.csv", CapacityRow)


def capacity_document(row: CapacityRow) -> dict[str, Any]:
    """Return a row ready for JSON, without what it does not know."""
    built = {name: getattr(row, name) for name in CapacityRow.__struct_fields__}
    return {name: value for name, value in built.items() if value not in (None, "")}
