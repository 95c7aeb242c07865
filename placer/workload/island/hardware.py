"""The machines of one island: devices, what joins them in a machine, and the network between."""

from __future__ import annotations

import math

from msgspec import Struct

from placer.market.catalog import Gpu

BITS = 8
PCIE_SHARE = 0.5
"""Share of a device's PCIe that a ring over several devices gets: they share switches and the path
through host memory; assumed.
"""
UNKNOWN_PCIE_GB_PER_S = 12.0
"""PCIe of a device whose generation nobody wrote down: three quarters of generation 3; assumed."""
HOST_GB_PER_S = 10.0
"""Copies between processes of one machine through host memory; assumed."""


class Hardware(Struct, frozen=True, kw_only=True):
    """Some equal machines of one offer in one zone.

    Parameters
    ----------
    gpu, gpu_count
        Devices of one machine.
    network_gbps
        Network of the whole machine; Gb/s; None if nobody wrote it down.
    fabric
        What joins the machines, as `placer.market.catalog.FABRICS` names it; empty if unknown.
    machines
        How many; k in the formulas.
    host_gib
        Host memory of one machine.
    """

    gpu: Gpu
    gpu_count: int
    network_gbps: float | None
    fabric: str
    machines: int
    host_gib: float = math.inf

    @property
    def gpus(self) -> int:
        """Devices of all machines."""
        return self.gpu_count * self.machines

    @property
    def node_bytes_per_s(self) -> float:
        """Bandwidth of one device to the others of its machine, each way."""
        if self.gpu.kind != "gpu":
            return HOST_GB_PER_S * 1e9
        if self.gpu.nvlink_gb_per_s:
            return self.gpu.nvlink_gb_per_s * 1e9
        return PCIE_SHARE * (self.gpu.pcie_gb_per_s or UNKNOWN_PCIE_GB_PER_S) * 1e9

    @property
    def title(self) -> str:
        """Return the devices as text: ``16 x A100-40``."""
        return f"{self.gpus} x {self.gpu.gpu}"
