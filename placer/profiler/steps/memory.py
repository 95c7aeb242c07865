"""Memory: the most that was used on the device and on the host, and what the host still has."""

from __future__ import annotations

import gc
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from placer.profiler.torch_import import torch

KIB = 1024
STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def release(device: Any) -> None:
    """Give memory back that nothing uses any more, and start to look for the next peak."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    elif device.type == "mps":
        torch.mps.empty_cache()
    with suppress(OSError):
        CLEAR.write_text("5", encoding="ascii")  # Linux: the peak of this process starts again


def device_peak_bytes(device: Any) -> int | None:
    """Return the most memory allocated since `release`, on Metal now; None on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return int(torch.mps.driver_allocated_memory()) if device.type == "mps" else None


def host_peak_bytes() -> int | None:
    """Return the most resident memory since `release` (Linux) or the start."""
    peak = _kib(STATUS, "VmHWM")
    if peak is not None:
        return peak
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * KIB


def host_available_bytes() -> int | None:
    """Return what machine and container still give this process; None if unknown."""
    free = [_kib(MEMINFO, "MemAvailable"), _below_limit()]
    return min((size for size in free if size is not None), default=None)


def _below_limit() -> int | None:
    """Return what a container's limit leaves; files in the cache count as free."""
    try:
        limit = int((CGROUP / "memory.max").read_text(encoding="ascii"))
        used = int((CGROUP / "memory.current").read_text(encoding="ascii"))
        rows = dict(
            row.split() for row in (CGROUP / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        return max(0, limit - used + int(rows.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None


def _kib(path: Path, name: str) -> int | None:
    """Read a row of a file of /proc, in bytes."""
    try:
        for row in path.read_text(encoding="utf-8").splitlines():
            if row.startswith(f"{name}:"):
                return int(row.split()[1]) * KIB
    except (OSError, ValueError):
        return None
    return None
