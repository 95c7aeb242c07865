"""Peak speed of devices by precision, and what PyTorch calls them: data sheets, dense figures."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.market.catalog import Gpu
from placer.units import GIB

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
"""Of the matrix products: plain, TensorFloat-32, and autocast to half precision with weights in
FP32.
"""
_TABLE = Path(__file__).with_name("devices.csv")
_MAKERS = re.compile(r"^(NVIDIA|Tesla|Quadro|GRID)\s+", re.IGNORECASE)
_OWN_MEMORY = (0.8, 1.15)
"""Memory that PyTorch may report over the catalog's: error correction and the driver take some, a
slice (MIG) has much less.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One device of the catalog with the peaks of its data sheet.

    Parameters
    ----------
    gpu
        Name in the catalog.
    generation
        Architecture, such as ``ampere``; None where nobody has said.
    peak_flops
        Dense FLOP/s by precision, never the figure with sparsity; None where the hardware has no
        units for it.
    memory_bytes, memory_bytes_per_second
        What a program can use, and the bandwidth.
    source, as_of
        Data sheets and their date.
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
    """Return the peaks of a catalog's row.

    Notes
    -----
    FP16 FLOP/s, memory and bandwidth are the catalog's. The other precisions come from devices.csv;
    a GPU that a user's catalog alone has lacks them.
    """
    row = _table().get(gpu.gpu)
    peaks: dict[str, float | None] = dict.fromkeys(PRECISIONS)
    if row is not None:
        peaks |= {
            precision: float(row[f"{precision}_tflops"]) * 1e12
            for precision in ("fp32", "tf32", "bf16")
            if row[f"{precision}_tflops"]
        }
    peaks["fp16"] = gpu.fp16_tflops * 1e12
    return Device(
        gpu=gpu.gpu,
        generation=None if row is None else row["generation"],
        peak_flops=MappingProxyType(peaks),
        memory_bytes=gpu.memory_gib * GIB,
        memory_bytes_per_second=gpu.memory_gb_per_s * 1e9,
        source=gpu.source if row is None else row["source"],
        as_of=gpu.as_of if row is None else row["as_of"],
    )


def catalog_name(torch_name: str, memory_bytes: float | None = None) -> str | None:
    """Name in the catalog of what ``torch.cuda.get_device_name()`` says; None if the catalog has no
    such GPU.

    Parameters
    ----------
    torch_name
        As PyTorch says it, with or without the maker's name.
    memory_bytes
        ``total_memory`` of the device; a slice of a GPU (MIG) with less memory than the whole is
        not that GPU.

    >>> catalog_name("NVIDIA A100-SXM4-40GB", 42_298_834_944), catalog_name("Tesla T4")
    ('A100-40', 'T4')
    >>> catalog_name("NVIDIA GeForce RTX 4080") is None
    True
    """
    short = torch_name.strip()
    while (cut := _MAKERS.sub("", short)) != short:
        short = cut
    name = next(
        (
            name
            for name, row in _table().items()
            if short.lower() in {n.lower() for n in row["torch_names"].split(";")}
        ),
        None,
    )
    if name is None or memory_bytes is None:
        return name
    low, high = _OWN_MEMORY
    return name if low <= memory_bytes / (_shipped_gpus()[name].memory_gib * GIB) <= high else None


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, str]]:
    with _TABLE.open(encoding="utf-8", newline="") as handle:
        return {row["gpu"]: row for row in csv.DictReader(handle)}


@lru_cache(maxsize=1)
def _shipped_gpus() -> dict[str, Gpu]:
    """Return the devices of every book and those of single shipped books."""
    files = sorted(shipped_catalogs().rglob("gpus.csv"))
    return {row["gpu"]: Gpu(**row) for file in files for row in read_rows(file, "gpus.csv")}
