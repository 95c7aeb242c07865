"""The processes of one island: where they meet, and what they tell each other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from placer.launch.runtime.island.seats import Seat

LOST_WORDS = ("gloo", "nccl", "connection closed", "reset by peer", "broken pipe", "timed out")
"""What torch.distributed says where another process is gone."""


class InnerGroup:
    """The process group of one island: the default group of ``torch.distributed``, so that DDP and
    FSDP find it.

    Parameters
    ----------
    seat
        Of this process.
    store
        A ``torch.distributed`` store; each island meets in a part of its own.
    timeout_s
        A process that does not answer for so long is lost.
    device
        Where the model is: GPUs talk over NCCL, host memory over gloo.
    """

    def __init__(self, seat: Seat, store: Any, timeout_s: float, device: Any) -> None:
        import torch.distributed as dist

        self.seat, self.rank, self.size = seat, seat.member, seat.members
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            store=dist.PrefixStore(f"island/{seat.rank}", store),
            rank=self.rank,
            world_size=self.size,
            timeout=timedelta(seconds=timeout_s),
        )

    @property
    def leads(self) -> bool:
        """Return whether this is the island's first process."""
        return self.rank == 0

    def sum(self, *figures: float) -> list[float]:
        """Sum figures over the processes."""
        import torch
        import torch.distributed as dist

        total = torch.tensor(figures, dtype=torch.float64)
        dist.all_reduce(total)
        return [float(figure) for figure in total]

    def largest(self, figure: int) -> int:
        """Return the largest of the processes' whole numbers."""
        import torch
        import torch.distributed as dist

        most = torch.tensor([figure], dtype=torch.int64)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        return int(most)

    def from_leader(self, value: Any) -> Any:
        """Hand a plain value or tensors of the first process to all."""
        import torch.distributed as dist

        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def vector_from_leader(self, vector: Any, elements: int) -> Any:
        """Hand a vector of 32-bit floats of the first process to all."""
        import torch
        import torch.distributed as dist

        held = vector.contiguous() if self.leads else torch.empty(elements)
        dist.broadcast(held, src=0)
        return held

    def to_leader(self, value: Any) -> list[Any]:
        """Collect plain values at the first process, in the order of the processes; empty at the
        others.
        """
        import torch.distributed as dist

        values: list[Any] | None = [None] * self.size if self.leads else None
        dist.gather_object(value, values, dst=0)
        return values or []


def is_island_loss(error: BaseException) -> bool:
    """Return whether an error of ``torch.distributed`` says that another process is gone."""
    import torch.distributed as dist

    words = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in words for word in LOST_WORDS)
