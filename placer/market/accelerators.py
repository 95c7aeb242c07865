"""Figures of devices that training on islands asks for: catalogs/accelerators.csv."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import lru_cache

from placer.market.books.folders import shipped_catalogs

FIGURES = ("matmul_tflops", "nvlink_gb_per_s", "pcie_gb_per_s")
"""Columns with a figure: TFLOP/s, and GB/s each way."""


def accelerator_figures(gpu: str) -> Mapping[str, float | None]:
    """Return the figures of a device by column; empty for a device that the table lacks."""
    return _table().get(gpu, {})


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, float | None]]:
    path = shipped_catalogs() / "accelerators.csv"
    with path.open(encoding="utf-8", newline="") as handle:
        return {
            row["gpu"]: {name: float(row[name]) if row[name] else None for name in FIGURES}
            for row in csv.DictReader(handle)
        }
