"""What PyTorch runs on a GPU where the meta device would run something else: fused attention and
dropout, and the casts of autocast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from placer.profiler.torch_import import load_torch

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
    torch: Any = load_torch()
    from torch.overrides import TorchFunctionMode

    mode: Any = TorchFunctionMode
    fused = {**_fused_attention(torch), torch.dropout: _dropout}
    cast = _casts(torch, precision)
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


def _casts(torch: Any, precision: str) -> Callable[..., tuple[Any, Any]]:
    """Return what casts the arguments of a function as autocast does; a weight is cast once."""
    from torch.utils._pytree import tree_map

    if precision not in ("fp16", "bf16"):
        return lambda func, args, kwargs: (args, kwargs)
    half = torch.float16 if precision == "fp16" else torch.bfloat16
    low, full = _functions(torch, HALF_NAMES, "linear"), _functions(torch, FULL_NAMES, FULL_LOSSES)
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


def _functions(torch: Any, names: str, of_nn: str) -> set[Any]:
    """Find functions by their names, as methods of tensors, too; the second in torch._C._nn."""
    places = (torch, torch.Tensor, torch._C._VariableFunctions)
    found = {getattr(place, name, None) for place in places for name in names.split()}
    found |= {getattr(torch._C._nn, name, None) for name in of_nn.split()}
    return {func for func in found if func is not None and not isinstance(func, FunctionType)}


def _fused_attention(torch: Any) -> Mapping[Any, Any]:
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
    torch: Any = load_torch()
    if not train or p in (0.0, 1.0):
        return torch.dropout(x, p, train)
    return torch.ops.aten.native_dropout(x, p, train)[0]
