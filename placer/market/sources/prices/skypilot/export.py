"""A book's offers as SkyPilot's vms.csv files; importing them gives the same offers again."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

from placer.errors import PlacerError
from placer.files.whole_files import whole_file
from placer.market.books.csv_rows import file_columns
from placer.market.catalog import FREE, Catalog, Gpu, VmOffer
from placer.market.sources.harvest import FORMULA, Row, Tally
from placer.market.sources.prices.skypilot.catalogs import ONLY_HOST, SOURCES
from placer.market.sources.prices.skypilot.names import (
    ATTACHABLE,
    COMES_WITH_DEVICE,
    PROVIDERS,
    ZONES_ARE_REGIONS,
    skypilot_device,
)

ZONE = "AvailabilityZone"
HOSTS = "Hosts"
"""Column of placer in gcp's file that SkyPilot ignores: the hosts of devices, or that a machine
is only a host.
"""
FIRST_ZONE = {"europe-west1": "b", "us-east1": "b"}
"""Regions of Google Cloud without a zone a (cloud.google.com/compute/docs/regions-zones)."""
NANO = 1_000_000_000  # Prices are split in whole 1e-9 USD, so that sums are exact
HOST_SHARE = 4
"""A host that stands on no price list of its own gets this part (a quarter) of what it could cost:
only the sum is known.
"""

Line = dict[str, str]
Machine = Mapping[str, VmOffer]  # A machine of a region: its offer by market
Edge = tuple[str, str]  # A host and its devices
Prices = Mapping[str, float]  # USD/h by market


def skypilot_lines(book: Catalog, tally: Tally) -> dict[str, list[Line]]:
    """Return the lines of each provider's vms.csv; ``tally`` counts what SkyPilot's files cannot
    say: owned machines, other providers, machines that are only spot.

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
        if len(priced) < len(found):
            words = "spot machine without an on-demand price"
            tally.leave_out(words, rows=len(found) - len(priced))
        if provider == "gcp":
            lines[provider] = list(_gcp_lines(priced, book.gpus, tally))
        else:
            lines[provider] = [_line(machine, book.gpus) for machine in priced]
        if provider in ZONES_ARE_REGIONS:  # a data centre is a zone of its country
            for line in lines[provider]:
                line[ZONE] = line["Region"]
                line["Region"] = book.region(f"{provider}/{line['Region']}").country
    return {provider: rows for provider, rows in lines.items() if rows}


