"""What the profiler measures: a model with batches, loss and optimizer, or a function that takes
steps.

The functions of users import `Workload` from here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from placer.errors import PlacerError
from placer.profiler.torch_import import in_one_line, torch
from placer.units import counted
from placer.workload.architecture import Architecture

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

    module: The model, on the CPU (or the meta device).
    loss: Scalar loss of the module on a batch; the forward pass.
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
    if isinstance(loss, torch.Tensor):
        if loss.numel() == 1 and loss.requires_grad:
            return
        without = "" if loss.requires_grad else " without a gradient"
        kind = f"a tensor of shape {tuple(loss.shape)}{without}"
    raise PlacerError(
        f"the loss of {workload.source or workload.name} is {kind}",
        "return a scalar that has a gradient",
    )


FP32_BYTES = 4
SAMPLES = 2
"""Batch that gives lazy modules their shapes; one sample is too few for batch norm on features
without width and height.
"""


@dataclass(frozen=True, kw_only=True)
class GradientSizes:
    """Gradients of one training step. Every tensor counts once, however often the model uses it
    (tied weights).

    trainable, tensors: Elements and tensors that can have a gradient: what is exchanged.
        DistributedDataParallel reduces all of them (with ``find_unused_parameters=True`` also those
        that the step did not use, as zeros; without it, it stops with an error), and hivemind's
        GradientAverager fills those without a gradient with zeros before it averages. Gloo sends of
        sparse gradients the rows of the batch alone.
    bytes_fp32: Bytes of the trainable elements at 4 bytes each, 8 if complex: S of the formulas
        without compression.
    bytes_native: The same in the types that the parameters have: what an all-reduce of them is
        handed.
    """

    parameters: int
    trainable: int
    tensors: int
    bytes_fp32: int
    bytes_native: int
    notes: tuple[str, ...] = ()


def gradient_sizes(workload: Workload) -> GradientSizes:
    """Count the gradients of a step; nothing is run, but once a model with lazy modules. Raises
    `PlacerError` if nothing can be trained, or the first batch of lazy modules fails.
    """
    if any(torch.nn.parameter.is_lazy(p) for p in workload.module.parameters()):
        words = f"model '{workload.name}' fails with {SAMPLES} samples on cpu"
        with in_one_line(words, "correct the model, its batches or its loss"), torch.no_grad():
            workload.loss(workload.module, workload.batch(SAMPLES, torch.device("cpu")))
    return sizes_of_module(workload.module, f"model '{workload.name}'")


def sizes_of_module(module: Any, words: str) -> GradientSizes:
    """Count the gradients of a module that some words name. Raises `PlacerError` if nothing can be
    trained.
    """
    parameters = list(module.parameters())
    trainable = [p for p in parameters if p.requires_grad]
    frozen = [p for p in parameters if not p.requires_grad]
    if not trainable:
        raise PlacerError(
            f"{words} has no trainable parameter", "leave requires_grad of some parameters true"
        )
    uses = sum(1 for _ in module.named_parameters(remove_duplicate=False)) - len(parameters)
    kinds = sorted({str(p.dtype).removeprefix("torch.") for p in trainable})
    notes = []
    if uses:
        notes.append(f"{counted(uses, 'tied use')} of a tensor: each tensor is exchanged once")
    if frozen:
        notes.append(
            f"{counted(len(frozen), 'frozen tensor')} ({_elements(frozen):,} parameters) not "
            f"exchanged; hivemind sends what its optimizer is given"
        )
    if kinds != ["float32"]:
        notes.append(f"parameters are {', '.join(kinds)}: bytes_native counts their own sizes")
    return GradientSizes(
        parameters=_elements(parameters),
        trainable=_elements(trainable),
        tensors=len(trainable),
        bytes_fp32=sum(p.numel() * FP32_BYTES * (2 if p.is_complex() else 1) for p in trainable),
        bytes_native=sum(int(p.numel() * p.element_size()) for p in trainable),
        notes=tuple(notes),
    )


def _elements(tensors: list[Any]) -> int:
    return sum(int(tensor.numel()) for tensor in tensors)


def twin_on(module: torch.nn.Module, device: torch.device | str) -> torch.nn.Module:
    """Copy a model to a device; the model itself stays where and as it is. On the meta device the
    copy has no numbers and takes no memory. `copy.deepcopy` takes tensors that its memo knows from
    there, so a parameter that two modules share (tied weights) is shared in the twin, and no second
    copy of the weights is ever made.
    """
    known: dict[int, Any] = {}
    for part in module.modules():
        for value in [*part._parameters.values(), *part._buffers.values(), *vars(part).values()]:
            if isinstance(value, torch.Tensor) and id(value) not in known:
                there = value.detach().to(device)
                if isinstance(value, torch.nn.Parameter):
                    there = torch.nn.Parameter(there, requires_grad=value.requires_grad)
                elif value.is_leaf:
                    there.requires_grad_(value.requires_grad)
                known[id(value)] = there
    return copy.deepcopy(module, known)
