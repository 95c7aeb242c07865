"""Precisions of a training step, and which of them a device has."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from placer.errors import PlacerError, unknown
from placer.profiler.torch_import import load_torch
from placer.workload.measurement import PRECISIONS

AMPERE = (8, 0)
"""Least compute capability with TensorFloat-32 and bfloat16 units."""


def default_precision(device: Any) -> str:
    """Choose half precision on a GPU, as in the published rates, else single."""
    return "fp16" if device.type == "cuda" else "fp32"


def check_precision(precision: str, device: Any) -> None:
    """Refuse a precision that a device does not have.

    Raises
    ------
    PlacerError
        If there is no such precision, or the device would run it as another one.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    if precision != "fp32" and not _has(precision, device):
        raise PlacerError(
            f"precision {precision} is not supported on {device}",
            f"leave out --precision {precision}",
        )


def _has(precision: str, device: Any) -> bool:
    torch = load_torch()
    if device.type == "cuda" and precision != "fp16":
        return bool(torch.cuda.get_device_capability(device) >= AMPERE)
    if precision == "tf32":
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a device without it warns and stays at fp32
            context = torch.autocast(device.type, dtype=_half(precision))
            with context:
                torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)
    except (RuntimeError, UserWarning):
        return False
    return bool(context._enabled)


def autocast(precision: str, device: Any) -> AbstractContextManager[Any]:
    """Return the context of a forward pass."""
    if precision not in ("fp16", "bf16"):
        return nullcontext()
    made: AbstractContextManager[Any] = load_torch().autocast(device.type, dtype=_half(precision))
    return made


def grad_scaler(precision: str, device: Any) -> Any | None:
    """Return loss scaling, which only fp16 needs; None elsewhere."""
    scales = precision == "fp16" and device.type in ("cuda", "cpu")
    return load_torch().amp.GradScaler(device.type) if scales else None


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Let fp32 products be TensorFloat-32 for ``tf32`` alone: cuDNN would use it for fp32 too."""
    torch = load_torch()
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def _half(precision: str) -> Any:
    torch = load_torch()
    return torch.float16 if precision == "fp16" else torch.bfloat16
