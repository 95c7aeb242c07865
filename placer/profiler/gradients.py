"""What one training step of a model has to exchange: its gradients, counted as they arrive."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import Workload, check_loss
from placer.records import replace
from placer.units import counted

if TYPE_CHECKING:
    import torch

FP32_BYTES = 4
SAMPLES = 2
"""Batch of the step that is counted; one sample is too few for batch norm on features without width
and height.
"""


@dataclass(frozen=True, kw_only=True)
class GradientSizes:
    """Gradients of one training step. Every tensor counts once, however often the model uses it
    (tied weights).

    Parameters
    ----------
    parameters
        Elements of all parameters, frozen ones too.
    trainable, tensors
        Elements and tensors that can have a gradient: what is exchanged. DistributedDataParallel
        reduces all of them (with ``find_unused_parameters=True`` also those that the step did not
        use, as zeros; without it, it stops with an error), and hivemind's GradientAverager fills
        those without a gradient with zeros before it averages.
    bytes_fp32
        Bytes of the trainable elements at 4 bytes each, 8 if complex: S of the formulas without
        compression.
    bytes_native
        The same in the types that the parameters have: what an all-reduce of them is handed if all
        are dense.
    notes
        What is worth knowing, in words.
    """

    parameters: int
    trainable: int
    tensors: int
    bytes_fp32: int
    bytes_native: int
    notes: tuple[str, ...] = ()


Arrived = dict[str, bool]
"""Gradients that arrived, by name, and whether they are sparse."""


def gradient_sizes(workload: Workload, device: torch.device) -> GradientSizes:
    """Run one step forward and backward and count its gradients; weights, gradients and statistics
    stay as they were.

    Parameters
    ----------
    workload
        The model. If it is not on ``device``, a copy is counted there.
    device
        Where to run the step. On the meta device nothing is calculated; a model that needs values
        (``.item()``, shapes that depend on data) is then counted by its parameters, and a note says
        so.

    Raises
    ------
    PlacerError
        If nothing can be trained, or the step fails (not on the meta device).
    """
    torch = load_torch()
    device = torch.device(device)
    with _said_of(workload, torch.device("cpu")):
        _shape_lazy_parameters(workload)
    declared = _declared(workload.module)
    if not declared.trainable:
        raise PlacerError(
            f"model '{workload.name}' has no trainable parameter",
            "leave requires_grad of some parameters true",
        )
    try:
        with _said_of(workload, device):
            tensors = [*workload.module.parameters(), *workload.module.buffers()]
            there = all(
                t.device.type == device.type and device.index in {None, t.device.index}
                for t in tensors
            )
            module = workload.module if there else twin_on(workload.module, device)
            arrived = _step(workload, module, device)
    except PlacerError as error:
        if device.type != "meta":
            raise
        why = f"counted by its parameters, without a step: {error.message}"
        return replace(declared, notes=(why, *declared.notes))
    return _counted(workload, declared, arrived)


@contextmanager
def _said_of(workload: Workload, device: torch.device) -> Iterator[None]:
    """Say in one line what goes wrong in the user's model, and with which batch."""
    try:
        yield
    except (PlacerError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also sys.exit
        reason = next(iter(str(error).splitlines()), "")[:200]
        what = (
            f"model '{workload.name}' fails with {SAMPLES} samples on {device}: "
            f"{type(error).__name__}: {reason}"
        )
        raise PlacerError(what, "correct the model, its batches or its loss") from error


def _declared(module: torch.nn.Module) -> GradientSizes:
    """Count what the parameters declare, before a step."""
    parameters = list(module.parameters())
    trainable = [p for p in parameters if p.requires_grad]
    frozen = [p for p in parameters if not p.requires_grad]
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
    if kinds and kinds != ["float32"]:
        notes.append(f"parameters are {', '.join(kinds)}: bytes_native counts their own sizes")
    return GradientSizes(
        parameters=_elements(parameters),
        trainable=_elements(trainable),
        tensors=len(trainable),
        bytes_fp32=sum(p.numel() * FP32_BYTES * (2 if p.is_complex() else 1) for p in trainable),
        bytes_native=sum(map(_native_bytes, trainable)),
        notes=tuple(notes),
    )


def _counted(workload: Workload, declared: GradientSizes, arrived: Arrived) -> GradientSizes:
    """Add to what is declared notes about what arrived."""
    parameters = dict(workload.module.named_parameters())
    if not arrived:
        raise PlacerError(
            f"no parameter of model '{workload.name}' gets a gradient",
            "its loss must use the module that it is given",
        )
    notes = list(declared.notes)
    if len(arrived) < declared.tensors:
        idle = sorted({n for n, p in parameters.items() if p.requires_grad} - arrived.keys())
        some = ", ".join(name if name.isprintable() else ascii(name) for name in idle[:3])
        notes.append(
            f"{counted(len(idle), 'tensor')} without a gradient "
            f"({some}{' ...' if len(idle) > 3 else ''}): frameworks exchange zeros; "
            f"DistributedDataParallel needs find_unused_parameters=True"
        )
    if sparse := sum(arrived.values()):
        notes.append(
            f"{counted(sparse, 'sparse gradient')}: gloo sends the rows of a batch, hivemind whole "
            f"tensors"
        )
    return replace(declared, notes=tuple(notes))


def _elements(tensors: list[Any]) -> int:
    return sum(int(tensor.numel()) for tensor in tensors)


def _native_bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _step(workload: Workload, module: torch.nn.Module, device: torch.device) -> Arrived:
    """Run forward and backward; what arrived at each parameter, in the order of the module."""
    torch = load_torch()
    arrived: Arrived = {}

    def hook(name: str) -> Any:
        def note(parameter: Any) -> None:
            arrived[name] = parameter.grad.is_sparse

        return note

    parameters: dict[str, Any] = {
        name: p for name, p in module.named_parameters() if p.requires_grad
    }
    with (
        _unchanged(module),
        torch.random.fork_rng([device] if device.type == "cuda" else []),
        torch.enable_grad(),
    ):
        handles = [
            p.register_post_accumulate_grad_hook(hook(name)) for name, p in parameters.items()
        ]
        try:
            loss: Any = workload.loss(module, workload.batch(SAMPLES, device))
            check_loss(workload, loss)
            loss.backward()
        finally:
            for handle in handles:
                handle.remove()
    return {name: arrived[name] for name in parameters if name in arrived}


@contextmanager
def _unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Give gradients and buffers (running statistics) back after a step."""
    gradients = [(p, p.grad) for p in module.parameters()]
    buffers = [(b, b.detach().clone()) for b in module.buffers()]
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        with load_torch().no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def twin_on(module: torch.nn.Module, device: torch.device | str) -> torch.nn.Module:
    """Copy a model to a device; the model itself stays where and as it is. On the meta device the
    copy has no numbers and takes no memory.

    Notes
    -----
    `copy.deepcopy` takes tensors that its memo knows from there, so a parameter that two modules
    share (tied weights) is shared in the twin, and no second copy of the weights is ever made.
    """
    torch: Any = load_torch()
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


def _shape_lazy_parameters(workload: Workload) -> None:
    """Give lazy modules their shapes by a first batch."""
    torch = load_torch()
    if any(torch.nn.parameter.is_lazy(p) for p in workload.module.parameters()):
        with torch.no_grad():
            workload.loss(workload.module, workload.batch(SAMPLES, torch.device("cpu")))
