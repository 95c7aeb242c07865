"""Messages between ranks of an exchange: point to point over gloo, counted by directed pair of
places, and the flat butterfly over them; failures name the peer.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from placer.launch.runtime.codec import Codec
from placer.launch.runtime.run_plan import RunPlan

LOST_WORDS = (
    *("gloo", "nccl", "connection closed", "reset by peer", "broken pipe", "timed out"),
    *("pair closure", "transport error"),
)
"""What torch.distributed says where another process is gone; the last one is torchft's."""


class PeerLostError(Exception):
    """A peer that no longer answers: its rank, if known, and what the transport said first."""

    def __init__(self, rank: int | None, reason: str) -> None:
        super().__init__(f"rank {rank}: {reason}")
        self.rank = rank
        words = re.sub(r"\[[^\]]*\.cc:\d+\]\s*", "", " ".join(reason.split()))
        self.reason = re.sub(r"\. [A-Z].*", "", words)[:200]


def is_peer_loss(error: BaseException) -> bool:
    """Return whether an error of ``torch.distributed`` says that another process is gone."""
    words = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in words for word in LOST_WORDS)


class Meter:
    """Counters from one step to the next: seconds by phase, and of them ``wire_s`` with messages
    under way; bytes by pair of places; requests by bucket and kind. `take` returns and resets them.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin again."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.asked: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.wire_s = 0.0
        self.overlap_s: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the wall-clock seconds of a block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def sent(self, src: str, dst: str, count: int) -> None:
        """Count bytes of a payload that go from a place to a place."""
        self.bytes[src, dst] += count

    def request(self, bucket: str, kind: str) -> None:
        """Count a request to an object store."""
        self.asked[bucket][kind] += 1

    @property
    def requests(self) -> Counter[str]:
        """Return the requests to all object stores by kind."""
        return sum(self.asked.values(), Counter[str]())

    def overlap(self, **seconds: float) -> None:
        """Count an exchange in a thread of its own: ``exchange_s`` beside the calculation of the
        next round, ``waited_s`` after it, ``flushed_s`` before a checkpoint or the run's end.
        """
        for name in ("exchange_s", "waited_s", "flushed_s"):
            self.overlap_s[name] = self.overlap_s.get(name, 0.0) + seconds.get(name, 0.0)

    def absorb(self, other: Meter) -> None:
        """Take over what another meter has counted; it begins again."""
        for name, seconds in other.seconds.items():
            self.seconds[name] += seconds
        self.bytes.update(other.bytes)
        for bucket, kinds in other.asked.items():
            self.asked[bucket].update(kinds)
        self.wire_s += other.wire_s
        other.clear()

    def take(self) -> dict[str, Any]:
        """Return the figures of a record and begin again."""
        exchange = {name: s for name, s in self.seconds.items() if name != "calculation"}
        taken = {
            "calculation_s": self.seconds["calculation"],
            "exchange_s": exchange,
            "wire_s": self.wire_s,
            "sent": [
                {"src": src, "dst": dst, "bytes": count}
                for (src, dst), count in sorted(self.bytes.items())
            ],
            "control_bytes": 0,  # of early runtimes
            "requests": dict(sorted(self.requests.items())),
            "requests_by_bucket": {
                bucket: dict(sorted(kinds.items())) for bucket, kinds in sorted(self.asked.items())
            },
            **({"beside": self.overlap_s} if self.overlap_s else {}),
        }
        self.clear()
        return taken


Message = tuple[int, Any]
"""Rank of the peer and a tensor of bytes."""


class Wire:
    """The connections of one rank to others: ``members`` in the order of the ranks of the gloo
    ``groups``, of which there are as many as streams, each with TCP connections of its own. A peer
    that does not answer for ``timeout_s`` is lost, and gloo closes all connections then.
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
        """Send and receive side by side; `PeerLostError` names a peer that is gone or silent."""
        began, both = time.perf_counter(), (("recv", receives), ("send", sends))
        works = [
            (peer, work)
            for name, messages in both
            for peer, message in messages
            for work in self._begin(name, peer, message)
        ]
        for peer, work in works:
            self.wait(peer, work)
        self.meter.wire_s += time.perf_counter() - began

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


def sum_of_hub(wire: Wire, hub: int, vector: Any, phases: tuple[str, str]) -> Any:
    """Send a vector to a hub and take the sum back; the wait for the slowest is in the second."""
    with wire.meter.phase(phases[0]):
        wire.swap([(hub, wire.codec.encode(vector))], [])
    message = wire.codec.empty(len(vector))
    with wire.meter.phase(phases[1]):
        wire.swap([], [(hub, message)])
    return wire.codec.decode(message, len(vector))


def sum_as_hub(wire: Wire, ranks: Sequence[int], own: Any, phases: tuple[str, str]) -> Any:
    """Add what some ranks send to a vector, in their order, and hand them the sum as encoded."""
    came = {rank: wire.codec.empty(len(own)) for rank in ranks}
    with wire.meter.phase(phases[0]):
        wire.swap([], came.items())
    with wire.meter.phase("reduce"):
        total = own.clone()
        for message in came.values():
            total += wire.codec.decode(message, len(own))
        encoded = wire.codec.encode(total)
    with wire.meter.phase(phases[1]):
        wire.swap([(rank, encoded) for rank in came], [])
    return wire.codec.decode(encoded, len(own))


class Feedback:
    """What a rank's messages have lost so far, in its part of every sum and in the sums it forms;
    ``decay`` is the share of it that is added to the next message.

    Both halves of a butterfly lose: a worker's shards on their way to their owners, and the sums on
    their way back. Each is fed back where it was lost, as DoubleSqueeze does (Tang et al., ICML
    2019). Nothing is lost of a worker's own shard.
    """

    def __init__(self, elements: int, decay: float = 1.0) -> None:
        self.sent, self.summed, self.decay = torch.zeros(elements), torch.zeros(0), decay

    def added(self, vector: Any) -> Any:
        """Return a vector with what its last messages lost."""
        return vector + self.decay * self.sent


def butterfly_sum(
    wire: Wire, vector: Any, members: Sequence[int], feedback: Feedback | None = None
) -> Any:
    """Sum a vector of 32-bit floats on the CPU over some ranks; all get the same new one to the
    last bit. ``feedback`` is added, and keeps what is lost now.

    Shards are added in the order of the members, and the sum of a shard is decoded by its own
    member too, so that rounding to FP16 is the same everywhere.
    """
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
        if feedback is not None and len(feedback.summed) == len(total):
            total = total + feedback.summed
        mine = codec.encode(total)
        own = codec.decode(mine, len(total))
        if feedback is not None:
            feedback.summed = total - own
        sums = {rank: codec.empty(len(shards[rank])) for rank in others}
        wire.swap([(rank, mine) for rank in others], sums.items())
        whole = {rank: codec.decode(sums[rank], len(shards[rank])) for rank in others} | {me: own}
    return torch.cat([whole[rank] for rank in members])
