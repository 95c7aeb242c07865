"""Number formats by device: which it has, which is taken, and how fast products are in it."""

from __future__ import annotations

from placer.market.catalog import Gpu

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
