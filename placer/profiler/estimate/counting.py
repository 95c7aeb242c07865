"""What PyTorch runs on a GPU where the meta device would run something else: fused attention and
dropout, and the casts of autocast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.profiler.estimate.counters import Kept, flop_counter, traffic_counter
from placer.profiler.estimate.throughput import COUNTED, HALF, Work
from placer.profiler.torch_import import in_one_line, torch
from placer.profiler.workload import check_loss, twin_on
from placer.records import replace

if TYPE_CHECKING:
    from placer.profiler.workload import Workload


HALF_NAMES = (
    "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d matmul mm mv "
    "bmm addmm addmv addbmm baddbmm einsum lstm gru rnn_tanh rnn_relu"
)
"""Functions that autocast runs in half precision, and those below in FP32: PyTorch's list, of which
ops that training hardly uses are left out.
"""
FULL_NAMES = (
    "layer_norm group_norm softmax log_softmax exp expm1 log log10 log2 log1p pow sum prod cumsum "
    "cumprod norm rsqrt reciprocal renorm dist cdist cosine_similarity kl_div "
    "binary_cross_entropy_with_logits"
)
FULL_LOSSES = (
    "cross_entropy_loss nll_loss_nd mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss "
    "softplus"
)
IN_PYTHON = (
    "multi_head_attention_forward dropout softmax log_softmax layer_norm group_norm normalize "
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss kl_div "
    "binary_cross_entropy_with_logits"
)
"""Functions of `torch.nn.functional` that are written in Python: their insides are watched, too."""
CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def as_on_gpu(precision: str = "fp32") -> Any:
    """Make a mode in which functions of PyTorch on the meta device run as they would on a GPU.
    `scaled_dot_product_attention` writes no product of all tokens with all tokens, unless the user
    has switched off what does without (`torch.backends.cuda.enable_flash_sdp(False)` and
    `enable_mem_efficient_sdp(False)`). Dropout is one kernel.

    precision: ``fp16`` or ``bf16``: as under `torch.autocast`, which has no meta device; others: no
        casts.
    """
    from torch.overrides import TorchFunctionMode

    mode: Any = TorchFunctionMode
    fused = {**_fused_attention(), torch.dropout: _dropout}
    cast = _casts(precision)
    functions = [getattr(torch.nn.functional, name) for name in IN_PYTHON.split()]
    inside = {func: _without_checks(func) for func in [*functions, torch.einsum, torch.norm]}

    class OnGpu(mode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            args, kwargs = cast(func, args, kwargs or {})
            if func in fused:
                return fused[func](*args, **kwargs)
            if func in inside:
                with self:
                    return inside[func](*args, **kwargs)
            return func(*args, **kwargs)

    return OnGpu()


def _without_checks(func: FunctionType) -> FunctionType:
    """Copy a function that does not ask modes whether they take it: it would come back for ever."""
    own = {**func.__globals__, **dict.fromkeys(CHECKS, lambda *_: False)}
    copy = FunctionType(func.__code__, own, func.__name__, func.__defaults__, func.__closure__)
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


def _casts(precision: str) -> Callable[..., tuple[Any, Any]]:
    """Return what casts the arguments of a function as autocast does; a weight is cast once."""
    from torch.utils._pytree import tree_map

    if precision not in ("fp16", "bf16"):
        return lambda func, args, kwargs: (args, kwargs)
    half = torch.float16 if precision == "fp16" else torch.bfloat16
    low, full = _functions(HALF_NAMES, "linear"), _functions(FULL_NAMES, FULL_LOSSES)
    low |= {torch.nn.functional.scaled_dot_product_attention, torch.Tensor.__rmatmul__}
    low |= {torch.Tensor.__matmul__}
    full |= {torch.Tensor.__pow__}
    weights: dict[int, Any] = {}

    def lower(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        if not (value.is_leaf and value.requires_grad):
            return value.to(half)
        if id(value) not in weights:
            weights[id(value)] = value.to(half), value  # held, so that no other gets its address
        return weights[id(value)][0]

    def raised(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and value.dtype == half else value

    def cast(func: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        wanted = lower if func in low else raised if func in full else None
        return (args, kwargs) if wanted is None else tree_map(wanted, (args, kwargs))

    return cast


def _functions(names: str, of_nn: str) -> set[Any]:
    """Find functions by their names, as methods of tensors, too; the second in torch._C._nn."""
    places = (torch, torch.Tensor, torch._C._VariableFunctions)
    found = {getattr(place, name, None) for place in places for name in names.split()}
    found |= {getattr(torch._C._nn, name, None) for name in of_nn.split()}
    return {func for func in found if func is not None and not isinstance(func, FunctionType)}


def _fused_attention() -> Mapping[Any, Any]:
    """Attention that keeps no product of all tokens with all tokens; nothing where it is off."""
    allowed = torch.backends.cuda
    if not (allowed.flash_sdp_enabled() or allowed.mem_efficient_sdp_enabled()):
        return {}
    attention = torch.nn.functional.scaled_dot_product_attention

    def fused(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        **more: Any,
    ) -> Any:
        if query.dim() != 4 or query.device.type != "meta":
            more["scale"] = scale
            return attention(query, key, value, attn_mask, dropout_p, is_causal, **more)
        if more.get("enable_gqa"):
            key, value = (_each_head(part, query.shape[1]) for part in (key, value))
        if attn_mask is not None:
            if attn_mask.dtype != query.dtype:
                attn_mask = attn_mask.to(query.dtype)
            attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale
        )[0]

    return {attention: fused}


def _each_head(part: Any, heads: int) -> Any:
    """Repeat keys or values of grouped queries, so that each query has its own."""
    samples, groups, tokens, width = part.shape
    shared = part.unsqueeze(2).expand(samples, groups, heads // groups, tokens, width)
    return shared.reshape(samples, heads, tokens, width)


def _dropout(x: Any, p: float = 0.5, train: bool = True) -> Any:
    """Drop elements in one kernel, and keep one byte of each for backward."""
    if not train or p in (0.0, 1.0):
        return torch.dropout(x, p, train)
    return torch.ops.aten.native_dropout(x, p, train)[0]


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


def said_plainly(workload: Workload) -> AbstractContextManager[None]:
    """Turn what a user's code raises on the meta device into one line."""
    return in_one_line(
        f"{workload.name} cannot be counted on the meta device",
        "tensors have no values there: a loss that needs them (.item(), shapes by data) can "
        "only be measured, without --estimate",
    )
