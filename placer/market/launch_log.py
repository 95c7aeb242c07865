"""A log of launches: how many spot machines each zone launched, and when somebody asked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from placer.errors import PlacerError
from placer.market.books.csv_rows import csv_lines
from placer.units import parse_moment

Array = npt.NDArray[Any]
TIME = "utc"
HINT = (
    "the first column is 'utc' (2026-11-01T10:00Z), the others are zones with the machines that "
    "were launched, empty where nobody asked"
)
MOST_CELLS = 5_000_000
MOST_MACHINES = 1_000
ZONE = re.compile(r"(?P<gcp_aws>.*\d)-?[a-z]|(?P<azure>[a-z]+\d?)-\d")
"""Names of zones: us-central1-a (Google), us-east-1a (AWS), eastus2-1 (Azure)."""


class LaunchLog(Struct, frozen=True, kw_only=True):
    """Machines that could be launched.

    ``launched`` has the shape (observations, zones), -1 where nobody asked; ``hours`` are those
    since the first observation; ``most`` is how many machines were asked for.
    """

    zones: tuple[str, ...]
    hours: Array
    launched: Array
    most: int
    first: datetime
    last: datetime

    @property
    def regions(self) -> tuple[str, ...]:
        """Region of each zone."""
        return tuple(region_of(zone) for zone in self.zones)

    @property
    def usual(self) -> Array:
        """Shares of all observations with 0, 1, ... machines; shape (most + 1,)."""
        counts = np.bincount(self.launched[self.launched >= 0], minlength=self.most + 1)
        built: Array = counts / counts.sum()
        return built


def region_of(zone: str) -> str:
    """Return the region of a zone by its name; the name itself where it is none of a zone.

    >>> [region_of(name) for name in ("us-central1-a", "us-east-1a", "eastus2-1", "US-IL-1")]
    ['us-central1', 'us-east-1', 'eastus2', 'US-IL-1']
    """
    match = ZONE.fullmatch(zone)
    return zone if match is None else match["gcp_aws"] or match["azure"]


def read_launch_log(path: Path, asked: int | None = None) -> LaunchLog:
    """Read a CSV file with a column ``utc`` and one for each zone; ``asked`` machines were asked
    for each time, None: the most that were ever launched. PlacerError names line, column and value.
    """
    lines = csv_lines(path)
    _, head = next(lines, (1, []))
    zones = zones_of(head, str(path))
    rows = list(_rows(lines, path, zones))
    if not rows:
        raise PlacerError(f"{path}: has no launches", HINT)
    times, launched = [time for time, _ in rows], np.array([counts for _, counts in rows])
    most = int(launched.max())
    if most < 0:
        raise PlacerError(f"{path}: every cell is empty", HINT)
    if asked is not None and asked < most:
        words = f"{most} machines were launched where {asked} are said to have been asked for"
        raise PlacerError(f"{path}: {words}", "give the number that was asked for")
    return LaunchLog(
        zones=zones,
        hours=np.array([(time - times[0]).total_seconds() / 3600 for time in times]),
        launched=launched,
        most=max(1, most if asked is None else asked),
        first=times[0],
        last=times[-1],
    )


def zones_of(head: Sequence[str], where: str) -> tuple[str, ...]:
    """Read the header of a log: its zones; PlacerError if it is the header of no such log."""
    if len(head) < 2 or head[0].strip().lower() != TIME or len(set(head)) < len(head):
        raise PlacerError(f"{where}: no log of launches", HINT)
    return tuple(name.strip() for name in head[1:])


def _rows(
    lines: Iterator[tuple[int, list[str]]], path: Path, zones: Sequence[str]
) -> Iterator[tuple[datetime, list[int]]]:
    last: datetime | None = None
    for number, cells in lines:
        if not cells:
            continue
        where = f"{path}:{number}"
        if number * len(cells) > MOST_CELLS:
            raise PlacerError(f"{path}: over {MOST_CELLS:,} cells", "give a shorter log")
        last, counts = observation(cells, zones, where, last)
        yield last, counts


def observation(
    cells: Sequence[str], zones: Sequence[str], where: str, last: datetime | None = None
) -> tuple[datetime, list[int]]:
    """Read one line of a log: when, and the machines of each zone, -1 where nobody asked; ``last``
    is when the line before was written. PlacerError names line, column and value.
    """
    if len(cells) != len(zones) + 1:
        words = f"{where}: {len(cells)} columns where the header has {len(zones) + 1}"
        raise PlacerError(words, HINT)
    time = parse_moment(cells[0], f"{where}:{TIME}", HINT)
    if last is not None and time <= last:
        words = f"{where}: '{cells[0]}' is not later than the line before"
        raise PlacerError(words, "sort the log by time")
    pairs = zip(cells[1:], zones, strict=True)
    return time, [_count(cell, f"{where}:{zone}") for cell, zone in pairs]


def _count(cell: str, where: str) -> int:
    if not cell.strip():
        return -1
    try:
        count = float(cell)
    except ValueError:
        count = math.nan
    if not (0 <= count <= MOST_MACHINES and count == int(count)):
        words = f"{where}: '{cell[:40]}' is not a number of machines"
        raise PlacerError(words, f"write a whole number from 0 to {MOST_MACHINES}, or nothing")
    return int(count)
