"""What one process does in each step. The base is what PyTorch does by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placer.launch.runtime.training.context import Context


class Strategy:
    """An exchange in one process; the base averages the gradients of one world, as DDP and FSDP do.

    Notes
    -----
    All processes of a world call the same methods in the same order. Where the first process alone
    exchanges, the others hand in None for what they do not have. ``wired``: the first processes of
    the worlds, and hubs, are connected by gloo.
    """

    wired = False

    def __init__(self, context: Context) -> None:
        self.context = context

    def begin(self) -> None:
        """Begin at the step of the context, with the model from which all go on."""

    def steps(self) -> Iterator[int]:
        """Count the steps."""
        yield from range(self.context.start, self.context.settings.steps)

    def step(self, step: int) -> float:
        """Take an optimizer step of a worker; return its part of the loss over the target batch."""
        loss = self.context.calculate(step, self.context.settings.target_batch_size)
        with self.context.meter.phase("update"):
            self.context.trainer.step()
        return loss

    def serve(self, step: int) -> None:
        """Do a hub's part of one step."""

    def tensors(self) -> dict[str, Any]:
        """Return what a checkpoint keeps beside model and optimizer: tensors, which loading
        fills.
        """
        return {}

    def close(self) -> None:
        """End the exchange; the model is the last one then."""

    def leave(self) -> None:
        """Let the others go on without this process."""
