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
from placer.profiler.estimate.meta_twin import meta_twin
from placer.profiler.estimate.work import COUNTED, HALF, Work
from placer.profiler.steps.training_step import check_loss
from placer.profiler.target.torch_import import load_torch

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One forward and backward pass.

    Parameters
    ----------
    flops, grouped_flops, blocked_flops
        Floating point operations, a multiply-add counts as two; those of convolutions in groups
        stand apart as well, without and with tensor cores.
    moved_bytes, kernels
        Bytes that kernels read and write, and how many kernels the host launches: those inside
        recurrent layers are left out.
    product_bytes, relaid_bytes
        Shares of matrix products and dense convolutions, and of the activations of dense
        convolutions that are not channels last.
    activation_bytes, largest_bytes
        Bytes that forward keeps for backward, and the largest result of one kernel.
    """

    flops: float
    grouped_flops: float
    moved_bytes: float
    kernels: float
    activation_bytes: float
    largest_bytes: float
    product_bytes: float = 0.0
    relaid_bytes: float = 0.0
    blocked_flops: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What a microbatch takes: a share of each sample and a share of each step; and bytes of
    parameters and buffers.

    ``matrix_elements`` are FP32 parameters with two dimensions or more: autocast keeps a copy of
    these in half precision. ``half`` is whether the model itself is in half precision, and then so
    are the bytes that were counted.
    """

    per_sample: Pass
    per_step: Pass
    parameter_bytes: int
    buffer_bytes: int
    matrix_elements: int
    half: bool = False

    def of(self, samples: int) -> Pass:
        """Count forward and backward of one microbatch."""
        return Pass(
            **{
                name: getattr(self.per_step, name) + samples * getattr(self.per_sample, name)
                for name in Pass.__slots__
            }
        )

    def work(self, samples: int) -> Work:
        """Return the work of one microbatch in FP32, for the throughput estimate."""
        step, scale = self.of(samples), 2 if self.half else 1
        return Work(
            samples=samples,
            **{
                name: getattr(step, name) * (scale if name.endswith("bytes") else 1)
                for name in COUNTED
            },
        )


def count_work(workload: Workload, samples: int, precision: str) -> Work:
    """Count the work of a microbatch of so many samples on the meta device.

    Parameters
    ----------
    workload
        The model; it is neither moved nor changed.
    samples
        Samples of the microbatch: how large tensors are decides which of them caches hold.
    precision
        ``fp16`` or ``bf16``: as under autocast, if the model is in FP32; others: as the model is.

    Raises
    ------
    PlacerError
        If the model cannot run there, or not with so few samples.
    """
    with said_plainly(workload):
        twin = meta_twin(workload.module)
        half = _is_half(twin)
        step = _pass(workload, twin, samples, "fp32" if half else precision)
    figures = {name: getattr(step, name) for name in COUNTED}
    return Work(samples=samples, half=half or precision in HALF, **figures)


def count(workload: Workload) -> Counts:
    """Count a workload on the meta device; nothing is computed and no memory is taken.

    Raises
    ------
    PlacerError
        If the model cannot run there: its forward pass looks at values, or uses tensors that it has
        not registered.
    """
    with said_plainly(workload):
        twin = meta_twin(workload.module)
        first, second = (_pass(workload, twin, samples, "fp32") for samples in BATCHES)
    parameters = list(twin.parameters())
    each, fixed = _line(first, second)
    return Counts(
        per_sample=each,
        per_step=fixed,
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
        buffer_bytes=sum(b.numel() * b.element_size() for b in twin.buffers()),
        matrix_elements=sum(
            p.numel() for p in parameters if p.dim() > 1 and p.element_size() == FP32_BYTES
        ),
        half=_is_half(twin),
    )


def _is_half(module: torch.nn.Module) -> bool:
    return any(p.element_size() * 2 == FP32_BYTES for p in module.parameters())


def _line(first: Pass, second: Pass) -> tuple[Pass, Pass]:
    """Share of each sample and of each step; neither below 0."""
    few, many = BATCHES
    each, fixed = {}, {}
    for name in Pass.__slots__:
        here, there = getattr(first, name), getattr(second, name)
        each[name] = max(0.0, (there - here) / (many - few))
        fixed[name] = max(0.0, here - few * each[name])
    return Pass(**each), Pass(**fixed)


def _pass(workload: Workload, twin: torch.nn.Module, samples: int, precision: str) -> Pass:
    """Run forward and backward over some samples."""
    torch = load_torch()
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
            as_on_gpu(precision),
        ):
            loss: Any = workload.loss(twin, batch)
            check_loss(workload, loss)
        launched = 1 - fused[0] / max(1, traffic.kernels)
        loss.backward()
    return Pass(
        flops=float(flops.get_total_flops()),
        grouped_flops=float(traffic.grouped_flops),
        blocked_flops=float(traffic.blocked_flops),
        moved_bytes=float(traffic.moved_bytes),
        product_bytes=float(traffic.product_bytes),
        relaid_bytes=float(traffic.relaid_bytes),
        kernels=launched * traffic.kernels,
        activation_bytes=float(kept.bytes),
        largest_bytes=float(traffic.largest_bytes),
    )


@contextmanager
def _recurrent(twin: torch.nn.Module, traffic: Any) -> Iterator[list[int]]:
    """Count the kernels of recurrent layers apart, as the first of a list.

    Notes
    -----
    The meta device takes an LSTM apart into kernels of each time step, which cuDNN runs in one
    call: the host launches none of them. They are left out, in backward by their share in forward.
    FLOPs and bytes of the steps stay.
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
        reason = ": ".join(
            filter(None, (type(error).__name__, next(iter(str(error).strip().splitlines()), "")))
        )
        raise PlacerError(
            f"{workload.name} cannot be counted on the meta device: {reason[:200]}",
            "tensors have no values there: a loss that needs them (.item(), shapes by data) can "
            "only be measured, without --estimate",
        ) from error
