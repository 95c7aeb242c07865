"""A book's offers as SkyPilot's vms.csv files, so that importing them with what lies beside gives
the same offers again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO

from placer.errors import PlacerError
from placer.files.whole_files import whole_file
from placer.market.books.csv_rows import file_columns
from placer.market.catalog import FREE, Catalog, Gpu, VmOffer
from placer.market.sources.harvest import FORMULA, Row
from placer.market.sources.prices.skypilot.machines import ONLY_HOST
from placer.market.sources.prices.skypilot.names import (
    ATTACHABLE,
    COMES_WITH_DEVICE,
    PROVIDERS,
    ZONES_ARE_REGIONS,
    skypilot_device,
)
from placer.market.sources.prices.skypilot.price_sources import SOURCES
from placer.market.sources.prices.skypilot.split import Edge, split_prices
from placer.market.sources.reading.tally import Tally

COLUMNS = (
    "InstanceType",
    "AcceleratorName",
    "AcceleratorCount",
    "vCPUs",
    "MemoryGiB",
    "GpuInfo",
    "Price",
    "SpotPrice",
    "Region",
)
ZONE = "AvailabilityZone"
HOSTS = "Hosts"
"""Column of placer in gcp's file that SkyPilot ignores: the hosts of devices, or that a machine
is only a host.
"""
FIRST_ZONE = {"europe-west1": "b", "us-east1": "b"}
"""Regions of Google Cloud that have no zone a (cloud.google.com/compute/docs/regions-zones,
2026-11).
"""

Line = Mapping[str, str]
Machine = Mapping[str, VmOffer]
"""A machine of a region: its offer by market."""


def skypilot_lines(book: Catalog, tally: Tally) -> dict[str, list[Line]]:
    """Return the lines of each provider's vms.csv.

    Parameters
    ----------
    book
        Any book.
    tally
        Counts what SkyPilot's files cannot say: owned machines, other providers, machines that are
        only spot.

    Notes
    -----
    On Google Cloud, hosts and devices are lines of their own: a price is split in two whose sum it
    is (`split_prices`). SkyPilot matches both by zone, and a book has no zones: each region gets
    its first one.
    """
    machines: dict[str, dict[tuple[str, str, str, int], dict[str, VmOffer]]] = {}
    for offer in book.offers:
        if _exportable(offer, tally):
            key = (offer.region, offer.instance_type, offer.gpu, offer.gpu_count)
            machines.setdefault(offer.provider, {}).setdefault(key, {})[offer.market] = offer
    lines: dict[str, list[Line]] = {}
    for provider, found in sorted(machines.items()):
        priced = [machine for machine in found.values() if "on_demand" in machine]
        tally.leave_out("spot machine without an on-demand price", rows=len(found) - len(priced))
        made = (
            _gcp_lines(priced, book.gpus, tally)
            if provider == "gcp"
            else (_line(machine, book.gpus) for machine in priced)
        )
        lines[provider] = (
            [_in_country(line, provider, book) for line in made]
            if provider in ZONES_ARE_REGIONS
            else list(made)
        )
    tally.left_out = {reason: +names for reason, names in tally.left_out.items() if +names}
    return {provider: rows for provider, rows in lines.items() if rows}


def _in_country(line: Line, provider: str, book: Catalog) -> Line:
    """Make the data centre of a line a zone of its country."""
    return {
        **line,
        ZONE: line["Region"],
        "Region": book.region(f"{provider}/{line['Region']}").country,
    }


def write_lines(
    folder: str,
    lines: Mapping[str, Sequence[Line]],
    sources: Mapping[str, Sequence[Row]],
    *,
    force: bool,
) -> list[Path]:
    """Write vms.csv of each provider and what is known of its prices: all beside their places
    first, then renamed.

    Parameters
    ----------
    folder
        Gets a folder of each provider.
    lines
        What `skypilot_lines` gave.
    sources
        What `placer.market.sources.prices.skypilot.price_sources.source_rows` gave.
    force
        Replace existing files.

    Returns
    -------
    list of Path
        The vms.csv files in the order of ``lines``.

    Raises
    ------
    PlacerError
        If a file is there already and ``force`` is not given, or the folder cannot be written; what
        was there stays.
    """
    paths = [Path(folder) / provider / "vms.csv" for provider in lines]
    files: dict[Path, tuple[Sequence[str], Sequence[Row]]] = {}
    for provider, path in zip(lines, paths, strict=True):
        files[path.with_name(SOURCES)] = (
            list(file_columns("offers.csv")),
            sources.get(provider, ()),
        )
        files[path] = (_columns(provider), lines[provider])
    there = [path for path in files if path.exists() or path.is_symlink()]
    if there and not force:
        raise PlacerError(
            f"'{there[0]}' exists", "choose another folder, or replace it with --force"
        )
    try:
        with ExitStack() as stack:  # at its end all are whole
            for path, (columns, rows) in files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(stack.enter_context(whole_file(path)), columns, rows)
    except OSError as error:
        raise PlacerError(
            f"cannot write into '{folder}': {error.strerror or error}",
            "choose a folder that can be written",
        ) from None
    return paths


def _write(stream: BinaryIO, columns: Sequence[str], rows: Sequence[Row]) -> None:
    text = StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    stream.write(text.getvalue().encode())
    stream.flush()


def _columns(provider: str) -> list[str]:
    return [
        *COLUMNS,
        *([ZONE] if provider in ("aws", "gcp", "runpod") else []),
        *([HOSTS] if provider == "gcp" else []),
    ]


def _exportable(offer: VmOffer, tally: Tally) -> bool:
    if offer.price_basis in FREE:
        tally.leave_out(f"{offer.price_basis} machine", offer.place)
    elif offer.provider not in PROVIDERS:
        tally.leave_out("provider that placer does not write for SkyPilot", offer.provider)
    elif offer.market == "community":
        tally.leave_out("community machine, which SkyPilot's files do not have", offer.place)
    elif offer.instance_type.startswith(FORMULA) or offer.region.startswith(FORMULA):
        tally.leave_out("name that a spreadsheet would take for a formula", offer.instance_type)
    else:
        return True
    return False


def _line(machine: Machine, gpus: Mapping[str, Gpu]) -> Line:
    """Return a line that is a whole machine."""
    offer, spot = machine["on_demand"], machine.get("spot")
    is_gpu = gpus[offer.gpu].kind == "gpu"
    device = skypilot_device(offer.provider, offer.gpu, offer.instance_type) if is_gpu else ""
    return {
        "InstanceType": offer.instance_type,
        "AcceleratorName": device,
        "AcceleratorCount": str(float(offer.gpu_count)) if is_gpu else "",
        "vCPUs": _number(offer.vcpus),
        "MemoryGiB": _number(offer.memory_gib),
        "GpuInfo": device,
        "Price": _number(offer.usd_per_hour),
        "SpotPrice": "" if spot is None else _number(spot.usd_per_hour),
        "Region": offer.region,
    }


def _gcp_lines(
    machines: Iterable[Machine], gpus: Mapping[str, Gpu], tally: Tally
) -> Iterator[Line]:
    regions: dict[str, list[Machine]] = {}
    for machine in machines:
        offer = machine["on_demand"]
        if gpus[offer.gpu].kind == "gpu" and _host(offer) is None:
            tally.leave_out("machine that SkyPilot does not attach devices to", offer.instance_type)
        else:
            regions.setdefault(offer.region, []).append(machine)
    for region, found in sorted(regions.items()):
        zone = f"{region}-{FIRST_ZONE.get(region, 'a')}"
        for line in _region_lines(found, gpus, tally):
            yield {ZONE: zone, HOSTS: "", **line}


def _host(offer: VmOffer) -> str | None:
    """Return the host of a machine with devices; None if its name does not say one."""
    host, plus, devices = offer.instance_type.partition("+")
    if plus:
        return (
            host
            if ATTACHABLE.fullmatch(host) and devices == f"{offer.gpu_count}x{offer.gpu}"
            else None
        )
    return host if COMES_WITH_DEVICE.match(host) else None


def _region_lines(
    machines: Sequence[Machine], gpus: Mapping[str, Gpu], tally: Tally
) -> Iterator[Line]:
    """Yield the lines of one region of Google Cloud: CPU machines, hosts, devices."""
    plain = {
        m["on_demand"].instance_type: m for m in machines if gpus[m["on_demand"].gpu].kind == "cpu"
    }
    edges: dict[Edge, Machine] = {}
    for machine in machines:
        offer = machine["on_demand"]
        if gpus[offer.gpu].kind == "gpu":
            device = skypilot_device("gcp", offer.gpu, offer.instance_type)
            edges[_host(offer) or "", f"{device}:{offer.gpu_count}"] = machine
    prices, left_out = split_prices(
        {
            edge: {market: offer.usd_per_hour for market, offer in machine.items()}
            for edge, machine in edges.items()
        },
        {
            name: {market: offer.usd_per_hour for market, offer in machine.items()}
            for name, machine in plain.items()
        },
    )
    for edge in left_out:
        tally.leave_out(
            "machine whose price is not a sum of a host's and its devices'", "+".join(edge)
        )
    kept = {edge: machine for edge, machine in edges.items() if edge not in left_out}
    for machine in plain.values():
        yield _line(machine, gpus)
    for host in sorted({host for host, _ in kept} - set(plain)):
        offer = next(machine["on_demand"] for edge, machine in kept.items() if edge[0] == host)
        yield {
            **_line({"on_demand": offer}, gpus),
            **_EMPTY,
            **_prices(prices[host]),
            "InstanceType": host,
            HOSTS: ONLY_HOST,
        }
    for devices in sorted({devices for _, devices in kept}):
        hosts = sorted(host for host, name in kept if name == devices)
        name, _, count = devices.partition(":")
        offer = kept[hosts[0], devices]["on_demand"]
        words = {
            "AcceleratorName": name,
            "AcceleratorCount": f"{count}.0",
            "GpuInfo": name,
            "Region": offer.region,
            HOSTS: " ".join(hosts),
        }
        yield {
            "InstanceType": "",
            "vCPUs": "",
            "MemoryGiB": "",
            **_prices(prices[devices]),
            **words,
        }


_EMPTY = {"AcceleratorName": "", "AcceleratorCount": "", "GpuInfo": ""}


def _prices(markets: Mapping[str, float]) -> dict[str, str]:
    return {
        "Price": _number(markets["on_demand"]),
        "SpotPrice": _number(markets["spot"]) if "spot" in markets else "",
    }


def _number(value: Any) -> str:
    return repr(float(value))
