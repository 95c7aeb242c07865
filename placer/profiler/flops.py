"""Floating-point operations of a sample, counted by PyTorch."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

from placer.profiler.torch_import import load_torch
from placer.profiler.workload import Workload

COUNTED_SAMPLES = 2
"""Samples of the batch on which operations are counted; batch norm refuses one alone."""


def flops_per_sample(workload: Workload) -> float | None:
    """Operations of the forward and backward pass of one sample; None where they cannot be counted.

    Notes
    -----
    Counted on the meta device, which computes nothing and takes fused layers (LSTM) apart; on the CPU where the model cannot run
    there. ``torch.utils.flop_counter`` counts matrix products, convolutions and attention, a multiplication and an addition as two.
    """
    torch = load_torch()
    for device in (torch.device("meta"), torch.device("cpu")):
        found = _counted(workload, device)
        if found:
            return found
    return None


def _counted(workload: Workload, device: Any) -> float | None:
    from torch.utils.flop_counter import FlopCounterMode

    try:
        module = _copied(workload.module, device)
        batch = workload.batch(COUNTED_SAMPLES, device)
        with FlopCounterMode(display=False) as counter:
            workload.loss(module, batch).backward()
    except Exception:  # whatever a model does that this device cannot: then it is not counted there
        return None
    return float(counter.get_total_flops()) / COUNTED_SAMPLES


def _copied(module: Any, device: Any) -> Any:
    """Copy a module with its tensors on another device; on the meta device nothing is copied but shapes."""
    torch = load_torch()
    tensors: dict[int, Any] = {}
    for tensor in chain(module.parameters(), module.buffers()):
        made = torch.zeros_like(tensor, device=device)
        tensors[id(tensor)] = torch.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made
    return copy.deepcopy(module, tensors)
