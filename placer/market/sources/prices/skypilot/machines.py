"""Machines of Google Cloud in SkyPilot's vms.csv: a host and its devices are two rows whose prices
are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placer.market.sources.prices.skypilot.names import (
    ATTACHABLE,
    COMES_WITH_DEVICE,
    hosts_of,
    placer_device,
)
from placer.market.sources.reading.records import Record
from placer.market.sources.reading.tally import Tally

ONLY_HOST = "host"
"""What the column Hosts, which placer alone writes, says of a machine that is only there to be
added to devices; of devices it names the hosts.
"""
SIZES = ("vCPUs", "MemoryGiB", "Price")


def whole_machines(
    rows: Sequence[tuple[str, Record]], tally: Tally
) -> Iterator[tuple[str, Record]]:
    """Yield rows that are machines: CPU machines, and hosts with their devices.

    Parameters
    ----------
    rows
        Rows without devices are hosts and CPU machines, rows without a machine are devices.
    tally
        Counts devices without a host in their zone; refuses hosts without figures.

    Notes
    -----
    A price of devices is added to that of each host that they come with, or of one n1 host
    (`hosts_of`), in the same zone; spot prices alike. The key ``parts`` says of what a price is.
    """
    hosts: dict[tuple[str, str], dict[str, Record]] = {}
    for where, row in rows:
        name = row["InstanceType"]
        if row["AcceleratorName"] or not (
            ATTACHABLE.fullmatch(name) or COMES_WITH_DEVICE.match(name)
        ):
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
    sizes = {name: tuple(float(host[size]) for size in SIZES) for name, host in hosts.items()}
    names = (
        [name for name in row["Hosts"].split() if name in hosts]
        if row.get("Hosts")
        else hosts_of(device, int(count), sizes)
    )
    if not names:
        tally.leave_out("devices without a host in their zone", f"{device}:{count}")
    for name in names:
        host = hosts[name]
        devices = f"+{count}x{placer_device('gcp', device, name)}"
        yield {
            **row,
            **{size: host[size] for size in ("vCPUs", "MemoryGiB")},
            **{price: _sum(host.get(price, ""), row.get(price, "")) for price in _PRICES},
            "InstanceType": f"{name}{devices}" if ATTACHABLE.fullmatch(name) else name,
            "parts": f": {name} + {count}x{device}",
        }


_PRICES = ("Price", "SpotPrice")


def _sum(host: str, devices: str) -> str:
    """Add two prices; one that is none stays, so that it is refused, and without one there is no
    sum.
    """
    wrong = next((price for price in (host, devices) if price and not _is_positive(price)), None)
    if wrong or not (host and devices):
        return wrong or ""
    return repr(round(float(host) + float(devices), 9))


def _is_positive(cell: str) -> bool:
    try:
        return 0 < float(cell) <= 1e9
    except ValueError:
        return False
