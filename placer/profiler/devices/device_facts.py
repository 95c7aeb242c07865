"""Which device this is: its name in the catalog, driver and clocks."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from typing import Any

from placer.errors import PlacerError
from placer.profiler.devices.gpu_driver import GpuDriver, read_driver
from placer.profiler.devices.peak_speeds import catalog_name
from placer.profiler.target.torch_import import load_torch
from placer.units import counted

BUSY_SHARE = 0.5
"""Load by other programs for each CPU above which the user gets a note."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFacts:
    """A device as it is named in rates and by PyTorch, with driver and current clocks where they
    can be read.
    """

    gpu: str
    device: str
    device_name: str
    driver: str | None
    clock_mhz: float | None
    memory_clock_mhz: float | None
    threads: int
    torch: str


def choose_device(name: str | None) -> Any:
    """Find a device: the one named, else the first GPU, else the CPU.

    Raises
    ------
    PlacerError
        If it is not there.
    """
    torch = load_torch()
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name is None:
        return torch.device("cuda:0" if cuda else "mps" if mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise PlacerError(
            f"unknown device '{name}'", "known: cpu, cuda:0, cuda:1 ..., mps"
        ) from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise PlacerError(
            f"device '{name}' cannot be measured", "known: cpu, cuda:0, cuda:1 ..., mps"
        )
    count = torch.cuda.device_count() if cuda else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise PlacerError(
            f"there is no device '{name}': PyTorch {torch.__version__} sees {count} CUDA devices",
            "try --device cpu",
        )
    if device.type == "mps" and not mps:
        raise PlacerError("there is no device 'mps' on this machine", "try --device cpu")
    return (
        torch.device("cuda", device.index or 0)
        if device.type == "cuda"
        else torch.device(device.type)
    )


def facts(device: Any) -> DeviceFacts:
    """Read name, driver and clocks of a device; its clocks are right while it is still warm."""
    torch = load_torch()
    driver = _driver(device) if has_nvml(device) else GpuDriver()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()
    size = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None
    return DeviceFacts(
        gpu=gpu_name(name, size) if device.type == "cuda" else device.type,
        device=str(device),
        device_name=name,
        driver=driver.version,
        clock_mhz=driver.clock_mhz,
        memory_clock_mhz=driver.memory_clock_mhz,
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
    )


def has_nvml(device: Any) -> bool:
    """Tell whether a device is an NVIDIA GPU; PyTorch calls those of AMD CUDA devices as well."""
    return device.type == "cuda" and load_torch().version.cuda is not None


def busy_words() -> str | None:
    """Say that other programs slow down what is measured on this CPU; None if they hardly do.

    Notes
    -----
    The load average counts programs that run or want to, and this one is one of them.
    """
    try:
        load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    except (OSError, AttributeError):
        return None
    if load < 1 + BUSY_SHARE * cores:
        return None
    return (
        f"the machine is busy (load {load:.1f} on {counted(cores, 'CPU')}): expect wide "
        f"intervals and lower speeds"
    )


def gpu_name(device_name: str, memory_bytes: int | None = None) -> str:
    """Name of a GPU in rates: the catalog's, else its own without the maker's.

    >>> gpu_name("Tesla T4"), gpu_name("NVIDIA GeForce RTX 4080")
    ('T4', 'GeForce-RTX-4080')
    """
    own = (
        re.sub(r"[^A-Za-z0-9.]+", "-", re.sub(r"^((NVIDIA|Tesla)\s+)+", "", device_name)).strip("-")
        or "gpu"
    )
    return catalog_name(device_name, memory_bytes) or own


def cpu_name() -> str:
    """Return the model of this machine's processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as rows:  # noqa: PTH123 - one row of a long file
            for row in rows:
                if row.startswith("model name"):
                    return row.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "cpu"


def _driver(device: Any) -> GpuDriver:
    uuid = getattr(load_torch().cuda.get_device_properties(device), "uuid", None)
    return read_driver(None if uuid is None else str(uuid), device.index or 0)
