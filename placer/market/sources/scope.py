"""What a refresh asks a provider for, and what the shipped book knows of it: regions, machines and
usual prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from placer.errors import PlacerError, unknown
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog, Gpu
from placer.market.words.selection import filter_offers, match_places, words

PROVIDERS = ("aws", "azure", "gcp")
"""Providers whose price interface can be read; one module each in this folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Devices, vCPUs, memory, network and local disks of one machine type; ``network_gbps`` is what
    the provider promises for long.
    """

    gpu: str
    gpu_count: int
    vcpus: float
    memory_gib: float
    network_gbps: float | None = None
    fabric: str = ""
    max_island_machines: int | None = None
    local_disk_gb: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What is asked for and what is known.

    Parameters
    ----------
    provider
        One of `PROVIDERS`.
    regions
        Regions that are asked for, sorted; all of them are in the shipped book.
    known_regions
        All regions of the provider in the shipped book.
    gpus
        Devices that are asked for.
    shapes
        Machines of the shipped book by type.
    sold
        Pairs of region and type that the shipped book has.
    usd_per_device
        Median price of one device in the shipped book by (device, market); USD/h.
    devices
        Rows of gpus.csv by name.
    interruptions
        Bands of the shipped book by (region, type, market): prices do not carry them.
    """

    provider: str
    regions: tuple[str, ...]
    known_regions: frozenset[str]
    gpus: frozenset[str]
    shapes: Mapping[str, Shape]
    sold: frozenset[tuple[str, str]]
    usd_per_device: Mapping[tuple[str, str], float]
    devices: Mapping[str, Gpu]
    interruptions: Mapping[tuple[str, str, str], tuple[float | None, float | None]]

    def wants(self, shape: Shape) -> bool:
        """Tell whether a machine's device is asked for."""
        return self.wants_gpu(shape.gpu)

    def wants_gpu(self, gpu: str) -> bool:
        """Tell whether a device is asked for."""
        return gpu in self.gpus

    def hosts(self) -> frozenset[str]:
        """Return the types without a GPU that are asked for: no interface says which CPU kind they
        are, so the shipped book does.
        """
        return frozenset(
            name
            for name, shape in self.shapes.items()
            if self.devices[shape.gpu].kind == "cpu" and self.wants(shape)
        )


def scope_of(provider: str, *, places: str | None = None, gpu: str | None = None) -> Scope:
    """Resolve the words of a refresh against the shipped book.

    Parameters
    ----------
    provider
        One of `PROVIDERS`.
    places
        Regions or wildcards, such as ``us-west-2,eu-*``; None for all.
    gpu
        Devices or families, such as ``T4,A100``; None for all.

    Raises
    ------
    PlacerError
        If a provider, region or device is not known.
    """
    if provider not in PROVIDERS:
        raise unknown("provider", provider, PROVIDERS)
    book = load_catalog("default")
    offers = [offer for offer in book.offers if offer.provider == provider]
    return Scope(
        provider=provider,
        regions=_regions(provider, places, book),
        known_regions=frozenset(
            region.region for region in book.regions.values() if region.provider == provider
        ),
        gpus=frozenset(book.gpus)
        if gpu is None
        else frozenset(o.gpu for o in filter_offers(book, gpu=gpu)),
        shapes={
            o.instance_type: Shape(
                gpu=o.gpu,
                gpu_count=o.gpu_count,
                vcpus=o.vcpus,
                memory_gib=o.memory_gib,
                network_gbps=o.network_gbps,
                fabric=o.fabric,
                max_island_machines=o.max_island_machines,
                local_disk_gb=o.local_disk_gb,
            )
            for o in offers
        },
        sold=frozenset((o.region, o.instance_type) for o in offers),
        usd_per_device=book.usual_usd_per_gpu_hour,
        devices=book.gpus,
        interruptions={
            (o.region, o.instance_type, o.market): (o.interruption_low, o.interruption_high)
            for o in offers
            if o.interruption_high is not None
        },
    )


def known_gpu(name: str, memory_gib: float, devices: Mapping[str, Gpu]) -> str | None:
    """Find the row of gpus.csv for a provider's name and memory of one GPU.

    Parameters
    ----------
    name
        As the provider writes it, such as ``A100``.
    memory_gib
        Memory of one device; the nearest size within 10 % counts, since some lists give the usable
        part.

    Returns
    -------
    str | None
        ``A100-40`` or ``A100-80``; None for a slice of a GPU and for GPUs that gpus.csv lacks.
    """
    sizes = [
        gpu
        for gpu in devices.values()
        if gpu.kind == "gpu" and (gpu.gpu == name or gpu.gpu.startswith(f"{name}-"))
    ]
    near = [gpu for gpu in sizes if abs(memory_gib - gpu.memory_gib) <= 0.1 * gpu.memory_gib]
    nearest = min(
        near,
        key=lambda gpu: (abs(memory_gib - gpu.memory_gib), len(gpu.gpu), gpu.gpu),
        default=None,
    )
    return None if nearest is None else nearest.gpu


def _regions(provider: str, places: str | None, book: Catalog) -> tuple[str, ...]:
    own = sorted(region.region for region in book.regions.values() if region.provider == provider)
    if places is None:
        return tuple(own)
    gpus: set[str] = set()
    for word in words(places, "region"):
        matches = {region for region in own if fnmatchcase(region, word)}
        if not matches and "/" not in word:
            raise unknown("region", word, own, "'placer offers' lists places")
        if not matches:
            matches = {
                place.partition("/")[2]
                for place in match_places(word, book)
                if place.startswith(f"{provider}/")
            }
        if not matches:
            raise PlacerError(
                f"'{word}' is not a region of {provider}",
                f"name regions of {provider}, such as {own[-1]}",
            )
        gpus |= matches
    return tuple(sorted(gpus))
