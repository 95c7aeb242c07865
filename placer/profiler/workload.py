"""What the profiler measures: a model with batches, loss and optimizer, or a function that takes
steps.

The functions of users import `Workload` from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.profiler.torch_import import load_torch
from placer.workload.architecture import Architecture

if TYPE_CHECKING:
    import torch

USUAL_TARGET_BATCH_SIZE = 32_768
"""Samples of an optimizer step where nobody has said: as in the published runs of profiles/."""
BATCH = 2
"""Samples of the batch whose shape says what one is."""
SAMPLE_SOURCE = "counted: the first tensor of a batch that was profiled"
USUAL_COMPRESSION = "fp16"
"""Gradients are sent in half precision unless a request says otherwise, as in the shipped profiles.
"""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A model that can be trained.

    name, title: Short name of the model, and what it is in words.
    module: The model, on the CPU (or the meta device).
    batch: Makes a batch of n samples on a device: what ``loss`` takes.
    loss: Scalar loss of the module on a batch; the forward pass.
    optimizer: Makes the optimizer of some parameters.
    target_batch_size, microbatch: Samples of an optimizer step over all workers, and samples that
        one device takes at once, if the user has said so.
    samples: Batches of a dataset to measure its share of a step, if there is one: an iterable of
        batches that ``loss`` takes.
    source: Where the model comes from: ``package.module:function``, ``builtin resnet50-like``,
        ``hf config.json``.
    architecture: Dimensions, if it is a language model; its samples are then sequences.
    """

    name: str
    title: str
    family: str
    module: torch.nn.Module
    batch: Callable[[int, torch.device], Any]
    loss: Callable[[torch.nn.Module, Any], torch.Tensor]
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]
    target_batch_size: int | None = None
    microbatch: int | None = None
    samples: Iterable[Any] | None = None
    source: str = ""
    architecture: Architecture | None = None

    def sample(self, device: torch.device) -> str | None:
        """Say what one sample is: ``an input of 3 x 224 x 224``; None if the rows of a batch's
        first tensor are not its samples.
        """
        if self.architecture is not None:
            return f"{self.architecture.sequence_length:,} tokens"
        first = self.batch(BATCH, device)
        while isinstance(first, Mapping | list | tuple) and first:
            first = next(iter(first.values() if isinstance(first, Mapping) else first))
        shape = tuple(getattr(first, "shape", ()))
        if len(shape) < 2 or shape[0] != BATCH:
            return None
        integers = " integers" if "int" in str(getattr(first, "dtype", "")) else ""
        return f"an input of {' x '.join(f'{size:,}' for size in shape[1:])}{integers}"


@dataclass(frozen=True, kw_only=True)
class StepFunction:
    """A user's function that trains one batch of n samples: only whole steps can be timed.

    name, source: As of a `Workload`.
    run: ``step(batch_size)``; what it returns is ignored.
    module: The model that it trains, if it says so in its attribute ``module``.
    """

    name: str
    source: str
    run: Callable[[int], Any]
    module: Any | None = None


def check_loss(workload: Workload, loss: Any) -> None:
    """Refuse a loss that is no scalar, or that no gradient can be taken of."""
    kind = type(loss).__name__
    if isinstance(loss, load_torch().Tensor):
        if loss.numel() == 1 and loss.requires_grad:
            return
        without = "" if loss.requires_grad else " without a gradient"
        kind = f"a tensor of shape {tuple(loss.shape)}{without}"
    raise PlacerError(
        f"the loss of {workload.source or workload.name} is {kind}",
        "return a scalar that has a gradient",
    )
