"""What is worked out and not measured, from the estimates: peaks of devices, memory, rates of GPUs that are not here."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from typing import Any

from placer.catalog import Catalog
from placer.errors import PlacerError
from placer.profile import Rate
from placer.profiler.devices import device
from placer.profiler.document import Sizes
from placer.profiler.workload import Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkedOut:
    """Rates for GPUs of a catalog, and memory of a step on a device."""

    rates: tuple[Rate, ...]
    device_memory_bytes: int
    memory_source: str

    def with_memory(self, sizes: Sizes) -> Sizes:
        """Sizes with the memory that was worked out."""
        return replace(sizes, device_memory_bytes=self.device_memory_bytes, memory_source=self.memory_source)


def peak_flops(gpu: str, precision: str) -> float | None:
    """FLOP/s of a device's data sheet in a precision; None where it is not known."""
    found = device(gpu)
    return None if found is None else found.peak(precision)


def worked_out(workload: Workload, catalog: Catalog, plan: Any) -> WorkedOut | None:
    """Estimate a workload on the meta device; None where it cannot be."""
    if importlib.util.find_spec("placer.profiler.estimate") is None:
        return None
    raise PlacerError("to be joined", "")
