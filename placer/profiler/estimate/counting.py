"""What one step of a model takes, counted on the meta device: FLOPs, bytes moved, kernels,
activations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.profiler.estimate.counters import Kept, flop_counter, traffic_counter
from placer.profiler.estimate.gpu_kernels import as_on_gpu
from placer.profiler.estimate.work import COUNTED, HALF, Work
from placer.profiler.gradients import twin_on
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import check_loss
from placer.records import replace

if TYPE_CHECKING:
    import torch

    from placer.profiler.workload import Workload

BATCHES = (16, 64)
"""Batches that are counted: a straight line through both gives what each sample and what each step
takes.

As large as microbatches are, so that the largest result of a kernel is an activation where it will
be one; nothing is computed anyway.
"""
FP32_BYTES = 4
ALL_COUNTED = (*COUNTED, "activation_bytes", "largest_bytes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What a microbatch takes: a share of each sample and a share of each step; and bytes of
    parameters and buffers. ``matrix_elements`` are FP32 parameters with two dimensions or more:
    autocast keeps a copy of these in half precision.
    """

    per_sample: Work
    per_step: Work
    parameter_bytes: int
    buffer_bytes: int
    matrix_elements: int

    @property
    def half(self) -> bool:
        """Whether the model itself is in half precision, and with it the bytes."""
        return self.per_step.half

    def of(self, samples: int) -> Work:
        """Return the work of one microbatch, as the model is."""
        each, fixed = self.per_sample, self.per_step
        figures = {n: getattr(fixed, n) + samples * getattr(each, n) for n in ALL_COUNTED}
        return replace(fixed, samples=samples, **figures)


def count_work(workload: Workload, samples: int, precision: str) -> Work:
    """Count the work of a microbatch of so many samples on the meta device. Raises `PlacerError` if
    the model cannot run there, or not with so few samples.

    samples: Samples of the microbatch: how large tensors are decides which of them caches hold.
    precision: ``fp16`` or ``bf16``: as under autocast, if the model is in FP32; others: as the
        model is.
    """
    with said_plainly(workload):
        return _pass(workload, twin_on(workload.module, "meta"), samples, precision)


def count(workload: Workload) -> Counts:
    """Count a workload on the meta device; nothing is computed and no memory is taken. Raises
    `PlacerError` if the model cannot run there: its forward pass looks at values, or uses tensors
    that it has not registered.
    """
    few, many = BATCHES
    with said_plainly(workload):
        twin = twin_on(workload.module, "meta")
        first, second = (_pass(workload, twin, samples, "fp32") for samples in BATCHES)
    each, fixed = {}, {}
    for name in ALL_COUNTED:  # a share of neither is below 0
        here = getattr(first, name)
        each[name] = max(0.0, (getattr(second, name) - here) / (many - few))
        fixed[name] = max(0.0, here - few * each[name])
    parameters = list(twin.parameters())
    return Counts(
        per_sample=replace(first, samples=1, **each),
        per_step=replace(first, samples=0, **fixed),
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
        buffer_bytes=sum(b.numel() * b.element_size() for b in twin.buffers()),
        matrix_elements=sum(
            p.numel() for p in parameters if p.dim() > 1 and p.element_size() == FP32_BYTES
        ),
    )


def _pass(workload: Workload, twin: torch.nn.Module, samples: int, precision: str) -> Work:
    """Run forward and backward over some samples."""
    torch = load_torch()
    half = any(p.element_size() * 2 == FP32_BYTES for p in twin.parameters())
    twin.zero_grad(set_to_none=True)
    kept = Kept([*twin.parameters(), *twin.buffers()])
    batch = workload.batch(samples, torch.device("meta"))
    with (
        torch.enable_grad(),
        flop_counter() as flops,
        traffic_counter(twin.parameters()) as traffic,
    ):
        with (
            torch.autograd.graph.saved_tensors_hooks(kept.keep, lambda tensor: tensor),
            _recurrent(twin, traffic) as fused,
            as_on_gpu("fp32" if half else precision),
        ):
            loss: Any = workload.loss(twin, batch)
            check_loss(workload, loss)
        launched = 1 - fused[0] / max(1, traffic.kernels)
        loss.backward()
    if all(p.grad is None for p in twin.parameters()):
        raise PlacerError(
            f"no parameter of model '{workload.name}' gets a gradient",
            "its loss must use the module that it is given",
        )
    names = ("grouped_flops", "blocked_flops", "moved_bytes", "product_bytes", "relaid_bytes")
    return Work(
        samples=samples,
        flops=float(flops.get_total_flops()),
        kernels=launched * traffic.kernels,
        activation_bytes=float(kept.bytes),
        largest_bytes=float(traffic.largest_bytes),
        half=half or precision in HALF,
        **{name: float(getattr(traffic, name)) for name in names},
    )


@contextmanager
def _recurrent(twin: torch.nn.Module, traffic: Any) -> Iterator[list[int]]:
    """Count the kernels of recurrent layers apart, as the first of a list. The meta device takes an
    LSTM apart into kernels of each time step, which cuDNN runs in one call: the host launches none
    of them. They are left out, in backward by their share in forward. FLOPs and bytes of the steps
    stay.
    """
    torch: Any = load_torch()
    fused, before = [0], [0]

    def enter(*_: Any) -> None:
        before.append(traffic.kernels)

    def leave(*_: Any) -> None:
        fused[0] += traffic.kernels - before.pop()

    layers = [layer for layer in twin.modules() if isinstance(layer, torch.nn.RNNBase)]
    handles = [
        handle
        for layer in layers
        for handle in (layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave))
    ]
    try:
        yield fused
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def said_plainly(workload: Workload) -> Iterator[None]:
    """Turn what a user's code raises on the meta device into one line."""
    try:
        yield
    except (PlacerError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also sys.exit, which would end placer without a word
        first = next(iter(str(error).strip().splitlines()), "")
        reason = ": ".join(filter(None, (type(error).__name__, first)))
        raise PlacerError(
            f"{workload.name} cannot be counted on the meta device: {reason[:200]}",
            "tensors have no values there: a loss that needs them (.item(), shapes by data) can "
            "only be measured, without --estimate",
        ) from error
