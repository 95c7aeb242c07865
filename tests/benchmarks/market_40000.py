"""A synthetic market of about 40,000 offers in 100 regions in SkyPilot's format.

    python tests/benchmarks/market_40000.py DIR           aws/vms.csv, azure/vms.csv, gcp/vms.csv
    python tests/benchmarks/market_40000.py DIR --book    a price book of placer, the same offers

It serves to measure import and `recommend` at that size. Prices are made up around list prices: the
machines do not exist.
"""

from __future__ import annotations

import argparse
import csv
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_BOOK = Path(__file__).resolve().parents[2] / "catalogs" / "default"
REGIONS = {"aws": 29, "azure": 54, "gcp": 17}
"""How many regions of the default book have machines: 100 in all."""
TYPES = 236
"""Machines of each region of aws and azure; gcp has its own: (29 + 54) * 236 * 2 markets + 17 * 28
* 2 = 40,128 offers.
"""
ZONES = {"aws": 4, "azure": 1, "gcp": 2}
"""Rows of each machine and region: azure's file has no zones."""
SEED = 40_000
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
    "AvailabilityZone",
)
NAMES = {"A100": "A100-40", "A100-80GB": "A100-80", "V100-32GB": "V100-32"}
"""SkyPilot's names of devices that placer calls otherwise."""
DEVICE_USD_PER_HOUR = {
    "T4": 0.35,
    "L4": 0.56,
    "A10": 0.75,
    "A10G": 0.90,
    "V100": 2.48,
    "V100-32GB": 3.40,
    "A100": 2.93,
    "A100-80GB": 3.93,
    "L40S": 1.60,
    "H100": 8.80,
    "H200": 9.90,
}
"""About the list price of one device without its host (US regions, 2026)."""
VCPU_USD_PER_HOUR = 0.0332
"""About the list price of a vCPU with 4 GiB (GCP n1-standard, US regions, 2026)."""
COUNTS = (1, 2, 4, 8)
VCPUS_PER_DEVICE = (4, 6, 8, 12, 16, 24)
GCP_HOSTS: dict[str, dict[int, tuple[str, ...]]] = {
    "A100": {
        1: ("a2-highgpu-1g",),
        2: ("a2-highgpu-2g",),
        4: ("a2-highgpu-4g",),
        8: ("a2-highgpu-8g",),
        16: ("a2-megagpu-16g",),
    },
    "A100-80GB": {n: (f"a2-ultragpu-{n}g",) for n in COUNTS},
    "H100": {n: (f"a3-highgpu-{n}g",) for n in COUNTS},
    "L4": {
        1: tuple(f"g2-standard-{n}" for n in (4, 8, 12, 16, 32)),
        2: ("g2-standard-24",),
        4: ("g2-standard-48",),
        8: ("g2-standard-96",),
    },
    "T4": {1: ("n1-standard-4",), 2: ("n1-standard-8",), 4: ("n1-standard-64",)},
    "V100": {
        1: ("n1-standard-8",),
        2: ("n1-standard-16",),
        4: ("n1-standard-32",),
        8: ("n1-standard-64",),
    },
}
"""Machines of gcp, as SkyPilot names them: the devices are rows of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One row of vms.csv without its zone; a gcp host has no device, a gcp device has no name."""

    instance_type: str
    device: str
    count: int
    vcpus: int
    usd_per_hour: float
    spot_usd_per_hour: tuple[float, ...]


def regions(provider: str) -> list[str]:
    """First regions of a provider in the default book."""
    with (DEFAULT_BOOK / "regions.csv").open(encoding="utf-8", newline="") as stream:
        return [row["region"] for row in csv.DictReader(stream) if row["provider"] == provider][
            : REGIONS[provider]
        ]


def machines(provider: str) -> list[tuple[str, str, int, int]]:
    """Name, device, count and vCPUs of each row of a region; large hosts come last, so `TYPES` cuts
    those.
    """
    if provider == "gcp":
        hosts = sorted(
            {host for counts in GCP_HOSTS.values() for names in counts.values() for host in names}
        )
        devices = [
            ("", device, count, 0) for device, counts in GCP_HOSTS.items() for count in counts
        ]
        return [(host, "", 0, _host_vcpus(host)) for host in hosts] + devices
    return [
        (f"{provider[:2]}-{device.lower()}-{count}x.{count * vcpus}", device, count, count * vcpus)
        for vcpus in VCPUS_PER_DEVICE
        for count in COUNTS
        for device in DEVICE_USD_PER_HOUR
    ][:TYPES]


