"""One optimizer step of a workload in some precision, with a mark after each phase."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from placer.errors import PlacerError, unknown
from placer.profiler.steps.timing import Marks, Stopwatch
from placer.profiler.torch_import import torch
from placer.profiler.workload import StepFunction, Workload, check_loss
from placer.workload.measurement import PRECISIONS

AMPERE = (8, 0)
"""Least compute capability with TensorFloat-32 and bfloat16 units."""


def default_precision(device: Any) -> str:
    """Choose half precision on a GPU, as in the published rates, else single."""
    return "fp16" if device.type == "cuda" else "fp32"


def check_precision(precision: str, device: Any) -> None:
    """Refuse a precision that a device lacks or runs as another one."""
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    if precision != "fp32" and not _has(precision, device):
        raise PlacerError(
            f"precision {precision} is not supported on {device}",
            f"leave out --precision {precision}",
        )


def _has(precision: str, device: Any) -> bool:
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
    made: AbstractContextManager[Any] = torch.autocast(device.type, dtype=_half(precision))
    return made


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Let fp32 products be TensorFloat-32 for ``tf32`` alone: cuDNN would use it for fp32 too."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def _half(precision: str) -> Any:
    return torch.float16 if precision == "fp16" else torch.bfloat16


class TrainingStep:
    """Forward and backward pass of some batches, then one optimizer step. Learning rates are set to
    0: optimizers do the same work, and the weights stay as they are, so that no figure depends on
    how a training on made-up samples goes.

    batch_size, accumulation: Samples of a batch, and batches of an optimizer step. One batch is
        made and used again: making batches is timed apart.
    """

    def __init__(
        self,
        workload: Workload,
        device: Any,
        precision: str,
        batch_size: int,
        accumulation: int = 1,
    ) -> None:
        self.workload, self.device, self.precision = workload, device, precision
        self.accumulation, self.batch = accumulation, workload.batch(batch_size, device)
        trained = [p for p in workload.module.parameters() if p.requires_grad]
        self.optimizer = workload.optimizer(trained)
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0
        scales = precision == "fp16" and device.type in ("cuda", "cpu")  # no other needs it
        self.scaler: Any = torch.amp.GradScaler(device.type) if scales else None
        workload.module.train()
        self.optimizer.zero_grad(set_to_none=True)

    def _loss(self) -> Any:
        with autocast(self.precision, self.device):
            return self.workload.loss(self.workload.module, self.batch)

    def __call__(self, watch: Stopwatch) -> Marks:
        """Run one optimizer step."""
        marks = [("start", watch.mark())]
        for _ in range(self.accumulation):
            loss = self._loss()
            marks.append(("forward", watch.mark()))
            loss = loss / self.accumulation if self.accumulation > 1 else loss
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            marks.append(("backward", watch.mark()))
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return [*marks, ("optimizer", watch.mark())]

    def check(self) -> str | None:
        """Say what is odd about the loss; `PlacerError` if it has no gradient."""
        loss = self._loss()
        check_loss(self.workload, loss)
        value = float(loss.detach())
        if math.isfinite(value):
            return None
        return f"the loss is {value}: the training would learn nothing"


class FunctionStep:
    """A `StepFunction` at one batch size."""

    def __init__(self, function: StepFunction, batch_size: int) -> None:
        self.function, self.batch_size = function, batch_size

    def __call__(self, watch: Stopwatch) -> Marks:
        """Run one step."""
        start = watch.mark()
        self.function.run(self.batch_size)
        return [("start", start), ("whole", watch.mark())]

    def check(self) -> None:
        """Check nothing: a step function returns no loss."""