def write_lines(
    folder: str,
    lines: Mapping[str, Sequence[Line]],
    sources: Mapping[str, Sequence[Row]],
    *,
    force: bool,
) -> list[Path]:
    """Write vms.csv of each provider and what is known of its prices (`source_rows`) into a folder
    of its own: all beside their places first, then renamed. Existing files stay, unless ``force``
    is given.
    """
    paths = [Path(folder) / provider / "vms.csv" for provider in lines]
    known = list(file_columns("offers.csv"))
    files: dict[Path, tuple[Sequence[str], Sequence[Row]]] = {}
    for provider, path in zip(lines, paths, strict=True):
        columns = [column for column in lines[provider][0] if column not in (ZONE, HOSTS)]
        columns += [ZONE] * (provider in ("aws", "gcp", "runpod")) + [HOSTS] * (provider == "gcp")
        files[path.with_name(SOURCES)] = known, sources.get(provider, ())
        files[path] = columns, lines[provider]
    there = [path for path in files if path.exists() or path.is_symlink()]
    if there and not force:
        tip = "choose another folder, or replace it with --force"
        raise PlacerError(f"'{there[0]}' exists", tip)
    try:
        with ExitStack() as stack:  # at its end all are whole
            for path, (header, rows) in files.items():
                text = StringIO()
                writer = csv.DictWriter(text, header, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
                path.parent.mkdir(parents=True, exist_ok=True)
                stream = stack.enter_context(whole_file(path))
                stream.write(text.getvalue().encode())
                stream.flush()
    except OSError as error:
        words = f"cannot write into '{folder}': {error.strerror or error}"
        raise PlacerError(words, "choose a folder that can be written") from None
    return paths


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
    offer = machine["on_demand"]
    is_gpu = gpus[offer.gpu].kind == "gpu"
    device = skypilot_device(offer.provider, offer.gpu, offer.instance_type) if is_gpu else ""
    return {
        "InstanceType": offer.instance_type,
        "AcceleratorName": device,
        "AcceleratorCount": str(float(offer.gpu_count)) if is_gpu else "",
        "vCPUs": repr(float(offer.vcpus)),
        "MemoryGiB": repr(float(offer.memory_gib)),
        "GpuInfo": device,
        **_prices(_usd(machine)),
        "Region": offer.region,
    }


def _usd(machine: Machine) -> dict[str, float]:
    return {market: offer.usd_per_hour for market, offer in machine.items()}


def _prices(markets: Prices) -> Line:
    spot = repr(float(markets["spot"])) if "spot" in markets else ""
    return {"Price": repr(float(markets["on_demand"])), "SpotPrice": spot}


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
        whole = ATTACHABLE.fullmatch(host) and devices == f"{offer.gpu_count}x{offer.gpu}"
        return host if whole else None
    return host if COMES_WITH_DEVICE.match(host) else None


def _region_lines(
    machines: Sequence[Machine], gpus: Mapping[str, Gpu], tally: Tally
) -> Iterator[Line]:
    """Yield the lines of one region of Google Cloud: CPU machines, hosts, devices."""
    plain: dict[str, Machine] = {}
    edges: dict[Edge, Machine] = {}
    for machine in machines:
        offer = machine["on_demand"]
        if gpus[offer.gpu].kind == "cpu":
            plain[offer.instance_type] = machine
        else:
            device = skypilot_device("gcp", offer.gpu, offer.instance_type)
            edges[_host(offer) or "", f"{device}:{offer.gpu_count}"] = machine
    prices, left_out = split_prices(
        {edge: _usd(machine) for edge, machine in edges.items()},
        {name: _usd(machine) for name, machine in plain.items()},
    )
    for edge in left_out:
        words = "machine whose price is not a sum of a host's and its devices'"
        tally.leave_out(words, "+".join(edge))
    kept = {edge: machine for edge, machine in edges.items() if edge not in left_out}
    yield from (_line(machine, gpus) for machine in plain.values())
    for host in sorted({host for host, _ in kept} - set(plain)):
        machine = next(machine for edge, machine in kept.items() if edge[0] == host)
        none = dict.fromkeys(("AcceleratorName", "AcceleratorCount", "GpuInfo"), "")
        alone = {"InstanceType": host, HOSTS: ONLY_HOST}
        yield {**_line(machine, gpus), **none, **_prices(prices[host]), **alone}
    for devices in sorted({devices for _, devices in kept}):
        hosts = sorted(host for host, name in kept if name == devices)
        name, _, count = devices.partition(":")
        yield {
            "InstanceType": "",
            "AcceleratorName": name,
            "AcceleratorCount": f"{count}.0",
            "vCPUs": "",
            "MemoryGiB": "",
            "GpuInfo": name,
            **_prices(prices[devices]),
            "Region": kept[hosts[0], devices]["on_demand"].region,
            HOSTS: " ".join(hosts),
        }


def split_prices(
    machines: Mapping[Edge, Prices], hosts: Mapping[str, Prices]
) -> tuple[dict[str, dict[str, float]], set[Edge]]:
    """Find a price of each host and of each set of devices, by market, USD/h; return them with the
    machines that do not add up and have to be left out. Prices of ``hosts`` that are rented alone
    as well stay.

    >>> machines = {("small", "T4:1"): {"spot": 0.57}, ("large", "T4:1"): {"spot": 0.79}}
    >>> prices, left_out = split_prices(machines, {"small": {"spot": 0.22}})
    >>> prices["T4:1"]["spot"], prices["large"]["spot"], left_out
    (0.35, 0.44, set())
    """
    left_out: set[Edge] = set()
    while True:
        sums: dict[str, dict[str, float]] = {}
        wrong: set[Edge] = set()
        kept = {edge: prices for edge, prices in machines.items() if edge not in left_out}
        for market in ("on_demand", "spot"):
            priced = {e: round(usd[market] * NANO) for e, usd in kept.items() if market in usd}
            fixed = {h: round(usd[market] * NANO) for h, usd in hosts.items() if market in usd}
            parts, bad = _split(priced, fixed)
            # A machine without a spot price must not get one from the spot prices of its parts.
            known = {**fixed, **parts}
            bad |= {e for e in kept if e not in priced and e[0] in known and e[1] in parts}
            wrong |= bad
            for name, nano in parts.items():
                sums.setdefault(name, {})[market] = nano / NANO
        if not wrong:
            return sums, left_out
        left_out |= wrong


def _split(
    prices: Mapping[Edge, int], fixed: Mapping[str, int]
) -> tuple[dict[str, int], set[Edge]]:
    """Return the prices of hosts and devices in one market; machines that contradict the others.

    Machines that share hosts or devices, directly or through others, hang together: with the price
    of one host, here 0 first, those of all others follow.
    """
    import networkx as nx

    graph: nx.Graph[str] = nx.Graph([*prices])
    parts: dict[str, int] = {}
    wrong: set[Edge] = set()
    for names in nx.connected_components(graph):
        edges = [edge for edge in prices if edge[0] in names]
        shift = {edges[0][0]: 0}
        for known, other in nx.bfs_edges(graph, edges[0][0]):
            edge = (known, other) if (known, other) in prices else (other, known)
            shift[other] = prices[edge] - shift[known]
        bad = {edge for edge in edges if shift[edge[0]] + shift[edge[1]] != prices[edge]}
        hosts = {host for host, _ in edges}
        above = max(-shift[host] for host in hosts)
        below = min(shift[devices] for _, devices in edges)
        alone = sorted(hosts & fixed.keys())
        base = fixed[alone[0]] - shift[alone[0]] if alone else above + (below - above) // HOST_SHARE
        bad |= {e for e in edges if e[0] in fixed and fixed[e[0]] != shift[e[0]] + base}
        wrong |= bad if bad or above < base < below else {edges[-1]}
        parts |= {host: shift[host] + base for host in hosts}
        parts |= {devices: shift[devices] - base for _, devices in edges}
    return parts, wrong
