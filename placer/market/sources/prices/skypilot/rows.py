"""Rows of SkyPilot's vms.csv (schema v5 to v8), checked one by one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from placer.errors import PlacerError
from placer.market.books.csv_rows import plain_number
from placer.market.sources.reading.csv_text import read_table
from placer.market.sources.reading.fetch import FAILED, Document
from placer.records import replace

REQUIRED = (
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "Price",
    "Region",
)
OPTIONAL = ("GpuInfo", "SpotPrice", "AvailabilityZone", "Arch", "Generation", "Hosts")
"""Columns that a provider may lack. ``Hosts`` is placer's own:
`placer.market.sources.prices.skypilot.export` writes it, SkyPilot ignores it.
"""
MOST_TEXT = 128
"""Longest name of a machine, region or zone."""
MOST_REASONS = 12
"""Names that are listed for one reason; the others are added up."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """What was left out and why, and what the user should know: filled while files are read.

    Parameters
    ----------
    skip_bad
        Leave out a row that is wrong and count it, instead of refusing the whole import.
    """

    skip_bad: bool
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    notes: dict[str, Counter[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, name: str = "", rows: int = 1) -> None:
        """Count a row that is right but of no use."""
        self.left_out.setdefault(reason, Counter())[_shown(name)] += rows

    def note(self, words: str, example: str) -> None:
        """Count a row that is used but worth a word."""
        self.notes.setdefault(words, Counter())[example] += 1

    def refuse(self, where: str, words: str) -> None:
        """Stop at a row that is wrong, or count it."""
        if not self.skip_bad:
            raise PlacerError(
                f"{where}: {words}",
                "correct it, or leave such rows out with --skip-bad",
                exit_code=FAILED,
            )
        self.leave_out("wrong row", f"{where}: {words}")

    def reasons(self) -> dict[str, int]:
        """Return how many rows were left out, by reason and name; names beyond `MOST_REASONS` are
        added up.
        """
        reasons: dict[str, int] = {}
        for reason, names in self.left_out.items():
            common = names.most_common()
            reasons |= {
                f"{reason}: {name}" if name else reason: count
                for name, count in common[:MOST_REASONS]
            }
            if common[MOST_REASONS:]:
                reasons[f"{reason}: {len(common) - MOST_REASONS} others"] = sum(
                    count for _, count in common[MOST_REASONS:]
                )
        return reasons

    def nothing(self) -> PlacerError:
        """Build the error of an import that has left everything out."""
        reasons = "; ".join(
            f"{count:,} x {reason}" for reason, count in list(self.reasons().items())[:4]
        )
        return PlacerError(
            f"no row can be used: {reasons or 'there are none'}",
            "name other files; no book was changed",
            exit_code=FAILED,
        )

    def sentences(self) -> list[str]:
        """Return the notes with the number of rows and one example each."""
        return [
            f"{words} ({sum(rows.values()):,} times, as in {next(iter(rows))})"
            for words, rows in self.notes.items()
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class VmRow:
    """One row: a machine, a host or devices in a zone; numbers are checked where they are used.

    Parameters
    ----------
    where
        File and line, for messages.
    zone
        Empty where the provider has none.
    hosts
        What the column Hosts says: the hosts of devices, ``host`` for a machine that is only a
        host, else empty.
    """

    where: str
    instance_type: str
    device: str
    count: str
    vcpus: str
    memory_gib: str
    usd_per_hour: str
    spot_usd_per_hour: str
    region: str
    zone: str
    arch: str
    hosts: str


def read_vm_rows(document: Document, tally: Tally) -> list[VmRow]:
    """Read every row of a vms.csv; a machine that a zone has twice counts once, with the higher
    price.

    Raises
    ------
    PlacerError
        With exit code 7: columns are missing, a row has too few cells, or the last line is cut off.
    """
    table = read_table(document)
    missing = [name for name in REQUIRED if name not in table.header]
    if missing:
        raise PlacerError(
            f"{table.place}:1: column '{missing[0]}' is missing",
            f"a vms.csv of SkyPilot has {', '.join(REQUIRED)}",
            exit_code=FAILED,
        )
    other = sorted(set(table.header) - {*REQUIRED, *OPTIONAL})
    if other:
        tally.note(
            f"columns that are not known were not read: {', '.join(other[:MOST_REASONS])}",
            table.place,
        )
    at = [table.header.index(name) if name in table.header else -1 for name in _ORDER]
    rows_by_key: dict[tuple[str, ...], VmRow] = {}
    last: tuple[tuple[str, ...], VmRow] | None = None
    for number, cells in table.cells:
        where = f"{table.place}:{number}"
        if len(cells) != len(table.header):
            tally.refuse(where, f"{len(cells)} cells instead of {len(table.header)}")
            last = None
            continue
        row = VmRow(
            **dict(zip(_FIELDS, (cells[i].strip() if i >= 0 else "" for i in at), strict=True)),
            where=where,
        )
        last = _keep(rows_by_key, row, tally)
    if table.cut_off and last is not None:
        tally.refuse(last[1].where, "the last line has no end: the file is cut off")
        rows_by_key.pop(last[0], None)
    return list(rows_by_key.values())


_ORDER = (
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "Price",
    "SpotPrice",
    "Region",
    "AvailabilityZone",
    "Arch",
    "Hosts",
)
_FIELDS = (
    "instance_type",
    "device",
    "count",
    "vcpus",
    "memory_gib",
    "usd_per_hour",
    "spot_usd_per_hour",
    "region",
    "zone",
    "arch",
    "hosts",
)


def _keep(
    found: dict[tuple[str, ...], VmRow], row: VmRow, tally: Tally
) -> tuple[tuple[str, ...], VmRow]:
    key = (row.region, row.zone, row.instance_type, row.device, row.count)
    before = found.setdefault(key, row)
    if before is row or (before.usd_per_hour, before.spot_usd_per_hour) == (
        row.usd_per_hour,
        row.spot_usd_per_hour,
    ):
        return key, row
    tally.note(
        "a machine stands twice in one zone with two prices: the higher one counts", row.where
    )
    found[key] = replace(
        row,
        usd_per_hour=_higher(before.usd_per_hour, row.usd_per_hour),
        spot_usd_per_hour=_higher(before.spot_usd_per_hour, row.spot_usd_per_hour),
    )
    return key, found[key]


def _higher(first: str, second: str) -> str:
    """Return the higher of two prices; keep one that is no number, so that it is refused later."""
    try:
        return first if not second or float(first or "-inf") >= float(second) else second
    except ValueError:
        return second if _is_number(first) else first


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(plain_number(cell))
    except ValueError:
        return False


def positive(cell: str, name: str) -> float:
    """Read a number above 0.

    Raises
    ------
    ValueError
        Says what is wrong with the cell, in words.
    """
    if not cell:
        raise ValueError(f"{name} is missing")
    if not _is_number(cell):
        raise ValueError(f"{name} '{_shown(cell)}' is not a number")
    value = float(cell)
    if not 0 < value <= 1e9:
        raise ValueError(f"{name} '{_shown(cell)}' is not above 0")
    return value


def plain_text(row: VmRow) -> None:
    """Refuse names that are too long or have control characters.

    Raises
    ------
    ValueError
        Says which name.
    """
    for name, cell in (
        ("InstanceType", row.instance_type),
        ("Region", row.region),
        ("AvailabilityZone", row.zone),
    ):
        if len(cell) > MOST_TEXT or not cell.isprintable():
            raise ValueError(f"{name} '{_shown(cell)}' is not a name")


def _shown(text: str) -> str:
    flat = "".join(c if c.isprintable() else "?" for c in text)
    return flat if len(flat) <= 2 * MOST_TEXT else f"{flat[: 2 * MOST_TEXT]} ..."


def numbers(row: VmRow) -> Mapping[str, float | None]:
    """Return the vCPUs, memory and prices of a machine that is complete; a spot price may be
    missing.
    """
    plain_text(row)
    return {
        "vcpus": positive(row.vcpus, "vCPUs"),
        "memory_gib": positive(row.memory_gib, "MemoryGiB"),
        "usd_per_hour": positive(row.usd_per_hour, "Price"),
        "spot_usd_per_hour": positive(row.spot_usd_per_hour, "SpotPrice")
        if row.spot_usd_per_hour
        else None,
    }
