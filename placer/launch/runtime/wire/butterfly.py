"""The flat butterfly: every member sums one shard and sends the sum to the others
(`placer.problem.exchange.allreduce`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placer.launch.runtime.wire.feedback import Feedback
from placer.launch.runtime.wire.wire import Wire


def butterfly_sum(
    wire: Wire,
    vector: Any,
    members: Sequence[int],
    where: str = "",
    feedback: Feedback | None = None,
) -> Any:
    """Sum a vector over some ranks; all of them get the same result to the last bit.

    Parameters
    ----------
    wire
        Of this rank, which is one of the members.
    vector
        32-bit floats on the CPU; the sum of all members comes back in a new one.
    where
        Put behind the names of the phases, such as `` inside regions``.
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
    me = members.index(wire.rank)
    if feedback is not None:
        vector = feedback.added(vector)
    shards = list(vector.tensor_split(len(members)))
    codec = wire.codec
    with wire.meter.phase(f"reduce-scatter{where}"):
        came = {
            i: codec.empty(len(shards[me]) if len(shards[me]) else 0)
            for i in range(len(members))
            if i != me
        }
        out = [(members[i], codec.encode(shards[i])) for i in came if len(shards[i])]
        if feedback is not None:
            decoded = {
                peer: codec.decode(message, len(shards[members.index(peer)]))
                for peer, message in out
            }
            feedback.sent = torch.cat(
                [
                    shard - decoded.get(rank, shard)
                    for rank, shard in zip(members, shards, strict=True)
                ]
            )
        wire.swap(
            out, [(members[i], message) for i, message in came.items()] if len(shards[me]) else []
        )
        total = torch.zeros_like(shards[me])
        for i in range(len(members)) if len(shards[me]) else ():
            total += shards[me] if i == me else codec.decode(came[i], len(shards[me]))
    with wire.meter.phase(f"all-gather{where}"):
        if feedback is not None:
            total = feedback.added_to_sum(total)
        mine = codec.encode(total)
        own = codec.decode(mine, len(total))
        if feedback is not None:
            feedback.summed = total - own
        sums = {
            i: codec.empty(len(shards[i]))
            for i in range(len(members))
            if i != me and len(shards[i])
        }
        wire.swap(
            [(members[i], mine) for i in came] if len(total) else [],
            [(members[i], message) for i, message in sums.items()],
        )
        gathered = [
            own if i == me else codec.decode(sums[i], len(shards[i])) if i in sums else shards[i]
            for i in range(len(members))
        ]
    return torch.cat(gathered)
