"""What an inner plan says about the calculation of one process: recomputation and precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placer.launch.runtime.island.blocks import recompute
from placer.profiler.workload import Workload
from placer.records import replace
from placer.workload.inner_plan import InnerPlan


def planned(workload: Workload, inner: InnerPlan, device: Any) -> Workload:
    """Return the workload with the plan's recomputation and, on a GPU, its precision.

    Notes
    -----
    A CPU stands in for the plan's GPU with the model's own numbers, so that results can be compared
    with those of one process.
    """
    recompute(workload.module, inner.checkpointing)
    if device.type != "cuda":
        return workload
    if inner.precision == "bf16":
        return replace(workload, loss=_in_bf16(workload.loss))
    import torch

    torch.set_float32_matmul_precision("high" if inner.precision == "tf32" else "highest")
    return workload


def _in_bf16(loss: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    import torch

    def mixed(module: Any, batch: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return loss(module, batch)

    return mixed
