"""The model of one world, as PyTorch shares it: DDP, or FSDP2 as ZeRO-1, 2, 3, hybrid and HSDP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from placer.launch.runtime.seats import Seat
from placer.profiler.workload import Workload
from placer.records import replace
from placer.workload.inner_plan import InnerPlan


class SharedModel:
    """A module whose gradients PyTorch averages over the processes of a world.

    Parameters
    ----------
    module
        Whole on each process, with equal parameters; is changed.
    inner
        Sharding and precision.
    seat
        Of this process; its world is the default group of ``torch.distributed``.
    device
        Of this process.
    hook
        Sums a bucket of DDP's in another format: ``hook(bucket)`` returns a future. None: as it is.
    halves
        Whether gradients travel as FP16.

    Notes
    -----
    ``none`` is DDP, which averages bucket by bucket beside the backward pass. The rest is FSDP2
    (``fully_shard``) over a mesh of copies and shards: a worker holds one copy, with ``hybrid``
    each machine. ``zero-1`` reduces gradients once a step, ``zero-2`` after each microbatch, both
    keep the weights gathered from forward to backward; ``zero-3`` and ``hybrid`` gather them again.
    """

    def __init__(
        self,
        module: Any,
        inner: InnerPlan,
        seat: Seat,
        device: Any,
        *,
        hook: Callable[[Any], Any] | None = None,
        halves: bool = False,
    ) -> None:
        self.seat, self.sharding, self.ready_at = seat, inner.sharding, 0.0
        self.copies, self.module = 1, module
        if seat.world_size == 1:
            self.sharding = "alone"
        elif self.sharding == "none":
            self.copies = seat.world_size
            self.module = _replicated(module, device)
            self.module.register_comm_hook(None, self._hook(hook, halves=halves))
        else:
            shard = seat.each if self.sharding == "hybrid" else seat.members
            self.copies = seat.world_size // shard
            self._shard(module, shard, inner, device, halves=halves)

    def _shard(
        self, module: Any, shard: int, inner: InnerPlan, device: Any, *, halves: bool
    ) -> None:
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        shape = (self.copies, shard) if self.copies > 1 else (shard,)
        names = ("dp_replicate", "dp_shard")[-len(shape) :]
        mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
        mixed = inner.precision == "bf16" and device.type == "cuda"
        policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16 if mixed else None,
            reduce_dtype=torch.float16 if halves else torch.float32 if mixed else None,
        )
        again = self.sharding in ("zero-3", "hybrid")
        for part in (*blocks_of(module), module):
            fully_shard(part, mesh=mesh, reshard_after_forward=again, mp_policy=policy)

    def _hook(self, hook: Callable[[Any], Any] | None, *, halves: bool) -> Callable[..., Any]:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        usual = default_hooks.fp16_compress_hook if halves else default_hooks.allreduce_hook

        def timed(state: Any, bucket: Any) -> Any:
            self.ready_at = time.perf_counter()
            return usual(None, bucket) if hook is None else hook(bucket)

        # DDP reads the annotations of a hook, which must be types and not texts.
        timed.__annotations__ = default_hooks.allreduce_hook.__annotations__
        return timed

    @contextmanager
    def microbatch(self, *, last: bool) -> Iterator[None]:
        """Calculate one microbatch; what is reduced once a step is reduced in the last."""
        context: AbstractContextManager[Any] = nullcontext()
        if self.sharding == "none":
            context = nullcontext() if last else self.module.no_sync()
        elif self.sharding == "zero-1":
            self.module.set_requires_gradient_sync(last)
        elif self.sharding != "alone" and self.copies > 1:
            self.module.set_requires_all_reduce(last)
        with context:
            yield


def _replicated(module: Any, device: Any) -> Any:
    import warnings

    from torch.nn.parallel import DistributedDataParallel

    class Replica(DistributedDataParallel):  # type: ignore[misc]
        """DDP whose module's own attributes are seen through it, as loss functions use them."""

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("module"), name)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of a newer name of broadcast_buffers
        # Buffers stay with each process, as those of workers do.
        return Replica(
            module,
            device_ids=[device.index or 0] if device.type == "cuda" else None,
            broadcast_buffers=False,
            find_unused_parameters=True,
        )


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


def planned(workload: Workload, inner: InnerPlan, device: Any) -> Workload:
    """Return the workload with the plan's recomputation and, on a GPU, its precision.

    Notes
    -----
    A CPU stands in for the plan's GPU with the model's own numbers, so that results can be compared
    with those of one process.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    every = {"none": 0, "selective": 2, "full": 1}[inner.checkpointing]
    for block in blocks_of(workload.module)[::every] if every else ():
        # The name of no parameter changes, so checkpoints fit any inner plan.
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    if device.type != "cuda":
        return workload
    if inner.precision == "bf16":
        usual = workload.loss

        def mixed(module: Any, batch: Any) -> Any:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return usual(module, batch)

        return replace(workload, loss=mixed)
    torch.set_float32_matmul_precision("high" if inner.precision == "tf32" else "highest")
    return workload
