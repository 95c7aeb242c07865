"""The training of one process: the model of its world as PyTorch shares it, gradients of its share
of a batch, updates, and the model as one vector.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import ceil
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed._composable.replicate import replicate
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils.checkpoint import checkpoint

from placer.errors import PlacerError
from placer.launch.runtime.codec import Codec
from placer.launch.runtime.run_plan import Seat
from placer.profiler.target import load_target
from placer.profiler.workload import Workload
from placer.records import replace
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.transports import bucket_mib


class SharedModel:
    """A module whose gradients PyTorch averages over the processes of a world, its default group.

    ``none`` is DDP (``replicate``, which leaves the module its own attributes, as loss functions
    use them); it averages bucket by bucket beside the backward pass, with ``hook`` in another
    format. The rest is FSDP2 (``fully_shard``) over a mesh of copies and shards: a worker
    holds one copy, with ``hybrid`` each machine. ``zero-1`` reduces gradients once a step,
    ``zero-2`` after each microbatch, both keep the weights gathered from forward to backward;
    ``zero-3`` and ``hybrid`` gather them again. With ``halves`` gradients travel as FP16.
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
            # Buffers stay with each process, as those of workers do.
            size = sum(p.numel() * p.element_size() for p in module.parameters() if p.requires_grad)
            replicate(
                module,
                device_id=device,
                find_unused_parameters=True,
                bucket_cap_mb=bucket_mib(size),
            )
            module.register_comm_hook(None, self._hook(hook, halves=halves))
        else:
            shard = seat.each if self.sharding == "hybrid" else seat.members
            self.copies = seat.world_size // shard
            self._shard(module, shard, inner, device, halves=halves)

    def _shard(
        self, module: Any, shard: int, inner: InnerPlan, device: Any, *, halves: bool
    ) -> None:
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
        usual = default_hooks.fp16_compress_hook if halves else default_hooks.allreduce_hook

        def timed(state: Any, bucket: Any) -> Any:
            self.ready_at = time.perf_counter()
            return usual(None, bucket) if hook is None else hook(bucket)

        # DDP reads the annotations of a hook, which must be types and not texts.
        timed.__annotations__ = default_hooks.allreduce_hook.__annotations__
        return timed

    @property
    def sharded(self) -> bool:
        """Return whether each process holds a part of it."""
        return self.sharding not in ("alone", "none")

    def begin_microbatch(self, *, last: bool) -> None:
        """Let the next microbatch reduce gradients; what is reduced once a step is in the last."""
        if self.sharding in ("none", "zero-1"):
            self.module.set_requires_gradient_sync(last)
        elif self.sharded and self.copies > 1:
            self.module.set_requires_all_reduce(last)


def blocks_of(module: Any) -> list[Any]:
    """List the longest run of equal layers, or the children; none without parameters, or nested."""
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
    """Return the workload with the plan's recomputation and, on a GPU, its precision. A CPU stands
    in for the plan's GPU with the model's own numbers, so that results can be compared.
    """
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


def load_model(train: str) -> Workload:
    """Make the model of ``module:function``, which must have parameters that are trained."""
    workload = load_target(train, None)
    if not isinstance(workload, Workload):
        raise PlacerError(
            f"{train} returns a step function",
            "a run needs the model: return a Workload or (module, batch, loss)",
        )
    if not any(p.requires_grad for p in workload.module.parameters()):
        raise PlacerError(
            f"the model of {train} has no parameter that is trained",
            "give a module with parameters that require a gradient",
        )
    return workload


def batch_seed(seed: int, step: int, process: int, microbatch: int) -> int:
    """Return the seed of one microbatch, the same when a resumed run draws it again.

    >>> batch_seed(0, 3, 1, 0) == batch_seed(0, 3, 1, 0) != batch_seed(0, 3, 2, 0)
    True
    """
    words = f"{seed}/{step}/{process}/{microbatch}".encode()
    return int.from_bytes(hashlib.sha256(words).digest()[:6], "big")


