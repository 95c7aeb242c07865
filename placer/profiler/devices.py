"""Devices: which one this is, its driver and clocks, and the peak speeds of GPUs by data sheet."""

from __future__ import annotations

import contextlib
import csv
import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from placer.errors import PlacerError, installed
from placer.market.accelerators import processor_name
from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.market.catalog import Gpu
from placer.profiler.torch_import import torch
from placer.units import GIB, counted
from placer.workload.measurement import PRECISIONS

BUSY_SHARE = 0.5
"""Load by other programs for each CPU above which the user gets a note."""
_TABLE = Path(__file__).with_name("devices.csv")
_MAKERS = re.compile(r"^((NVIDIA|Tesla|Quadro|GRID)\s+)+", re.IGNORECASE)
_OWN_MEMORY = (0.8, 1.15)
"""Memory that PyTorch may report over the catalog's: error correction and the driver take some, a
slice (MIG) has much less.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One device of the catalog with the peaks of its data sheet.

    generation: Architecture, such as ``ampere``; None where nobody has said.
    peak_flops: Dense FLOP/s by precision, never the figure with sparsity; None where the hardware
        has no units for it.
    """

    gpu: str
    generation: str | None
    peak_flops: Mapping[str, float | None]
    memory_bytes: float
    memory_bytes_per_second: float
    source: str
    as_of: str

    def peak(self, precision: str) -> float | None:
        """Return FLOP/s at a precision: TF32 falls back to FP32 as PyTorch does; None
        without BF16 units.
        """
        peak = self.peak_flops[precision]
        return self.peak_flops["fp32"] if peak is None and precision == "tf32" else peak


def device(name: str) -> Device | None:
    """Look up the peaks of a GPU by its name in the catalog; None if the shipped table lacks it.

    >>> device("A10").peak_flops["fp16"]
    125000000000000.0
    >>> device("T4").peak_flops["bf16"] is None
    True
    """
    gpu = _shipped_gpus().get(name)
    return None if gpu is None or gpu.kind != "gpu" else device_of(gpu)


def device_of(gpu: Gpu) -> Device:
    """Return the peaks of a catalog's row. FP16 FLOP/s, memory and bandwidth are the catalog's. The
    other precisions come from devices.csv; a GPU that a user's catalog alone has lacks them.
    """
    row = _table().get(gpu.gpu, {})
    tflops = {name: row.get(f"{name}_tflops") for name in PRECISIONS if name != "fp16"}
    peaks = {name: float(value) * 1e12 if value else None for name, value in tflops.items()}
    return Device(
        gpu=gpu.gpu,
        generation=row.get("generation"),
        peak_flops=MappingProxyType({**peaks, "fp16": gpu.fp16_tflops * 1e12}),
        memory_bytes=gpu.memory_gib * GIB,
        memory_bytes_per_second=gpu.memory_gb_per_s * 1e9,
        source=row.get("source", gpu.source),
        as_of=row.get("as_of", gpu.as_of),
    )


def gpu_name(torch_name: str, memory_bytes: float | None = None) -> str:
    """Name in rates what ``torch.cuda.get_device_name()`` says: as the catalog does, else without
    the maker. A device with less memory (``total_memory``) than the catalog's, as a slice of a GPU
    (MIG) has, is another one.

    >>> gpu_name("NVIDIA A100-SXM4-40GB", 42_298_834_944), gpu_name("Tesla T4")
    ('A100-40', 'T4')
    >>> gpu_name("NVIDIA GeForce RTX 4080")
    'GeForce-RTX-4080'
    """
    short = _MAKERS.sub("", torch_name.strip()).lower()
    rows = _table().items()
    name = next((gpu for gpu, r in rows if short in r["torch_names"].lower().split(";")), None)
    if name is not None:
        whole, (low, high) = _shipped_gpus()[name].memory_gib * GIB, _OWN_MEMORY
        if memory_bytes is None or low <= memory_bytes / whole <= high:
            return name
    own = re.sub(r"[^A-Za-z0-9.]+", "-", re.sub(r"^((NVIDIA|Tesla)\s+)+", "", torch_name))
    return own.strip("-") or "gpu"


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, str]]:
    with _TABLE.open(encoding="utf-8", newline="") as handle:
        return {row["gpu"]: row for row in csv.DictReader(handle)}


@lru_cache(maxsize=1)
def _shipped_gpus() -> dict[str, Gpu]:
    """Return the devices of every book and those of single shipped books."""
    files = sorted(shipped_catalogs().rglob("gpus.csv"))
    return {row["gpu"]: Gpu(**row) for file in files for row in read_rows(file, "gpus.csv")}


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDriver:
    """The version of a driver and current clocks in MHz; None for what NVML does not tell."""

    driver: str | None = None
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFacts(GpuDriver):
    """A device as it is named in rates and by PyTorch, with driver and clocks."""

    gpu: str
    device: str
    device_name: str
    threads: int
    torch: str


