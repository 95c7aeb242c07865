"""Counters that watch a step: FLOPs, bytes that kernels move, bytes that forward keeps for
backward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from placer.profiler.torch_import import torch

NO_KERNEL = frozenset(
    {
        "empty",
        "empty_like",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "detach",
        "lift_fresh",
        "_local_scalar_dense",
        "_unsafe_view",
    }
)
"""Operations that write nothing."""
PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm"})
ATTENTION = "_scaled_dot_product"
"""How the names of fused attention begin."""
PICKING = frozenset({"embedding", "index_select", "gather", "index"})
"""Operations that read as much of their first argument as they write."""
READ_TWICE = {
    "native_batch_norm": (0,),
    "native_batch_norm_backward": (0, 1),
    "native_group_norm": (0,),
    "native_group_norm_backward": (0, 1),
}
"""Arguments that normalisations read twice: for mean and variance first, then for the result."""
CACHED_BYTES, FROM_MEMORY = 12e6, 1 / 3
"""Size from which a tensor comes from memory, and the share of the smallest that does: seen in
public speeds. Caches hold 4 to 6 MB; 40 MB and more on the newest data centre GPUs.
"""
BLOCKS = (4, 8, 16, 32)
BLOCKS_FILL = 64
"""Channels of a group for which cuDNN has kernels with tensor cores in channels last, where the
groups fill a multiple of 64 channels, as many in as out: seen in public speeds.
"""


def flop_counter() -> Any:
    """Make torch's counter of FLOPs, with the backward pass of grouped convolutions put right.
    torch 2.13 counts the weight gradient of a convolution in g groups g times: ConvNeXt Large, with
    depthwise ones, comes to three times its FLOPs. Each gradient takes as many multiply-adds as the
    forward pass; what fused attention calculates again in backward is left out.
    """
    from torch.utils.flop_counter import FlopCounterMode

    def convolution(x: Any, w: Any, *rest: Any, out_shape: Any) -> int:
        transposed = rest[4]
        return int(2 * math.prod(x if transposed else out_shape) * math.prod(w[1:]))

    def backward(g: Any, x: Any, w: Any, *rest: Any, out_shape: Any) -> int:
        transposed, wanted = rest[4], sum(map(bool, rest[7][:2]))
        return int(2 * math.prod(x if transposed else g) * math.prod(w[1:]) * wanted)

    def attention_backward(g: Any, q: Any, k: Any, v: Any, *rest: Any, **_: Any) -> int:
        pairs = math.prod(q[:-1]) * k[-2]
        return int(4 * pairs * (q[-1] + v[-1]))

    aten = torch.ops.aten
    return FlopCounterMode(
        display=False,
        custom_mapping={
            aten.convolution: convolution,
            aten.convolution_backward: backward,
            aten._scaled_dot_product_efficient_attention_backward: attention_backward,
        },
    )


def traffic_counter(weights: Iterable[torch.Tensor] = ()) -> Any:
    """Make a mode that counts kernels and the bytes that each reads and writes, as if every one
    went to memory. Views and other operations that touch no element are left out. A kernel reads
    each argument once and writes each result once: true of eager PyTorch up to caches, which make
    it less. Those that are known to read twice, or a part, are counted so (`READ_TWICE`,
    `PICKING`), and the two gradients of a convolution as two kernels that read the same. Of small
    tensors, which the next kernel reads, the most stays in the cache (`CACHED_BYTES`); ``weights``
    do not, as each is read once a pass. ``product_bytes`` are those of matrix products and dense
    convolutions, which calculate meanwhile; ``relaid_bytes`` those of the activations of dense
    convolutions that are not channels last. ``grouped_flops`` and ``blocked_flops`` are FLOPs of
    convolutions in groups: without and with tensor cores.
    """
    own = {_storage(tensor): tensor for tensor in weights}  # held, as in `Kept`
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    mode: Any = TorchDispatchMode

    class Traffic(mode):  # type: ignore[misc]
        kernels = 0
        moved_bytes = 0.0
        largest_bytes = 0
        product_bytes = 0.0
        relaid_bytes = 0.0
        grouped_flops = 0
        blocked_flops = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            written = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
            if not written or _writes_nothing(func):
                return result
            read = {id(t): t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
            name = func.overloadpacket.__name__
            self.kernels += 1
            self.largest_bytes = max(self.largest_bytes, *map(_touched_bytes, written))
            if name in ("convolution", "convolution_backward"):
                self.convolve(name, args, written)
                return result
            moved = sum(map(self.moved, written)) + sum(map(self.moved, read.values()))
            if name in PICKING:
                moved += self.moved(written[0]) - self.moved(args[0])
            moved += sum(self.moved(args[place]) for place in READ_TWICE.get(name, ()))
            self.moved_bytes += moved
            self.product_bytes += moved if name in PRODUCTS or name.startswith(ATTENTION) else 0
            return result

        def moved(self, tensor: Any) -> float:
            """Count the bytes of a tensor that come from or go to memory."""
            size = _touched_bytes(tensor)
            if _storage(tensor) in own:
                return size
            return size * min(1.0, max(FROM_MEMORY, size / CACHED_BYTES))

        def convolve(self, name: str, args: Any, written: list[Any]) -> None:
            """Count a convolution, or the gradients of one that are wanted."""
            forward = name == "convolution"
            x, weight, groups = (args[0], args[1], args[8]) if forward else (*args[1:3], args[9])
            out, times = (written[0], 1) if forward else (args[0], sum(map(bool, args[10][:2])))
            activations = times * (self.moved(x) + self.moved(out))
            moved = activations + times * self.moved(weight)
            self.moved_bytes += moved
            channels_last = _is_channels_last(weight) or _is_channels_last(x)
            if groups == 1:
                self.product_bytes += moved
                self.relaid_bytes += 0 if channels_last or x.dim() != 4 else activations
                return
            transposed = args[6] if forward else args[7]
            flops = 2 * times * (x if transposed else out).numel() * math.prod(weight.shape[1:])
            if _has_tensor_cores(weight, groups, channels_last):
                self.blocked_flops += flops
            else:
                self.grouped_flops += flops

    return Traffic()


class Kept:
    """Bytes that forward keeps for backward: each storage once; ``known`` tensors (parameters and
    buffers) are left out.
    """

    def __init__(self, known: list[torch.Tensor]) -> None:
        self._seen = {_storage(tensor): tensor for tensor in known}
        self.bytes = 0

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count what autograd saves, as a hook of `torch.autograd.graph.saved_tensors_hooks`."""
        if tensor.layout is not torch.strided:
            return tensor
        key = _storage(tensor)
        if key not in self._seen:
            self._seen[key] = tensor  # held, so that no later storage gets its address
            self.bytes += int(tensor.untyped_storage().nbytes())
        return tensor


