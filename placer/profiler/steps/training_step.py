"""One optimizer step of a workload, with a mark after each phase."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from placer.errors import PlacerError
from placer.profiler.steps.precision import autocast, grad_scaler
from placer.profiler.steps.stopwatch import Marks, Stopwatch
from placer.profiler.target.torch_import import load_torch
from placer.profiler.workload import Workload


class Step(Protocol):
    """Something that can be run again and again and marks its phases."""

    def __call__(self, watch: Stopwatch) -> Marks:
        """Run once."""


@dataclass(frozen=True, kw_only=True)
class StepFunction:
    """A user's function that trains one batch of n samples: only whole steps can be timed.

    Parameters
    ----------
    name, source
        As of a `Workload`.
    run
        ``step(batch_size)``; what it returns is ignored.
    module
        The model that it trains, if it says so in its attribute ``module``.
    """

    name: str
    source: str
    run: Callable[[int], Any]
    module: Any | None = None


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
        self.workload, self.device, self.precision, self.accumulation = (
            workload,
            device,
            precision,
            accumulation,
        )
        self.batch = workload.batch(batch_size, device)
        self.optimizer = workload.optimizer(
            [p for p in workload.module.parameters() if p.requires_grad]
        )
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0
        self.scaler = grad_scaler(precision, device)
        workload.module.train()
        self.optimizer.zero_grad(set_to_none=True)

    def __call__(self, watch: Stopwatch) -> Marks:
        """Run one optimizer step."""
        marks = [("start", watch.mark())]
        for _ in range(self.accumulation):
            with autocast(self.precision, self.device):
                loss = self.workload.loss(self.workload.module, self.batch)
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
        """Look at the loss once.

        Returns
        -------
        str | None
            What is odd about it, but does not hinder a measurement.

        Raises
        ------
        PlacerError
            If it is no scalar that a gradient can be taken of.
        """
        with autocast(self.precision, self.device):
            loss = self.workload.loss(self.workload.module, self.batch)
        check_loss(self.workload, loss)
        return (
            None
            if math.isfinite(float(loss.detach()))
            else f"the loss is {float(loss.detach())}: the training would learn nothing"
        )


def check_loss(workload: Workload, loss: Any) -> None:
    """Refuse a loss that is no scalar, or that no gradient can be taken of.

    Raises
    ------
    PlacerError
        Says what it is.
    """
    torch = load_torch()
    if isinstance(loss, torch.Tensor) and loss.numel() == 1 and loss.requires_grad:
        return
    kind = type(loss).__name__
    if isinstance(loss, torch.Tensor):
        kind = f"a tensor of shape {tuple(loss.shape)}" + (
            "" if loss.requires_grad else " without a gradient"
        )
    raise PlacerError(
        f"the loss of {workload.source or workload.name} is {kind}",
        "return a scalar that has a gradient",
    )


class FunctionStep:
    """A `StepFunction` at one batch size, called ``accumulation`` times."""

    def __init__(self, function: StepFunction, batch_size: int) -> None:
        self.function, self.batch_size = function, batch_size

    def __call__(self, watch: Stopwatch) -> Marks:
        """Run one step."""
        start = watch.mark()
        self.function.run(self.batch_size)
        return [("start", start), ("whole", watch.mark())]

    def check(self) -> None:
        """Check nothing: a step function returns no loss."""
