"""SkyPilot's words for devices and machines, and the hosts of devices of Google Cloud."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

PROVIDERS = ("aws", "azure", "gcp", "lambda", "runpod")
"""Folders of SkyPilot's catalogs that placer reads and writes; its other providers have no regions
or egress prices in any book, but for OCI, whose availability domains no book has.
"""
ZONES_ARE_REGIONS = ("runpod",)
"""Providers whose data centres are zones of a country for SkyPilot and regions for placer."""
CONTINENTS = ("AP", "EU", "EUR", "OC", "SEA")
"""How RunPod's data centres begin where a country follows (REGION_ZONES of SkyPilot 0.14,
sky/catalog/data_fetchers/fetch_runpod.py).
"""
RUNPOD_GPUS = {"A100-PCIE": "A100-80GB", "A100-SXM": "A100-80GB-SXM", "H100-PCIE": "H100"}
"""RunPod's devices that SkyPilot calls otherwise (GPU_NAME_OVERRIDES, as above)."""

HOST_VCPUS: Mapping[str, Mapping[int, int]] = {
    "T4": {1: 4, 2: 8, 4: 48},
    "V100": {1: 8, 2: 16, 4: 32, 8: 64},
}
"""vCPUs that SkyPilot asks of an n1 host (sky/catalog/gcp_catalog.py, read 2026-11): as the
machines of AWS with the same devices have.
"""
ATTACHABLE = re.compile(r"n1-(standard|highmem|highcpu)-\d+")
"""Hosts of Google Cloud that other devices can be attached to."""
HOST_GIB_PER_VCPU = 4.0  # Least host memory for each vCPU asked of an n1 host (as above)
COMES_WITH_DEVICE = re.compile(r"(a[2-9]|g[2-9])-")
"""Machines of Google Cloud that are never rented without their devices."""


@lru_cache(maxsize=4096)
def placer_device(provider: str, name: str, instance_type: str) -> str:
    """Return the name of a device in gpus.csv, as the mapping of vms.csv says.

    >>> placer_device("gcp", "A100-80GB", "")
    'A100-80'
    >>> placer_device("lambda", "H100", "gpu_1x_h100_pcie")
    'H100-PCIe'
    """
    from placer.market.sources.reading.expressions import as_text, evaluate
    from placer.market.sources.reading.mapping import shipped_mapping

    mapping = shipped_mapping("skypilot")
    row = {"AcceleratorName": name, "InstanceType": instance_type, "given": {"provider": provider}}
    text = as_text(evaluate(mapping.fields["gpu"], row))
    return mapping.values["gpu"].get(text, text)


def skypilot_device(provider: str, gpu: str, instance_type: str) -> str:
    """Return SkyPilot's name of a device, which `placer_device` reads back, else placer's.

    >>> skypilot_device("aws", "H200", ""), skypilot_device("runpod", "H200", "")
    ('H200', 'H200-SXM')
    """
    from placer.market.sources.reading.mapping import shipped_mapping

    if provider == "gcp" and instance_type.startswith("a3-megagpu"):
        return "H100-MEGA"
    devices = shipped_mapping("skypilot").values["gpu"]
    # Only RunPod's H200 is called H200-SXM.
    plain = gpu.startswith("H100") or (gpu == "H200" and provider != "runpod")
    words = [gpu.partition("-")[0]] if plain else []
    words += [name for name, device in devices.items() if device == gpu and name != "H100-MEGA"]
    return next(
        (name for name in words if placer_device(provider, name, instance_type) == gpu), gpu
    )


def skypilot_place(provider: str, region: str) -> str:
    """Return what SkyPilot calls a place: ``infra`` of a task.

    >>> skypilot_place("aws", "us-west-2"), skypilot_place("runpod", "EU-SE-1")
    ('aws/us-west-2', 'runpod/SE/EU-SE-1')
    """
    if provider not in ZONES_ARE_REGIONS:
        return f"{provider}/{region}"
    first, _, rest = region.partition("-")
    country = rest.partition("-")[0] if first in CONTINENTS else first
    return f"{provider}/{country}/{region}"


def skypilot_machine(provider: str, instance_type: str, market: str = "on_demand") -> str:
    """Return what SkyPilot calls a machine: on Google Cloud the host without its devices, at RunPod
    with SkyPilot's name of the device and the cloud (sky/provision/runpod/utils.py, SkyPilot 0.14).

    >>> skypilot_machine("gcp", "n1-standard-8+1xT4"), skypilot_machine("runpod", "8x_A100-SXM")
    ('n1-standard-8', '8x_A100-80GB-SXM_SECURE')
    >>> skypilot_machine("runpod", "1x_RTX4090", "community")
    '1x_RTX4090_COMMUNITY'
    """
    if provider == "gcp":
        return instance_type.split("+", 1)[0]
    count, _, gpu = instance_type.partition("x_")
    if provider != "runpod" or not gpu or gpu.endswith("_SECURE"):
        return instance_type
    cloud = "COMMUNITY" if market == "community" else "SECURE"
    return f"{count}x_{RUNPOD_GPUS.get(gpu, gpu)}_{cloud}"


def hosts_of(device: str, count: int, hosts: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the hosts of Google Cloud for a number of devices by SkyPilot's name, as it chooses
    them: every machine that comes with these devices, else the cheapest n1 host that is large
    enough. ``hosts`` has vCPUs, memory in GiB and USD/h of every host in the zone.
    """
    whole = _whole_machines()
    if device in whole:
        return [host for host in whole[device].get(count, ()) if host in hosts]
    vcpus = HOST_VCPUS.get(device, {}).get(count)
    if vcpus is None:
        return []
    large = [
        (usd, name)
        for name, (has, gib, usd) in hosts.items()
        if ATTACHABLE.fullmatch(name) and has >= vcpus and gib >= vcpus * HOST_GIB_PER_VCPU
    ]
    return [min(large)[1]] if large else []


@lru_cache(maxsize=1)
def _whole_machines() -> dict[str, dict[int, list[str]]]:
    """Return the machines of Google Cloud in the shipped book that come with their devices, by
    SkyPilot's device and count.
    """
    from placer.market.books.book_reader import load_catalog

    machines: dict[str, dict[int, list[str]]] = {}
    for offer in load_catalog("default").offers:
        name = offer.instance_type
        if offer.provider == "gcp" and COMES_WITH_DEVICE.match(name):
            device = skypilot_device("gcp", offer.gpu, name)
            found = machines.setdefault(device, {}).setdefault(offer.gpu_count, [])
            found += [] if name in found else [name]
    return machines
