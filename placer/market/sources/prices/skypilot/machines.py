"""Rows of vms.csv become whole machines in zones; on Google Cloud a host and its devices are two
rows whose prices are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from placer.market.catalog import Gpu
from placer.market.sources.prices.skypilot.names import (
    ATTACHABLE,
    COMES_WITH_DEVICE,
    NO_MODERN_CORE,
    OTHER_CORES,
    ZONES_ARE_REGIONS,
    hosts_of,
    placer_device,
)
from placer.market.sources.prices.skypilot.rows import Tally, VmRow, numbers, positive
from placer.records import replace

ONLY_HOST = "host"
"""What the column Hosts says of a machine that is only there to be added to devices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A machine that can be rented in one zone; ``parts`` says for the source cell what its price
    is made of.
    """

    where: str
    provider: str
    region: str
    zone: str
    instance_type: str
    gpu: str
    gpu_count: int
    vcpus: float
    memory_gib: float
    usd_per_hour: float
    spot_usd_per_hour: float | None
    parts: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Host:
    """A machine of Google Cloud without its devices."""

    row: VmRow
    vcpus: float
    memory_gib: float
    usd_per_hour: float
    spot_usd_per_hour: float | None


def plain_machines(
    provider: str, rows: Sequence[VmRow], regions: Set[str], gpus: Mapping[str, Gpu], tally: Tally
) -> Iterator[Machine]:
    """Yield the machines of a provider whose rows are whole machines.

    Parameters
    ----------
    provider
        As in regions.csv.
    rows
        What `placer.market.sources.prices.skypilot.rows.read_vm_rows` gave.
    regions
        Places that have coordinates: ``provider/region``.
    gpus
        Devices by name.
    tally
        Counts what is left out.
    """
    for row in (_placed(provider, row) for row in rows):
        if _in_known_region(provider, row, regions, tally):
            device = _device(provider, row, gpus, tally) if row.device else _cpu(row, gpus, tally)
            if device is not None:
                yield from _whole(provider, row, *device, tally)


def _placed(provider: str, row: VmRow) -> VmRow:
    """Put a row into the region that placer knows it by."""
    return replace(row, region=row.zone) if provider in ZONES_ARE_REGIONS and row.zone else row


def gcp_machines(
    provider: str, rows: Sequence[VmRow], regions: Set[str], gpus: Mapping[str, Gpu], tally: Tally
) -> Iterator[Machine]:
    """Yield the machines of Google Cloud: rows without devices are hosts and CPU machines, rows
    without a machine are devices.

    Notes
    -----
    A price of devices is added to that of each host that they come with, or of one n1 host
    (`hosts_of`), in the same zone; spot prices alike. Without a host in that zone the devices
    cannot be rented.
    """
    known = [row for row in rows if _in_known_region(provider, row, regions, tally)]
    hosts: dict[tuple[str, str], dict[str, _Host]] = {}
    for row in known:
        if not row.device and (
            ATTACHABLE.fullmatch(row.instance_type) or COMES_WITH_DEVICE.match(row.instance_type)
        ):
            host = _host(row, tally)
            if host is not None:
                hosts.setdefault((row.region, row.zone), {})[row.instance_type] = host
    for row in known:
        if row.device and row.instance_type:
            device = _device(provider, row, gpus, tally)
            yield from () if device is None else _whole(provider, row, *device, tally)
        elif row.device:
            yield from _attached(provider, row, hosts.get((row.region, row.zone), {}), gpus, tally)
        elif row.hosts != ONLY_HOST and not COMES_WITH_DEVICE.match(row.instance_type):
            cpu = _cpu(row, gpus, tally)
            yield from () if cpu is None else _whole(provider, row, *cpu, tally)


def _in_known_region(provider: str, row: VmRow, regions: Set[str], tally: Tally) -> bool:
    place = f"{provider}/{row.region}"
    if place not in regions:
        tally.leave_out("region that no book knows", place)
    return place in regions


def _device(
    provider: str, row: VmRow, gpus: Mapping[str, Gpu], tally: Tally
) -> tuple[str, int] | None:
    """Name and number of the devices of a row; None if it is left out."""
    gpu = placer_device(provider, row.device, row.instance_type, gpus)
    if gpu is None:
        tally.leave_out(
            "device that gpus.csv does not know",
            "tpu" if row.device.startswith("tpu-") else row.device,
        )
        return None
    try:
        count = positive(row.count, "AcceleratorCount")
    except ValueError as error:
        tally.refuse(row.where, str(error))
        return None
    if count != int(count):
        tally.leave_out("fraction of a device", f"{row.device} in {row.instance_type}")
        return None
    return gpu, int(count)


def _cpu(row: VmRow, gpus: Mapping[str, Gpu], tally: Tally) -> tuple[str, int] | None:
    """Return the CPU kind with as many vCPUs and no more memory; None if there is none."""
    if row.arch in OTHER_CORES or NO_MODERN_CORE.match(row.instance_type):
        tally.leave_out("machine without a GPU whose vCPUs are shared, Arm or from before 2014")
        return None
    kind = gpus.get(f"CPU-{row.vcpus.removesuffix('.0')}")
    try:
        fits = (
            kind is not None
            and kind.kind == "cpu"
            and positive(row.memory_gib, "MemoryGiB") >= kind.memory_gib
        )
    except ValueError as error:
        tally.refuse(row.where, str(error))
        return None
    if kind is None or not fits:
        tally.leave_out("machine without a GPU of no CPU kind of gpus.csv")
        return None
    return kind.gpu, 1


def _whole(provider: str, row: VmRow, gpu: str, gpu_count: int, tally: Tally) -> Iterator[Machine]:
    if not row.instance_type:
        tally.refuse(row.where, "InstanceType is missing")
        return
    try:
        figures = numbers(row)
    except ValueError as error:
        tally.refuse(row.where, str(error))
        return
    yield Machine(
        where=row.where,
        provider=provider,
        region=row.region,
        zone=row.zone,
        instance_type=row.instance_type,
        gpu=gpu,
        gpu_count=gpu_count,
        **figures,  # type: ignore[arg-type]
    )


def _host(row: VmRow, tally: Tally) -> _Host | None:
    try:
        return _Host(row=row, **numbers(row))  # type: ignore[arg-type]
    except ValueError as error:
        tally.refuse(row.where, str(error))
        return None


def _attached(
    provider: str, row: VmRow, hosts: Mapping[str, _Host], gpus: Mapping[str, Gpu], tally: Tally
) -> Iterator[Machine]:
    device = _device(provider, row, gpus, tally)
    if device is None:
        return
    try:
        usd = positive(row.usd_per_hour, "Price")
        spot = positive(row.spot_usd_per_hour, "SpotPrice") if row.spot_usd_per_hour else None
    except ValueError as error:
        tally.refuse(row.where, str(error))
        return
    gpu, count = device
    sizes = {name: (host.vcpus, host.memory_gib, host.usd_per_hour) for name, host in hosts.items()}
    names = (
        [name for name in row.hosts.split() if name in hosts]
        if row.hosts
        else hosts_of(row.device, count, sizes)
    )
    if not names:
        tally.leave_out("devices without a host in their zone", f"{row.device}:{count}")
    for name in names:
        host = hosts[name]
        yield Machine(
            where=row.where,
            provider=provider,
            region=row.region,
            zone=row.zone,
            instance_type=f"{name}+{count}x{gpu}" if ATTACHABLE.fullmatch(name) else name,
            gpu=gpu,
            gpu_count=count,
            vcpus=host.vcpus,
            memory_gib=host.memory_gib,
            usd_per_hour=round(host.usd_per_hour + usd, 9),
            spot_usd_per_hour=None
            if spot is None or host.spot_usd_per_hour is None
            else round(host.spot_usd_per_hour + spot, 9),
            parts=f": {name} + {count}x{row.device}",
        )