def seed_draws(seed: int, device: torch.device) -> None:
    """Seed what a batch on a device is drawn from; on a CPU that is one generator.
    `torch.manual_seed` also formats a stack trace for each other kind of device that was not used
    yet, and keeps it: milliseconds of a step, and memory that grows.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


class Trainer:
    """A workload on one device, shared with the other processes of its world as `SharedModel` says.
    All begin with equal parameters.

    *The vector* is the trainable parameters of the whole model, or their gradients: 32-bit floats
    on the CPU. Methods are called by all processes of the world in the same order. ``codec`` is the
    encoding inside the world, in so many ``shards`` as came from other worlds.
    """

    def __init__(
        self,
        workload: Workload,
        device: torch.device,
        *,
        seat: Seat,
        inner: InnerPlan,
        seed: int,
        microbatch: int,
        codec: Codec,
        shards: int = 1,
        hook: Callable[[Any], Any] | None = None,
    ) -> None:
        workload = planned(workload, inner, device)
        self.workload, self.device, self.seat = workload, device, seat
        self.seed, self.microbatch, self.codec, self.shards = seed, microbatch, codec, shards
        self.module = workload.module.to(device).train()
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.sizes = [p.numel() for p in parameters]
        self.elements = sum(self.sizes)
        self.first_digest = digest_of(flat(parameters))
        halves = codec.compression == "fp16"
        self.model = SharedModel(self.module, inner, seat, device, hook=hook, halves=halves)
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = workload.optimizer(self.parameters)

    def calculate(
        self, step: int, samples: Sequence[int], of: int, more: Any = None
    ) -> tuple[float, float]:
        """Leave the gradient of the ``samples`` of each process at the parameters, as a mean over
        ``of`` samples: over all worlds it adds up to the mean gradient. A vector that is ``more``
        in the first process is added to it on the way, where the model is not sharded.

        Returns the weighted loss of this process's samples, and the seconds for which the average
        was waited for after the calculation. All processes take as many microbatches, as each is a
        collective operation; one without a sample left calculates one with weight 0.
        """
        began, loss_sum = time.perf_counter(), 0.0
        mine, count = samples[self.seat.world_rank], max(1, ceil(max(samples) / self.microbatch))
        self.optimizer.zero_grad(set_to_none=True)
        if more is not None:  # DDP takes the mean with those of the others, which have none
            self._accumulate(more.mul(self.seat.world_size).split(self.sizes))
        for number in range(count):
            size = mine // count + (number < mine % count)
            seed_draws(batch_seed(self.seed, step, self.seat.process, number), self.device)
            self.model.begin_microbatch(last=number + 1 == count)
            batch = self.workload.batch(max(1, size), self.device)
            # DDP and FSDP take the mean over the processes; the sum is wanted.
            weight = size / of * self.seat.world_size
            loss = self.workload.loss(self.module, batch) * weight
            loss.backward()
            loss_sum += float(loss.detach()) / self.seat.world_size
        waited_s = time.perf_counter() - self.model.ready_at
        return loss_sum, waited_s if self.model.ready_at > began else 0.0

    def gradient(self) -> Any:
        """Return the gradient at the parameters as a vector, zeros where there is none."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        return flat([_whole(gradient) for gradient in gradients])

    def step(self) -> None:
        """Take an optimizer step with the gradient at the parameters."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def apply(self, gradient: Any) -> None:
        """Take one optimizer step with a vector, which the first process of the world has."""
        for parameter, part in zip(self.parameters, self._handed_out(gradient), strict=True):
            parameter.grad = part.to(parameter.dtype)
        self.step()

    def add(self, vector: Any) -> None:
        """Add a vector, which the first process of the world has, to the gradient."""
        self._accumulate(self._handed_out(vector))

    def _accumulate(self, parts: Iterable[Any]) -> None:
        for parameter, part in zip(self.parameters, parts, strict=True):
            own = part.view(parameter.shape).to(parameter.device, parameter.dtype)
            parameter.grad = own if parameter.grad is None else parameter.grad + own

    def vector(self, tensors: Iterable[Any] | None = None) -> Any:
        """Copy of the trainable parameters, or of others like them."""
        return flat([_whole(p.detach()) for p in tensors or self.parameters])

    def copies(self) -> list[Any]:
        """Copy what this process holds of the trainable parameters, as 32-bit floats."""
        return [p.detach().to(torch.float32, copy=True) for p in self.parameters]

    def move(self, model: Iterable[Any], change: Any) -> None:
        """Add a vector, which the first process of the world has, to copies of the parameters, and
        set the parameters to them.
        """
        with torch.no_grad():
            for own, parameter, part in zip(
                model, self.parameters, self._handed_out(change), strict=True
            ):
                parameter.copy_(own.add_(part))

    def _handed_out(self, vector: Any) -> list[Any]:
        """Give each process its part of the first one's vector, parameter by parameter."""
        if vector is None:
            vector = torch.empty(self.elements)
        if self.seat.world_size > 1 and self.model.sharding == "none":
            vector = torch.cat([self._broadcast(part) for part in vector.tensor_split(self.shards)])
        parts = []
        for part, p in zip(vector.split(self.sizes), self.parameters, strict=True):
            own = part.view(p.shape).to(p.device, torch.float32)
            if isinstance(p, DTensor):
                own = distribute_tensor(own, p.device_mesh, p.placements)
            parts.append(own)
        return parts

    def _broadcast(self, vector: Any) -> Any:
        """Hand a vector of the first process to all: one that came encoded loses nothing again."""
        codec, leads = self.codec, self.seat.leads
        message = codec.encode(vector) if leads else codec.empty(len(vector))
        message = message.to(self.device)
        dist.broadcast(message, src=0)
        return codec.decode(message, len(vector))

    def pieces(self) -> list[Any]:
        """List what this process holds of the parameters, as flat ones in the same memory."""
        pieces = []
        for parameter in self.parameters:
            own = parameter.detach()
            own = own.to_local() if isinstance(own, DTensor) else own
            if own.numel():
                row = own.as_strided((own.numel(),), (1,), own.storage_offset())
                pieces.append(torch.nn.Parameter(row))
        return pieces


def _whole(tensor: Any) -> Any:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def digest_of(vector: Any) -> str:
    """Return the SHA-256 of a vector on the CPU."""
    return hashlib.sha256(vector.numpy().data).hexdigest()


def flat(tensors: list[Any]) -> Any:
    """Concatenate tensors to one vector of 32-bit floats on the CPU; it shares memory with none."""
    return torch.cat([t.detach().reshape(-1).to("cpu", torch.float32) for t in tensors])
