"""One optimizer step of a workload, with a mark after each phase."""

from __future__ import annotations

import math
from typing import Any, Protocol

from placer.profiler.steps.precision import autocast, grad_scaler
from placer.profiler.steps.stopwatch import Marks, Stopwatch
from placer.profiler.workload import StepFunction, Workload, check_loss


class Step(Protocol):
    """Something that can be run again and again and marks its phases."""

    def __call__(self, watch: Stopwatch) -> Marks:
        """Run once."""


class TrainingStep:
    """Forward and backward pass of some batches, then one optimizer step.

    Parameters
    ----------
    workload
        Its module must be on the device.
    device, precision
        Where and how.
    batch_size, accumulation
        Samples of a batch, and batches of an optimizer step. One batch is made and used again:
        making batches is timed apart.

    Notes
    -----
    Learning rates are set to 0: optimizers do the same work, and the weights stay as they are, so
    that no figure depends on how a training on made-up samples goes.
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
        self.scaler = grad_scaler(precision, device)
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
        """Say what is odd about the loss.

        Raises
        ------
        PlacerError
            If it is no scalar that a gradient can be taken of.
        """
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
