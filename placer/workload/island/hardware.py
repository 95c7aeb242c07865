"""The machines of one island: devices, what joins them in a machine, and the network between."""

from __future__ import annotations

import math

from msgspec import Struct

from placer.market.catalog import Gpu
from placer.records import replace

BITS = 8
MOST_ISLAND_MACHINES = 128
"""Machines of one island where the book names no limit; assumed."""
PCIE_SHARE = 0.5
"""Share of a device's PCIe that a ring over several devices gets: they share switches and the path
through host memory; assumed.
"""
UNKNOWN_PCIE_GB_PER_S = 12.0
"""PCIe of a device whose generation nobody wrote down: three quarters of generation 3; assumed."""
DOMAIN_MACHINES = {"GB200": 18, "GB300": 18}
"""Machines of four devices that NVLink joins as one (NVIDIA, GB200 NVL72 data sheet)."""
HOST_GB_PER_S = 10.0
"""Copies between processes of one machine through host memory; assumed."""


FAST_GBPS = 1600.0
"""Network of a machine with which stages of dense models gain less than 5 % (timed for 70B and
405B).
"""


class Hardware(Struct, frozen=True, kw_only=True):
    """Some equal machines of one offer in one zone.

    gpu, gpu_count: Devices of one machine.
    network_gbps: Network of the whole machine; Gb/s; None if nobody wrote it down.
    fabric: What joins the machines, as `placer.market.catalog.FABRICS` names it; empty if unknown.
    machines: How many; k in the formulas.
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
    def is_connected(self) -> bool:
        """Whether it is one machine, or the network is known."""
        return self.machines == 1 or bool(self.network_gbps and self.fabric)

    @property
    def is_slow(self) -> bool:
        """Whether weights that are gathered over the network may take longer than stages wait."""
        return self.machines > 1 and (self.network_gbps or 0.0) < FAST_GBPS

    @property
    def node_bytes_per_s(self) -> float:
        """Bandwidth of one device to the others of its machine, each way."""
        if self.gpu.kind != "gpu":
            return HOST_GB_PER_S * 1e9
        if self.gpu.nvlink_gb_per_s:
            return self.gpu.nvlink_gb_per_s * 1e9
        return PCIE_SHARE * (self.gpu.pcie_gb_per_s or UNKNOWN_PCIE_GB_PER_S) * 1e9

    @property
    def joined(self) -> Hardware:
        """Return the same devices with those machines as one that NVLink joins."""
        most = DOMAIN_MACHINES.get(self.gpu.gpu, 1) if self.gpu_count == 4 else 1
        each = next(k for k in range(min(most, self.machines), 0, -1) if self.machines % k == 0)
        if each == 1:
            return self
        return replace(
            self,
            gpu_count=each * self.gpu_count,
            machines=self.machines // each,
            network_gbps=None if self.network_gbps is None else each * self.network_gbps,
            host_gib=each * self.host_gib,
        )

    @property
    def title(self) -> str:
        """Return the devices as text: ``16 x A100-40``."""
        return f"{self.gpus} x {self.gpu.gpu}"


def powers_of_two(most: int) -> list[int]:
    """List 1, 2, 4 ... up to ``most``."""
    return [2**i for i in range(most.bit_length())]