def _host_vcpus(host: str) -> int:
    family, _, size = host.rpartition("-")
    if not size.endswith("g"):
        return int(size)
    return {"a2-highgpu": 12, "a2-ultragpu": 12, "a2-megagpu": 6, "a3-highgpu": 26}[family] * int(
        size[:-1]
    )


def market(provider: str) -> Iterator[tuple[str, Part]]:
    """Region and row of every machine; the same in every run."""
    chance = random.Random(f"{SEED} {provider}")
    for region in regions(provider):
        level = chance.uniform(0.95, 1.35)
        for name, device, count, vcpus in machines(provider):
            usd = (
                level
                * (vcpus * VCPU_USD_PER_HOUR + count * DEVICE_USD_PER_HOUR.get(device, 0.0))
                * chance.uniform(0.98, 1.02)
            )
            discount = chance.uniform(0.3, 0.6)
            spot = tuple(
                round(usd * discount * chance.uniform(0.9, 1.1), 5) for _ in range(ZONES[provider])
            )
            yield (
                region,
                Part(
                    instance_type=name,
                    device=device,
                    count=count,
                    vcpus=vcpus,
                    usd_per_hour=round(usd, 5),
                    spot_usd_per_hour=spot,
                ),
            )


def write_skypilot(folder: Path) -> int:
    """Write vms.csv of every provider and count the rows."""
    rows = 0
    for provider in REGIONS:
        (folder / provider).mkdir(parents=True, exist_ok=True)
        with (folder / provider / "vms.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(COLUMNS if provider != "azure" else COLUMNS[:-1])
            for region, part in market(provider):
                host = [float(part.vcpus), part.vcpus * 4.0] if part.vcpus else ["", ""]
                for zone, spot in zip("abcdef", part.spot_usd_per_hour, strict=False):
                    device = [part.device, float(part.count) if part.count else ""]
                    zones = {"azure": [], "gcp": [f"{region}-{zone}"], "aws": [f"{region}{zone}"]}[
                        provider
                    ]
                    writer.writerow(
                        [
                            part.instance_type,
                            *device,
                            *host,
                            part.device,
                            part.usd_per_hour,
                            spot,
                            region,
                            *zones,
                        ]
                    )
                    rows += 1
    return rows


def write_book(folder: Path) -> int:
    """Write a book with the same offers and the other files of the default book, and count the
    offers.
    """
    shutil.copytree(DEFAULT_BOOK, folder, dirs_exist_ok=True)
    with (DEFAULT_BOOK / "offers.csv").open(encoding="utf-8", newline="") as stream:
        columns = next(csv.reader(stream))
    offers = [row for provider in REGIONS for row in _offers(provider)]
    with (folder / "offers.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(offers)
    return len(offers)


def _offers(provider: str) -> Iterator[dict[str, object]]:
    parts = list(market(provider))
    hosts = {(region, part.instance_type): part for region, part in parts if not part.device}
    for region, part in parts:
        if not part.device:
            continue
        names = GCP_HOSTS[part.device][part.count] if provider == "gcp" else (part.instance_type,)
        for name in names:
            host = hosts.get((region, name))
            extra = 0.0 if host is None else host.usd_per_hour
            spots = (
                part.spot_usd_per_hour
                if host is None
                else [
                    a + b
                    for a, b in zip(part.spot_usd_per_hour, host.spot_usd_per_hour, strict=True)
                ]
            )
            vcpus = part.vcpus if host is None else host.vcpus
            for market_name, usd in (
                ("on_demand", part.usd_per_hour + extra),
                ("spot", min(spots)),
            ):
                yield {
                    "provider": provider,
                    "region": region,
                    "instance_type": f"{name}+{part.count}x{part.device}"
                    if name.startswith("n1-")
                    else name,
                    "gpu": NAMES.get(part.device, part.device),
                    "gpu_count": part.count,
                    "vcpus": vcpus,
                    "memory_gib": vcpus * 4,
                    "market": market_name,
                    "usd_per_hour": round(usd, 5),
                    "price_basis": "estimated",
                    "source": "synthetic market of tests/benchmarks/market_40000.py",
                    "as_of": "2026-11-01",
                }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the folder that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--book", action="store_true", help="write a book of placer instead of SkyPilot's files"
    )
    words = parser.parse_args(arguments)
    if words.book:
        sys.stdout.write(f"{write_book(words.folder):,} offers in {words.folder}\n")
    else:
        sys.stdout.write(f"{write_skypilot(words.folder):,} rows in {words.folder}\n")


if __name__ == "__main__":
    main()
