"""The flat butterfly: every member sums one shard and sends the sum to the others
(`placer.problem.exchange`). What compression loses of one message is added to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placer.launch.runtime.wire.wire import Wire


class Feedback:
    """What a rank's messages have lost so far, in its part of every sum and in the sums it forms.

    Parameters
    ----------
    elements
        Length of the vector that is summed again and again.
    decay
        Share of the loss that is added to the next message; 1 adds all of it.

    Notes
    -----
    Both halves of a butterfly lose: a worker's shards on their way to their owners, and the sums on
    their way back. Each is fed back where it was lost, as DoubleSqueeze does (Tang et al., ICML
    2019). Nothing is lost of a worker's own shard.
    """

    def __init__(self, elements: int, decay: float = 1.0) -> None:
        import torch

        self.sent, self.summed, self.decay = torch.zeros(elements), torch.zeros(0), decay

    def added(self, vector: Any) -> Any:
        """Return a vector with what its last messages lost."""
        return vector + self.decay * self.sent

    def added_to_sum(self, total: Any) -> Any:
        """Return the sum of a shard with what its last message lost."""
        return total + self.summed if len(self.summed) == len(total) else total


def butterfly_sum(
    wire: Wire,
    vector: Any,
    members: Sequence[int],
    feedback: Feedback | None = None,
) -> Any:
    """Sum a vector over some ranks; all of them get the same result to the last bit.

    Parameters
    ----------
    wire
        Of this rank, which is one of the members.
    vector
        32-bit floats on the CPU; the sum of all members comes back in a new one.
    feedback
        What compression lost of earlier sums of this vector: it is added, and what is lost now is
        kept there.

    Notes
    -----
    Shards are added in the order of the members, and the sum of a shard is decoded by its own
    member too, so that rounding to FP16 is the same everywhere.
    """
    import torch

    if len(members) == 1:
        return vector
    if feedback is not None:
        vector = feedback.added(vector)
    shards = dict(zip(members, vector.tensor_split(len(members)), strict=True))
    codec, me, others = wire.codec, wire.rank, [rank for rank in members if rank != wire.rank]
    with wire.meter.phase("reduce-scatter"):
        out = {rank: codec.encode(shards[rank]) for rank in others}
        if feedback is not None:
            heard = {rank: codec.decode(out[rank], len(shards[rank])) for rank in others}
            parts = [shard - heard.get(rank, shard) for rank, shard in shards.items()]
            feedback.sent = torch.cat(parts)
        came = {rank: codec.empty(len(shards[me])) for rank in others}
        wire.swap(out.items(), came.items())
        total = torch.zeros_like(shards[me])
        for rank in members:
            total += shards[me] if rank == me else codec.decode(came[rank], len(total))
    with wire.meter.phase("all-gather"):
        if feedback is not None:
            total = feedback.added_to_sum(total)
        mine = codec.encode(total)
        own = codec.decode(mine, len(total))
        if feedback is not None:
            feedback.summed = total - own
        sums = {rank: codec.empty(len(shards[rank])) for rank in others}
        wire.swap([(rank, mine) for rank in others], sums.items())
        whole = {rank: codec.decode(sums[rank], len(shards[rank])) for rank in others} | {me: own}
    return torch.cat([whole[rank] for rank in members])
