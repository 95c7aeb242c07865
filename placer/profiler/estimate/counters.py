"""Counters that watch a step: FLOPs, bytes that kernels move, bytes that forward keeps for
backward.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from placer.profiler.target.torch_import import load_torch

if TYPE_CHECKING:
    import torch

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
    }
)
"""Operations that write nothing."""


def flop_counter() -> Any:
    """Make torch's counter of FLOPs, with the backward pass of grouped convolutions put right;
    ``grouped_flops`` are their share.

    Notes
    -----
    torch 2.13 counts the weight gradient of a convolution in g groups g times: ConvNeXt Large, with
    depthwise ones, comes to three times its FLOPs. Each gradient takes as many multiply-adds as the
    forward pass.
    """
    torch: Any = load_torch()
    from torch.utils.flop_counter import FlopCounterMode

    def convolution(
        x: Any,
        w: Any,
        bias: Any,
        stride: Any,
        pad: Any,
        dilation: Any,
        transposed: bool,
        *rest: Any,
        out_shape: Any,
    ) -> int:
        return counter.note(
            2 * math.prod(x if transposed else out_shape) * math.prod(w[1:]), rest[1]
        )

    def backward(
        g: Any,
        x: Any,
        w: Any,
        bias: Any,
        stride: Any,
        pad: Any,
        dilation: Any,
        transposed: bool,
        *rest: Any,
        out_shape: Any,
    ) -> int:
        wanted = sum(bool(w) for w in rest[2][:2])
        return counter.note(
            2 * math.prod(x if transposed else g) * math.prod(w[1:]) * wanted, rest[1]
        )

    mode: Any = FlopCounterMode

    class Counter(mode):  # type: ignore[misc]
        grouped_flops = 0

        def note(self, flops: int, groups: int) -> int:
            self.grouped_flops += flops if groups > 1 else 0
            return flops

    aten = torch.ops.aten
    counter = Counter(
        display=False,
        custom_mapping={aten.convolution: convolution, aten.convolution_backward: backward},
    )
    return counter


def traffic_counter() -> Any:
    """Make a mode that counts kernels and the bytes that each reads and writes, as if every one
    went to memory.

    Notes
    -----
    Views and other operations that touch no element are left out. A kernel reads each argument once
    and writes each result once: true of eager PyTorch up to caches, which make it less, and
    reductions that read twice, which make it more.
    """
    torch = load_torch()
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    mode: Any = TorchDispatchMode

    class Traffic(mode):  # type: ignore[misc]
        kernels = 0
        moved_bytes = 0
        largest_bytes = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            written = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
            if not written or _writes_nothing(func):
                return result
            read = {id(t): t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
            self.kernels += 1
            self.moved_bytes += sum(map(_touched_bytes, read.values())) + sum(
                map(_touched_bytes, written)
            )
            self.largest_bytes = max(self.largest_bytes, *map(_touched_bytes, written))
            return result

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
        if tensor.layout is not load_torch().strided:
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
    if tensor.layout is not load_torch().strided:
        return 0
    stored = math.prod(
        size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0
    )
    return int(min(tensor.numel(), stored) * tensor.element_size())


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
