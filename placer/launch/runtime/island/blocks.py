"""The blocks of a model: its repeated layers, which are sharded and recomputed one by one."""

from __future__ import annotations

from functools import partial
from typing import Any


def blocks_of(module: Any) -> list[Any]:
    """List the layers of the longest run of equal ones; of a model without one, its children.

    Only modules with parameters are listed, and never one inside another.
    """
    import torch

    runs = [
        list(part)
        for part in module.modules()
        if isinstance(part, torch.nn.ModuleList | torch.nn.Sequential)
        and len(part) > 1
        and len({type(layer) for layer in part}) == 1
    ]
    layers = max(runs, key=len, default=list(module.children()))
    return [layer for layer in layers if any(True for _ in layer.parameters())]


def recompute(module: Any, checkpointing: str) -> None:
    """Calculate the activations of blocks again in backward instead of keeping them.

    Parameters
    ----------
    checkpointing
        ``full``: of each block; ``selective``: of every second one; ``none``: of none.
    """
    from torch.utils.checkpoint import checkpoint

    steps = {"none": 0, "selective": 2, "full": 1}[checkpointing]
    for block in blocks_of(module)[::steps] if steps else ():
        # The name of no parameter changes, so checkpoints fit any inner plan.
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
