"""The connections among the members of one exchange, made for it and given up when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.wire.codec import Codec
from placer.launch.runtime.wire.meter import Meter
from placer.launch.runtime.wire.wire import Wire


class MembersWire(Wire):
    """The connections of one worker to some others, by gloo.

    Parameters
    ----------
    plan, rank, store, meter, timeout_s
        As of `Wire`.
    members
        Ranks that are connected, this one among them.
    name
        Of these connections in the store; never used twice.
    """

    def __init__(
        self,
        plan: RunPlan,
        rank: int,
        store: Any,
        meter: Meter,
        timeout_s: float,
        members: Sequence[int],
        name: str,
    ) -> None:
        import torch.distributed as dist

        self.plan, self.rank, self.meter, self.lane = plan, rank, meter, name
        self.codec = Codec(plan.exchange.compression)
        self.patience = timedelta(seconds=timeout_s)
        self.members = tuple(members)
        number, count = self.members.index(rank), len(self.members)
        self.groups = [
            dist.ProcessGroupGloo(
                dist.PrefixStore(f"{name}/{stream}", store), number, count, self.patience
            )
            for stream in range(plan.exchange.streams if count > 1 else 0)
        ]

    def _begin(self, operation: Any, peer: int, message: Any, tag: int = 0) -> list[Any]:
        return super()._begin(operation, self.members.index(peer), message, tag)
