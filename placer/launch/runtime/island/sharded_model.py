"""A model cut over the processes of an island: DDP, or FSDP2 as ZeRO-1, 2, 3 or hybrid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from placer.launch.runtime.island.blocks import blocks_of
from placer.launch.runtime.island.inner_group import InnerGroup
from placer.workload.inner_plan import InnerPlan


class ShardedModel:
    """A module whose parameters are replicated or sharded over an island.

    Parameters
    ----------
    module
        Whole on each process, with equal parameters; is changed.
    inner
        Sharding and precision. ``hybrid`` shards inside each machine and replicates over machines.
    group
        The processes of the island.
    device
        Of this process.

    Notes
    -----
    ``none`` is DDP. The rest is FSDP2 (``fully_shard``): ``zero-1`` reduces gradients once a step,
    ``zero-2`` after each microbatch, both keep the weights gathered from forward to backward;
    ``zero-3`` and ``hybrid`` gather them again in backward. ``replicas`` processes hold the same
    part of the model, this one is number ``replica`` of them, and ``replica_group`` connects them.
    """

    def __init__(self, module: Any, inner: InnerPlan, group: InnerGroup, device: Any) -> None:
        self.sharding = inner.sharding
        self.replicas, self.replica, self.replica_group = 1, 0, None
        if self.sharding == "none":
            self.module = _replicated(module, device)
            self.replicas, self.replica = group.size, group.rank
            return
        mesh = _mesh(self.sharding, group, device)
        _shard(module, mesh, inner, device)
        self.module = module
        if self.sharding == "hybrid":
            self.replicas, self.replica = group.seat.machines, group.seat.island_machine
            self.replica_group = mesh.get_group("machines")

    @contextmanager
    def microbatch(self, *, last: bool) -> Iterator[None]:
        """Calculate one microbatch; what is reduced once a step is reduced in the last."""
        context = nullcontext()
        if self.sharding == "none":
            context = nullcontext() if last else self.module.no_sync()
        elif self.sharding == "zero-1":
            self.module.set_requires_gradient_sync(last)
        elif self.sharding == "hybrid":
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


def _mesh(sharding: str, group: InnerGroup, device: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    if sharding == "hybrid":
        shape = (group.seat.machines, group.size // group.seat.machines)
        return init_device_mesh(device.type, shape, mesh_dim_names=("machines", "gpus"))
    return init_device_mesh(device.type, (group.size,))


def _shard(module: Any, mesh: Any, inner: InnerPlan, device: Any) -> None:
    """Cut a module block by block; on GPUs, blocks are gathered in the plan's precision."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    halves = inner.precision == "bf16" and device.type == "cuda"
    policy = (
        MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if halves
        else MixedPrecisionPolicy()
    )
    gathers_again = inner.sharding in ("zero-3", "hybrid")
    for part in (*blocks_of(module), module):
        fully_shard(part, mesh=mesh, reshard_after_forward=gathers_again, mp_policy=policy)
