"""The trainer of one process of an island: it holds its piece of the island's model."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any

from placer.launch.batch_shares import apportioned
from placer.launch.runtime.island.full_state import full_state, load_full_state
from placer.launch.runtime.island.inner_group import InnerGroup
from placer.launch.runtime.island.sharded_model import ShardedModel
from placer.launch.runtime.training.trainer import Trainer, batch_seed, digest_of, flat, seed_draws
from placer.profiler.workload import Workload
from placer.workload.inner_plan import InnerPlan

if TYPE_CHECKING:
    import torch


class IslandTrainer(Trainer):
    """A workload whose model is spread over the processes of an island.

    Parameters
    ----------
    workload, device, seed, microbatch
        As of `Trainer`.
    group
        The processes of the island.
    inner
        How they share the model.

    Notes
    -----
    What strategies see as *the vector* is this process's piece of the island's parameters, or of
    the sum of the island's gradients: equal processes of islands that are cut alike hold equal
    pieces, and the pieces of an island make the whole model, each element once. Every method is
    called by all processes of the island in the same order.
    """

    def __init__(
        self,
        workload: Workload,
        device: torch.device,
        *,
        group: InnerGroup,
        inner: InnerPlan,
        seed: int,
        microbatch: int,
    ) -> None:
        super().__init__(
            workload, device, rank=group.seat.process, seed=seed, microbatch=microbatch
        )
        self.group, self._first_digest = group, digest_of(super().vector())
        self.model = ShardedModel(self.module, inner, group, device)
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer = workload.optimizer(self.parameters)
        self.sizes = [_local(p).numel() for p in self.parameters]
        self.elements = len(self._piece(flat([_local(p) for p in self.parameters])))

    def first_digest(self) -> str:
        """Return the digest of the whole model before it was cut."""
        return self._first_digest

    def gradient(
        self, step: int, samples: int, of: int, between: Callable[[], None] = lambda: None
    ) -> tuple[Any, float]:
        """Calculate this process's piece of the gradient of the island's samples, and their loss,
        both weighted with their share of ``of`` samples.

        Notes
        -----
        All processes take as many microbatches, as each is a collective operation. One that has no
        sample left calculates one with weight 0. ``between`` is not called: an island stops as one,
        after the calculation.
        """
        import torch

        shares = apportioned(samples, dict.fromkeys(range(self.group.size), 1.0))
        mine, count = shares[self.group.rank], max(1, ceil(shares[0] / self.microbatch))
        loss_sum = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for number in range(count):
            size = mine // count + (number < mine % count)
            seed_draws(batch_seed(self.seed, step, self.rank, number), self.device)
            with self.model.microbatch(last=number + 1 == count):
                batch = self.workload.batch(max(1, size), self.device)
                # DDP and FSDP take the mean over the processes; the sum is wanted.
                weight = size / of * self.group.size
                loss = self.workload.loss(self.model.module, batch) * weight
                loss.backward()
            loss_sum += float(loss.detach()) / self.group.size
        gradients = [
            torch.zeros_like(_local(p)) if p.grad is None else _local(p.grad)
            for p in self.parameters
        ]
        return self._piece(flat(gradients)), self.group.sum(loss_sum)[0]

    def local_step(
        self, step: int, samples: int, of: int, between: Callable[[], None] = lambda: None
    ) -> float:
        """Take a step with the gradient of the island's own samples; see `Trainer.local_step`."""
        gradient, loss = self.gradient(step, samples, of, between)
        self.apply(gradient)
        return loss

    def apply(self, gradient: Any) -> None:
        """Take one optimizer step with the pieces of a gradient."""
        for parameter, part in zip(self.parameters, self._parts(gradient), strict=True):
            parameter.grad = _like(parameter, part.to(parameter.device, parameter.dtype))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def vector(self) -> Any:
        """Copy of this process's piece of the parameters."""
        return self._piece(flat([_local(p) for p in self.parameters]))

    def load_vector(self, vector: Any) -> None:
        """Set the parameters of the island from the pieces of its processes."""
        import torch

        with torch.no_grad():
            for parameter, part in zip(self.parameters, self._parts(vector), strict=True):
                _local(parameter).copy_(part)

    def whole(self) -> Any:
        """Copy of all parameters of the island, on each process."""
        return flat([_full(p.detach()) for p in self.parameters])

    def whole_of(self, piece: Any) -> Any:
        """Put the pieces of a vector together, on each process."""
        parts = zip(self.parameters, self._parts(piece), strict=True)
        return flat([_full(_like(parameter, part)) for parameter, part in parts])

    def piece_of(self, whole: Any) -> Any:
        """Cut this process's piece out of a vector of all elements."""
        parts = whole.split([p.numel() for p in self.parameters])
        shaped = (part.view(p.shape) for part, p in zip(parts, self.parameters, strict=True))
        pairs = zip(shaped, self.parameters, strict=True)
        return self._piece(flat([_cut(part, p) for part, p in pairs]))

    def agree(self, lost: int) -> int:
        """Return the rank of a worker that a process of the island has lost; -1: none."""
        return self.group.largest(lost)

    def joined(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Add what the other processes have sent to the figures of the first."""
        collected = self.group.to_leader((figures["sent"], figures["control_bytes"]))
        sent: dict[tuple[str, str], int] = {}
        for rows, _ in collected:
            for row in rows:
                pair = row["src"], row["dst"]
                sent[pair] = sent.get(pair, 0) + row["bytes"]
        rows = [{"src": src, "dst": dst, "bytes": n} for (src, dst), n in sorted(sent.items())]
        return {**figures, "sent": rows, "control_bytes": sum(count for _, count in collected)}

    def state(self) -> dict[str, Any]:
        """Return model, buffers and optimizer of the whole island, as `Trainer.state` does."""
        return full_state(self.module, self.optimizer)

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore a state that the first process has read."""
        load_full_state(self.module, self.optimizer, self.parameters, self.group.from_leader(state))

    def _piece(self, local: Any) -> Any:
        """Cut the part of this replica out of what the process holds."""
        return local.tensor_split(self.model.replicas)[self.model.replica].clone()

    def _parts(self, vector: Any) -> list[Any]:
        """Put the pieces of the replicas together and cut them by parameter."""
        local = _gathered(vector, sum(self.sizes), self.model)
        parts = zip(local.split(self.sizes), self.parameters, strict=True)
        return [part.view(_local(parameter).shape) for part, parameter in parts]


def _gathered(piece: Any, elements: int, model: ShardedModel) -> Any:
    """Collect the pieces of all replicas; gloo wants them of one length."""
    import torch
    import torch.distributed as dist

    if model.replicas == 1:
        return piece
    sizes = [len(part) for part in torch.empty(elements).tensor_split(model.replicas)]
    padded = torch.zeros(sizes[0])
    padded[: len(piece)] = piece
    pieces = [torch.empty(sizes[0]) for _ in sizes]
    dist.all_gather(pieces, padded, group=model.replica_group)
    return torch.cat([part[:size] for part, size in zip(pieces, sizes, strict=True)])


def _local(tensor: Any) -> Any:
    """Return what this process holds of a tensor."""
    from torch.distributed.tensor import DTensor

    return tensor.detach().to_local() if isinstance(tensor, DTensor) else tensor.detach()


def _full(tensor: Any) -> Any:
    """Return a tensor whole, on each process."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _like(parameter: Any, local: Any) -> Any:
    """Return a tensor that is spread as a parameter is, of which this process holds a part."""
    from torch.distributed.tensor import DTensor

    if not isinstance(parameter, DTensor):
        return local
    return DTensor.from_local(
        local,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def _cut(whole: Any, parameter: Any) -> Any:
    """Cut out what this process holds of a parameter: FSDP2 cuts along the first dimension."""
    from torch.distributed.tensor import DTensor

    if not isinstance(parameter, DTensor):
        return whole
    mesh = parameter.device_mesh
    chunks, number = whole.chunk(mesh.size(mesh.ndim - 1)), mesh.get_local_rank(mesh.ndim - 1)
    return chunks[number] if number < len(chunks) else whole[:0]
