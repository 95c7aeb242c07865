"""Figures of devices that islands ask for (catalogs/accelerators.csv); processors as devices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from placer.market.books.folders import shipped_records

FIGURES = ("matmul_tflops", "nvlink_gb_per_s", "pcie_gb_per_s")
"""Columns with a figure: TFLOP/s, and GB/s each way."""
_PROCESSOR = re.compile(r"CPU-([1-9][0-9]{0,3})")


def processor_name(vcpus: int) -> str:
    """Return the name of so many virtual CPUs as a device of books, profiles and plans.

    >>> processor_name(6), processor_vcpus("CPU-6"), processor_vcpus("T4")
    ('CPU-6', 6, None)
    """
    return f"CPU-{vcpus}"


def processor_vcpus(device: str) -> int | None:
    """Return the virtual CPUs that the name of a device says; None if it is no processor."""
    match = _PROCESSOR.fullmatch(device)
    return int(match[1]) if match else None


def accelerator_figures(gpu: str) -> Mapping[str, float | None]:
    """Return the figures of a device by column; empty for a device that the table lacks."""
    return _table().get(gpu, {})


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, float | None]]:
    return {
        row["gpu"]: {name: float(row[name]) if row[name] else None for name in FIGURES}
        for row in shipped_records("accelerators.csv")
    }