def choose_device(name: str | None) -> Any:
    """Find a device: the one named, else the first GPU, else the CPU. Raises `PlacerError` if it is
    not there.
    """
    known = "known: cpu, cuda:0, cuda:1 ..., mps"
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name is None:
        return torch.device("cuda:0" if cuda else "mps" if mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise PlacerError(f"unknown device '{name}'", known) from None
    count, index = torch.cuda.device_count() if cuda else 0, device.index or 0
    match device.type:
        case "cpu":
            return torch.device("cpu")
        case "cuda" if index < count:
            return torch.device("cuda", index)
        case "mps" if mps:
            return torch.device("mps")
        case "cuda":
            words = f"PyTorch {torch.__version__} sees {count} CUDA devices"
            raise PlacerError(f"there is no device '{name}': {words}", "try --device cpu")
        case "mps":
            raise PlacerError("there is no device 'mps' on this machine", "try --device cpu")
    raise PlacerError(f"device '{name}' cannot be measured", known)


def facts(device: Any, threads: int | None = None) -> DeviceFacts:
    """Read name, driver and clocks of a device; its clocks are right while it is still warm.

    threads: That PyTorch was asked to use; None: its own choice, which is the whole processor.
    """
    name, gpu, driver = cpu_name(), device.type, GpuDriver()
    if device.type == "cpu":
        gpu = processor_name(min(threads or cpus_here(), cpus_here()))
    if device.type == "cuda":
        told = torch.cuda.get_device_properties(device)
        name = torch.cuda.get_device_name(device)
        gpu = gpu_name(name, told.total_memory)
        if has_nvml(device):
            uuid = getattr(told, "uuid", None)
            driver = read_driver(None if uuid is None else str(uuid), device.index or 0)
    return DeviceFacts(
        gpu=gpu,
        device=str(device),
        device_name=name,
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        **asdict(driver),
    )


def has_nvml(device: Any) -> bool:
    """Tell whether a device is an NVIDIA GPU; PyTorch calls those of AMD CUDA devices as well."""
    return device.type == "cuda" and torch.version.cuda is not None


def busy_words() -> str | None:
    """Say that other programs slow down what is measured on this CPU; None if they hardly do. The
    load average counts programs that run or want to, and this one is one of them.
    """
    try:
        load, cores = os.getloadavg()[0], cpus_here()
    except OSError:
        return None
    if load < 1 + BUSY_SHARE * cores:
        return None
    return (
        f"the machine is busy (load {load:.1f} on {counted(cores, 'CPU')}): expect wide "
        f"intervals and lower speeds"
    )


def cpus_here() -> int:
    """Count the virtual CPUs that this process may use."""
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    """Return the model of this machine's processor, as the system knows it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as rows:  # noqa: PTH123 - one row of a long file
            for row in rows:
                name = row.partition(":")[2].strip()
                if row.startswith("model name") and name:
                    return name
    except OSError:
        pass
    return platform.processor() or platform.machine() or "cpu"


def load_nvml() -> ModuleType:
    """Import NVIDIA's binding of NVML. Raises `PlacerError` if it is not installed."""
    need = "the clocks of a GPU are read with nvidia-ml-py"
    loaded: ModuleType = installed("pynvml", need, "profile")
    return loaded


def read_driver(uuid: str | None, index: int = 0) -> GpuDriver:
    """Read the driver and the clocks of one GPU. A machine without a driver, a GPU that is gone and
    a figure that this GPU does not tell (a slice of a GPU tells no clocks) are None: a measurement
    is worth keeping without them.

    uuid: Universally unique identifier without the prefix ``GPU-``; None where PyTorch has none.
    """
    nvml = load_nvml()

    def told(ask: Callable[..., Any], *words: Any) -> Any:
        try:
            return ask(*words)
        except nvml.NVMLError:
            return None

    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return GpuDriver()
    by_index, by_uuid = nvml.nvmlDeviceGetHandleByIndex, nvml.nvmlDeviceGetHandleByUUID
    clocks = [None, None]
    try:
        version = told(nvml.nvmlSystemGetDriverVersion)
        handle = told(by_uuid, f"GPU-{uuid}".encode()) if uuid else told(by_index, index)
        if handle is not None:
            kinds = (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM)
            clocks = [told(nvml.nvmlDeviceGetClockInfo, handle, kind) for kind in kinds]
    finally:
        told(nvml.nvmlShutdown)
    clock_mhz, memory_clock_mhz = (float(clock) if clock else None for clock in clocks)
    return GpuDriver(
        driver=version.decode() if isinstance(version, bytes) else version,
        clock_mhz=clock_mhz,
        memory_clock_mhz=memory_clock_mhz,
    )
