"""Names and machines in SkyPilot's catalogs: its words for devices, and the hosts that devices of
Google Cloud are attached to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

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
DEVICES = {
    "A100": "A100-40",
    "A100-80GB": "A100-80",
    "A100-80GB-SXM": "A100-80",
    "V100-32GB": "V100-32",
    "H100-SXM": "H100",
    "H100-MEGA": "H100",
    "H200-SXM": "H200",
    "RTXA6000": "A6000",
    "RTX6000-Ada": "RTX6000Ada",
    "RTXPRO6000": "PRO6000",
}
"""SkyPilot's names of devices that gpus.csv calls otherwise (H100-MEGA: the same device in
a3-megagpu-8g).
"""
PLAIN_H100 = (
    ("azure", re.compile(r"Standard_NC.*H100", re.IGNORECASE), "H100-NVL"),
    ("lambda", re.compile(r".*pcie", re.IGNORECASE), "H100-PCIe"),
    ("runpod", re.compile(r""), "H100-PCIe"),
)
"""Provider and machine whose ``H100`` is not the SXM one (the providers' pages of machines,
2026-11).
"""

FIXED_HOSTS: Mapping[str, Mapping[int, Collection[str]]] = {
    "A100": {
        1: ["a2-highgpu-1g"],
        2: ["a2-highgpu-2g"],
        4: ["a2-highgpu-4g"],
        8: ["a2-highgpu-8g"],
        16: ["a2-megagpu-16g"],
    },
    "A100-80GB": {n: [f"a2-ultragpu-{n}g"] for n in (1, 2, 4, 8)},
    "H100": {n: [f"a3-highgpu-{n}g"] for n in (1, 2, 4, 8)},
    "H100-MEGA": {8: ["a3-megagpu-8g"]},
    "H200": {8: ["a3-ultragpu-8g"]},
    "L4": {
        1: [f"g2-standard-{n}" for n in (4, 8, 12, 16, 32)],
        2: ["g2-standard-24"],
        4: ["g2-standard-48"],
        8: ["g2-standard-96"],
    },
}
"""Machines of Google Cloud that come with their devices (cloud.google.com/compute/docs/gpus,
2026-11), by SkyPilot's device and count.
"""
HOST_VCPUS: Mapping[str, Mapping[int, int]] = {
    "T4": {1: 4, 2: 8, 4: 48},
    "V100": {1: 8, 2: 16, 4: 32, 8: 64},
}
"""vCPUs that SkyPilot asks of an n1 host (sky/catalog/gcp_catalog.py, read 2026-11): as the
machines of AWS with the same devices have.
"""
ATTACHABLE = re.compile(r"n1-(standard|highmem|highcpu)-\d+")
"""Hosts of Google Cloud that other devices can be attached to."""
HOST_GIB_PER_VCPU = 4.0
"""Least host memory for each vCPU asked of an n1 host (as above)."""
COMES_WITH_DEVICE = re.compile(r"(a[2-9]|g[2-9])-")
"""Machines of Google Cloud that are never rented without their devices."""

NO_MODERN_CORE = re.compile(
    r"(t1|t2|t3|t3a|t4g|m1|m2|m3|c1|c3|r3|i2|g2|cc2|cr1|hs1)\.|Standard_B|Basic_|Standard_A\d|Standard_[A-Z]+\d+p|(f1|g1)-|e2-(micro|small|medium)|(t2a|c4a|n4a)-"
)
"""Machines whose vCPUs are shared, burst, have no AVX2 (before 2014) or are Arm: no core as the CPU
kinds of gpus.csv mean it.
"""
OTHER_CORES = ("arm64", "i386", "arm64_mac", "x86_64_mac")
"""What SkyPilot's column Arch says of machines that are none either."""


def placer_device(
    provider: str, name: str, instance_type: str, known: Collection[str]
) -> str | None:
    """Return the name of a device in gpus.csv; None if it is not there.

    Examples
    --------
    >>> placer_device("gcp", "A100-80GB", "", ["A100-80"])
    'A100-80'
    >>> placer_device("lambda", "H100", "gpu_1x_h100_pcie", ["H100", "H100-PCIe"])
    'H100-PCIe'
    """
    if name == "H100":
        for cloud, machine, device in PLAIN_H100:
            if cloud == provider and machine.match(instance_type):
                return device if device in known else None
    named = DEVICES.get(name, name)
    return named if named in known else None


def skypilot_device(provider: str, gpu: str, instance_type: str, known: Collection[str]) -> str:
    """Return SkyPilot's name of a device that `placer_device` reads back as ``gpu``; the name of
    gpus.csv where SkyPilot has none.
    """
    if provider == "gcp" and instance_type.startswith("a3-megagpu"):
        return "H100-MEGA"
    words = ["H100"] if gpu.startswith("H100") else []
    words += [name for name, device in DEVICES.items() if device == gpu and name != "H100-MEGA"]
    return next(
        (name for name in words if placer_device(provider, name, instance_type, known) == gpu), gpu
    )


def skypilot_place(provider: str, region: str) -> str:
    """Return what SkyPilot calls a place: ``infra`` of a task.

    Examples
    --------
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

    Examples
    --------
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


def hosts_of(device: str, count: int, hosts: Mapping[str, tuple[float, float, float]]) -> list[str]:
    """Return the hosts of Google Cloud for a number of devices, as SkyPilot chooses them.

    Parameters
    ----------
    device
        SkyPilot's name.
    count
        Devices of one machine.
    hosts
        vCPUs, memory in GiB and USD/h of every host in the zone, by name.

    Returns
    -------
    list of str
        Every machine that comes with these devices, else the cheapest n1 host that is large enough;
        empty if there is none.
    """
    if device in FIXED_HOSTS:
        return [host for host in FIXED_HOSTS[device].get(count, ()) if host in hosts]
    vcpus = HOST_VCPUS.get(device, {}).get(count)
    if vcpus is None:
        return []
    large = [
        (usd, name)
        for name, (has, gib, usd) in hosts.items()
        if ATTACHABLE.fullmatch(name) and has >= vcpus and gib >= vcpus * HOST_GIB_PER_VCPU
    ]
    return [min(large)[1]] if large else []
