"""Messages between ranks of an exchange: point to point over gloo, counted by directed pair of
places; failures name the peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.wire.codec import Codec
from placer.launch.runtime.wire.meter import Meter

Message = tuple[int, Any]
"""Rank of the peer and a tensor of bytes."""


class Wire:
    """The connections of one rank to some others.

    Parameters
    ----------
    plan, rank
        Who is where.
    members
        Ranks that are connected, this one among them, in the order of the groups' ranks.
    groups
        gloo groups of the members: the manifest's number of streams are as many groups, each with
        TCP connections of its own; messages are cut evenly.
    meter
        Counts what is sent.
    timeout_s
        A peer that does not answer for so long is lost, seconds. gloo closes all connections then.
    place_of
        Place of a member; None: as in the plan.
    """

    def __init__(
        self,
        plan: RunPlan,
        rank: int,
        members: Sequence[int],
        groups: Sequence[Any],
        meter: Meter,
        timeout_s: float,
        place_of: Callable[[int], str] | None = None,
    ) -> None:
        self.place_of = place_of or plan.place_of
        self.rank, self.members, self.groups = rank, tuple(members), groups
        self.meter, self.codec = meter, Codec(plan.exchange.compression)
        self.patience = timedelta(seconds=timeout_s)

    def swap(self, sends: Iterable[Message], receives: Iterable[Message]) -> None:
        """Send and receive messages side by side and wait for all of them.

        Raises
        ------
        PeerLostError
            Names the peer that is gone or silent.
        """
        with self.meter.on_the_wire():
            both = (("recv", receives), ("send", sends))
            works = [
                (peer, work)
                for name, messages in both
                for peer, message in messages
                for work in self._begin(name, peer, message)
            ]
            for peer, work in works:
                self.wait(peer, work)

    def post(self, peer: int, message: Any) -> list[Any]:
        """Begin to send a message and go on; returns what to wait for."""
        return self._begin("send", peer, message, tag=1)

    def take(self, peer: int, message: Any) -> None:
        """Wait for a message that was posted."""
        for work in self._begin("recv", peer, message, tag=1):
            self.wait(peer, work)

    def wait(self, peer: int, work: Any) -> None:
        """Wait until a message has gone or come."""
        try:
            work.wait(self.patience)
        except RuntimeError as error:
            raise PeerLostError(peer, str(error)) from None

    def _begin(self, name: str, peer: int, message: Any, tag: int = 0) -> list[Any]:
        if name == "send":
            self.meter.sent(self.place_of(self.rank), self.place_of(peer), message.numel())
        number, count = self.members.index(peer), len(self.groups)
        parts = message.tensor_split(count) if count > 1 else (message,)
        try:
            return [
                getattr(group, name)([part], number, tag)
                for part, group in zip(parts, self.groups, strict=True)
                if part.numel()
            ]
        except RuntimeError as error:
            raise PeerLostError(peer, str(error)) from None


def gloo_groups(
    store: Any, name: str, number: int, count: int, streams: int, timeout_s: float
) -> list[Any]:
    """Connect some processes over gloo, once for each stream.

    Parameters
    ----------
    store
        A ``torch.distributed`` store at which they meet.
    name
        Of the connections in the store.
    number, count
        Of this process among them.
    """
    import torch.distributed as dist

    return [
        dist.ProcessGroupGloo(
            dist.PrefixStore(f"{name}/{stream}", store),
            number,
            count,
            timedelta(seconds=timeout_s),
        )
        for stream in range(streams if count > 1 else 0)
    ]
