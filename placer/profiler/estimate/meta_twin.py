"""A model's twin on the meta device: the same modules and shapes, no numbers and no memory."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from placer.profiler.target.torch_import import load_torch

if TYPE_CHECKING:
    import torch


def meta_twin(module: torch.nn.Module) -> torch.nn.Module:
    """Copy a model to the meta device; the model itself stays where and as it is.

    Notes
    -----
    `copy.deepcopy` takes tensors that its memo knows from there, so a parameter that two modules
    share (tied weights) is shared in the twin, and no copy of the weights is ever made.
    """
    torch: Any = load_torch()
    known: dict[int, Any] = {}
    for part in module.modules():
        for value in [*part._parameters.values(), *part._buffers.values(), *vars(part).values()]:
            if isinstance(value, torch.Tensor) and id(value) not in known:
                known[id(value)] = _twin(value)
    return copy.deepcopy(module, dict(known))


def _twin(tensor: Any) -> Any:
    torch: Any = load_torch()
    empty = torch.empty_like(tensor, device="meta", requires_grad=False)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty.requires_grad_(tensor.requires_grad)
