"""The driver of an NVIDIA GPU and its current clocks, by NVML, the library of the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from placer.errors import PlacerError
from placer.version import install_line


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDriver:
    """The version of a driver and current clocks in MHz; None for what NVML does not tell."""

    version: str | None = None
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None


def load_nvml() -> ModuleType:
    """Import NVIDIA's binding of NVML.

    Raises
    ------
    PlacerError
        If it is not installed.
    """
    try:
        import pynvml
    except ImportError:
        raise PlacerError(
            "the clocks of a GPU are read with nvidia-ml-py, which is not installed",
            f"install it: {install_line('profile')}",
        ) from None
    loaded: ModuleType = pynvml
    return loaded


def read_driver(uuid: str | None, index: int = 0) -> GpuDriver:
    """Read the driver and the clocks of one GPU.

    Parameters
    ----------
    uuid
        Universally unique identifier without the prefix ``GPU-``; None where PyTorch has none.
    index
        Number of the GPU on the machine, for want of an identifier.

    Raises
    ------
    PlacerError
        If nvidia-ml-py is not installed.

    Notes
    -----
    A machine without a driver, a GPU that is gone and a figure that this GPU does not tell (a
    slice of a GPU tells no clocks) are None: a measurement is worth keeping without them.
    """
    nvml = load_nvml()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return GpuDriver()
    try:
        version = _told(nvml, nvml.nvmlSystemGetDriverVersion)
        handle = (
            _told(nvml, nvml.nvmlDeviceGetHandleByUUID, f"GPU-{uuid}".encode())
            if uuid
            else _told(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
        )
        clocks = (
            (None, None)
            if handle is None
            else tuple(
                _told(nvml, nvml.nvmlDeviceGetClockInfo, handle, kind) or None
                for kind in (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM)
            )
        )
    finally:
        _told(nvml, nvml.nvmlShutdown)
    return GpuDriver(
        version=version.decode() if isinstance(version, bytes) else version,
        clock_mhz=None if clocks[0] is None else float(clocks[0]),
        memory_clock_mhz=None if clocks[1] is None else float(clocks[1]),
    )


def _told(nvml: ModuleType, ask: Callable[..., Any], *words: Any) -> Any:
    """Call a function of NVML; None where it refuses."""
    try:
        return ask(*words)
    except nvml.NVMLError:
        return None