def _writes_nothing(func: Any) -> bool:
    """Tell whether an operation returns a view of its argument, or allocates without writing."""
    returned = func._schema.returns
    views = bool(returned) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returned
    )
    return views or func.overloadpacket.__name__ in NO_KERNEL


def _touched_bytes(tensor: torch.Tensor) -> int:
    """Count the bytes of a tensor that are stored: repeated elements (expand) once; of a sparse
    tensor the meta device knows nothing.
    """
    if tensor.layout is not torch.strided:
        return 0
    stored = math.prod(
        size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0
    )
    return int(min(tensor.numel(), stored) * tensor.element_size())


def _is_channels_last(tensor: torch.Tensor) -> bool:
    """Tell whether images or weights lie with their channels next to one another; as PyTorch does,
    a convolution runs so if either does.
    """
    if tensor.dim() != 4 or tensor.shape[1] == 1:
        return False
    return (tensor.stride(1), tensor.stride(3)) == (1, tensor.shape[1])


def _has_tensor_cores(weight: torch.Tensor, groups: int, channels_last: bool) -> bool:
    """Tell whether a convolution in groups runs with tensor cores: not those with one channel a
    group, and in channels last only the groups for which there are kernels.
    """
    width, channels = weight.shape[1], weight.shape[0]
    if width == 1:
        return False
    same = channels == width * groups
    return not channels_last or (same and width in BLOCKS and channels % BLOCKS_FILL == 0)


def _storage(tensor: torch.Tensor) -> int | None:
    if tensor.layout is not torch.strided:
        return None
    return int(tensor.untyped_storage()._cdata)
