"""The machines of one island: devices and their number formats, and the network between."""

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


WITHOUT_BF16 = ("T4", "V100", "P100", "P4", "K80", "RTX8000", "RTX6000", "RTX20")
"""Devices before Ampere, by the start of their names; NVIDIA data sheets."""
AMPERE_AND_LATER = ("RTX6000-Ada",)
"""Names that start like those of older devices."""
WITH_FP8 = ("L4", "RTX4090", "RTX6000-Ada", "H100", "H20", "GH200", "B", "GB", "MI3", "RTX5")
"""Devices with matrix products in 8 bits, by the start of their names; data sheets."""
RATE = {"bf16": 1.0, "fp16": 1.0, "fp8": 1.77, "tf32": 0.5}
"""Rate of matrix products over BF16. fp8: H100 1,403 over 795 TFLOP/s (Stas Bekman, Machine
Learning Engineering, compute/accelerator); tf32: data sheets from the A100 on.
"""
BLACKWELL, BLACKWELL_FP8 = ("B2", "B3", "GB"), 1.95
"""B200 3,433 over 1,745, B300 3,353 over 1,769, GB200 3,616 over 1,822 TFLOP/s; the same source."""
FP32_TFLOPS = {
    "T4": 8.1,
    "V100": 15.7,
    "V100-32": 15.7,
    "RTX8000": 16.3,
    "A10": 31.2,
    "A10G": 31.5,
    "A100-40": 19.5,
    "A100-80": 19.5,
    "L4": 30.3,
    "L40S": 91.6,
    "H100": 67.0,
    "H100-PCIe": 51.0,
    "H100-NVL": 60.0,
    "H200": 67.0,
}
"""FP32 outside of tensor cores; data sheets of NVIDIA."""
USUAL_FP32_SHARE = 1 / 16
"""FP32 over half precision where no data sheet is listed: that of the A100."""


def usual_precision(gpu: Gpu) -> str:
    """Return the format in which a device trains unless the user asks for another."""
    if gpu.kind != "gpu":
        return "fp32"
    return "bf16" if has_bf16(gpu) else "fp16"


def lacks_precision(gpu: Gpu, precision: str) -> bool:
    """Tell whether a device has no matrix products in a format."""
    if gpu.kind != "gpu":
        return precision != "fp32"
    if precision == "fp8":
        return not gpu.gpu.startswith(WITH_FP8)
    return precision in ("bf16", "tf32") and not has_bf16(gpu)


def has_bf16(gpu: Gpu) -> bool:
    """Tell whether a GPU has matrix products in BF16, as all from Ampere on."""
    return gpu.gpu.startswith(AMPERE_AND_LATER) or not gpu.gpu.startswith(WITHOUT_BF16)


def precision_rate(gpu: Gpu, precision: str) -> float:
    """Return the rate of products over `Gpu.attainable_tflops`; a CPU has one figure, of FP32."""
    if gpu.kind != "gpu":
        return 1.0
    if precision == "fp8" and gpu.gpu.startswith(BLACKWELL):
        return BLACKWELL_FP8
    if precision != "fp32":
        return RATE[precision]
    listed = FP32_TFLOPS.get(gpu.gpu)
    return USUAL_FP32_SHARE if listed is None else listed / gpu.fp16_tflops
