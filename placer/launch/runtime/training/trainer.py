"""The training of one process: gradients of its share of a batch, updates, and the model of its
world as one vector.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.launch.runtime.seats import Seat
from placer.launch.runtime.training.sharding import SharedModel, planned
from placer.profiler.target import load_target
from placer.profiler.workload import Workload
from placer.workload.inner_plan import InnerPlan

if TYPE_CHECKING:
    import torch


def load_model(train: str) -> Workload:
    """Make the model of a user.

    Parameters
    ----------
    train
        ``module:function``.

    Raises
    ------
    PlacerError
        If it is no model, or none of its parameters is trained.
    """
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
    """Return the seed of one microbatch, the same in every attempt, so that a resumed run draws the
    same samples.

    Examples
    --------
    >>> batch_seed(0, 3, 1, 0) == batch_seed(0, 3, 1, 0) != batch_seed(0, 3, 2, 0)
    True
    """
    return int.from_bytes(
        hashlib.sha256(f"{seed}/{step}/{process}/{microbatch}".encode()).digest()[:6], "big"
    )


def seed_draws(seed: int, device: torch.device) -> None:
    """Seed what a batch on a device is drawn from.

    Notes
    -----
    On a CPU that is one generator. `torch.manual_seed` also formats a stack trace for each other
    kind of device that was not used yet, and keeps it: milliseconds of a step, and memory that
    grows.
    """
    import torch

    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


class Trainer:
    """A workload on one device, shared with the other processes of its world.

    Parameters
    ----------
    workload
        What is trained. All processes begin with equal parameters.
    device
        Where it is trained.
    seat
        Of this process. With several processes in its world, they are the default group of
        ``torch.distributed``.
    inner
        How the processes of the world share the model.
    seed
        Chooses the samples.
    microbatch
        Samples that are calculated at once; gradients add up to the share of the step.
    hook, halves
        As of `placer.launch.runtime.training.sharding.SharedModel`.

    Notes
    -----
    *The vector* is the trainable parameters of the whole model, or their gradients: 32-bit floats
    on the CPU. Methods are called by all processes of the world in the same order.
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
        hook: Callable[[Any], Any] | None = None,
        halves: bool = False,
    ) -> None:
        workload = planned(workload, inner, device)
        self.workload, self.device, self.seat = workload, device, seat
        self.seed, self.microbatch, self.halves = seed, microbatch, halves
        self.module = workload.module.to(device).train()
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.sizes = [p.numel() for p in parameters]
        self.elements = sum(self.sizes)
        self.first_digest = digest_of(flat(parameters))
        self.model = SharedModel(self.module, inner, seat, device, hook=hook, halves=halves)
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = workload.optimizer(self.parameters)

    def calculate(self, step: int, samples: Sequence[int], of: int) -> tuple[float, float]:
        """Leave the gradient of the world's samples at the parameters, weighted with their share of
        ``of`` samples.

        Parameters
        ----------
        step
            Number of the optimizer step.
        samples
            Of each process of the world.
        of
            Samples over which the mean is taken: the sum over all worlds is then the mean gradient.

        Returns
        -------
        tuple
            The weighted loss of this process's samples, and the seconds for which the average over
            the world was waited for after the calculation.

        Notes
        -----
        All processes take as many microbatches, as each is a collective operation. One that has no
        sample left calculates one with weight 0.
        """
        began, loss_sum = time.perf_counter(), 0.0
        mine, count = samples[self.seat.world_rank], max(1, ceil(max(samples) / self.microbatch))
        self.optimizer.zero_grad(set_to_none=True)
        for number in range(count):
            size = mine // count + (number < mine % count)
            seed_draws(batch_seed(self.seed, step, self.seat.process, number), self.device)
            with self.model.microbatch(last=number + 1 == count):
                batch = self.workload.batch(max(1, size), self.device)
                # DDP and FSDP take the mean over the processes; the sum is wanted.
                weight = size / of * self.seat.world_size
                loss = self.workload.loss(self.model.module, batch) * weight
                loss.backward()
            loss_sum += float(loss.detach()) / self.seat.world_size
        waited_s = time.perf_counter() - self.model.ready_at
        return loss_sum, waited_s if self.model.ready_at > began else 0.0

    def gradient(self) -> Any:
        """Return the gradient at the parameters as a vector, zeros where there is none."""
        import torch

        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        return flat([_whole(gradient) for gradient in gradients])

    def step(self) -> None:
        """Take an optimizer step with the gradient at the parameters."""
        import torch

        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def apply(self, gradient: Any) -> None:
        """Take one optimizer step with a vector, which the first process of the world has."""
        for parameter, part in zip(self.parameters, self._handed_out(gradient), strict=True):
            parameter.grad = part
        self.step()

    def add(self, vector: Any) -> None:
        """Add a vector, which the first process of the world has, to the gradient."""
        for parameter, part in zip(self.parameters, self._handed_out(vector), strict=True):
            parameter.grad = part if parameter.grad is None else parameter.grad + part

    def vector(self) -> Any:
        """Copy of the trainable parameters."""
        return flat([_whole(p.detach()) for p in self.parameters])

    def load_vector(self, vector: Any) -> None:
        """Set the trainable parameters to a vector, which the first process of the world has."""
        import torch

        with torch.no_grad():
            for parameter, part in zip(self.parameters, self._handed_out(vector), strict=True):
                parameter.copy_(part)

    def _handed_out(self, vector: Any) -> list[Any]:
        """Give each process its part of a vector of the first one, parameter by parameter."""
        import torch
        import torch.distributed as dist
        from torch.distributed.tensor import DTensor, distribute_tensor

        if self.seat.world_size > 1 and self.model.sharding == "none":
            vector = torch.empty(self.elements) if vector is None else vector
            # What came as FP16 loses nothing.
            vector = vector.to(self.device, torch.float16 if self.halves else torch.float32)
            dist.broadcast(vector, src=0)
        elif vector is None:
            vector = torch.empty(self.elements)
        parts = []
        for part, p in zip(vector.split(self.sizes), self.parameters, strict=True):
            own = part.view(p.shape).to(p.device, p.dtype)
            parts.append(
                distribute_tensor(own, p.device_mesh, p.placements)
                if isinstance(p, DTensor)
                else own
            )
        return parts

    def pieces(self) -> list[Any]:
        """List what this process holds of the trainable parameters: parameters of one dimension in
        the same memory, in the order of that memory.
        """
        import torch
        from torch.distributed.tensor import DTensor

        pieces = []
        for parameter in self.parameters:
            own = parameter.detach()
            own = own.to_local() if isinstance(own, DTensor) else own
            if own.numel():
                row = own.as_strided((own.numel(),), (1,), own.storage_offset())
                pieces.append(torch.nn.Parameter(row))
        return pieces


def _whole(tensor: Any) -> Any:
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def digest_of(vector: Any) -> str:
    """Return the SHA-256 of a vector on the CPU."""
    return hashlib.sha256(vector.numpy().data).hexdigest()


def flat(tensors: list[Any]) -> Any:
    """Concatenate tensors to one vector of 32-bit floats on the CPU; it shares memory with none."""
    import torch

    return torch.cat([t.detach().reshape(-1).to("cpu", torch.float32) for t in tensors])
