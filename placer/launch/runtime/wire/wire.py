"""Messages between ranks: point to point over gloo, counted by directed pair of places; failures
name the peer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.wire.codec import Codec
from placer.launch.runtime.wire.meter import Meter

Message = tuple[int, Any]
"""Rank of the peer and a tensor of bytes."""


class Wire:
    """The connections of one rank to all others.

    Parameters
    ----------
    plan, rank
        Who is where.
    store
        A ``torch.distributed`` store at which all ranks meet.
    meter
        Counts what is sent.
    timeout_s
        A peer that does not answer for so long is lost, seconds. gloo closes all connections then.
    backend
        gloo's name in ``torch.distributed``.
    lane
        Name of the connections of equal processes of several islands, which run side by side; None:
        each worker is one process.

    Notes
    -----
    The manifest's number of streams are as many process groups, each with TCP connections of its
    own; messages are cut evenly.
    """

    def __init__(
        self,
        plan: RunPlan,
        rank: int,
        store: Any,
        meter: Meter,
        timeout_s: float,
        backend: str = "gloo",
        lane: str | None = None,
    ) -> None:
        import torch.distributed as dist

        self.plan, self.rank, self.meter = plan, rank, meter
        self.codec = Codec(plan.exchange.compression)
        self.patience = timedelta(seconds=timeout_s)
        self.lane = lane
        if lane is not None:  # the default group is the island's own
            self.groups: list[Any] = lane_groups(plan, rank, store, self.patience, lane)
            return
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=plan.ranks, timeout=self.patience
        )
        self.groups = [
            None,
            *(
                dist.new_group(backend=backend, timeout=self.patience)
                for _ in range(plan.exchange.streams - 1)
            ),
        ]

    def swap(
        self,
        sends: Iterable[Message],
        receives: Iterable[Message],
        *,
        tolerate: bool = False,
        control: bool = False,
    ) -> set[int]:
        """Send and receive messages side by side and wait for all of them.

        Parameters
        ----------
        tolerate
            Return the peers that are gone instead of raising `PeerLostError`.
        control
            The messages are no payload: counted apart.
        """
        with self.meter.on_the_wire():
            return self._swap(sends, receives, tolerate=tolerate, control=control)

    def _swap(
        self,
        sends: Iterable[Message],
        receives: Iterable[Message],
        *,
        tolerate: bool,
        control: bool,
    ) -> set[int]:
        import torch.distributed as dist

        waiting, lost = [], set()
        for operation, messages in ((dist.irecv, receives), (dist.isend, sends)):
            for peer, message in messages:
                if message.numel() == 0:
                    continue
                if operation is dist.isend:
                    self._count(peer, message.numel(), control=control)
                try:
                    waiting += [
                        (peer, work, message) for work in self._begin(operation, peer, message)
                    ]
                except RuntimeError as error:
                    lost.add(self._lost(peer, error, tolerate=tolerate))
        for peer, work, _ in waiting:
            if peer in lost:
                continue
            try:
                work.wait(self.patience)
            except RuntimeError as error:
                lost.add(self._lost(peer, error, tolerate=tolerate))
        return lost

    def swap_each(
        self,
        sends: Iterable[Message],
        receives: Iterable[Message],
        seconds: float,
        *,
        control: bool = False,
    ) -> set[int]:
        """Send and receive as `swap` does, one thread for each peer; returns those that failed or
        did not end in time.

        Notes
        -----
        gloo closes all connections when one wait times out, so the deadline is kept here; the
        thread of a silent peer waits on.
        """
        jobs: dict[int, tuple[list[Message], list[Message]]] = {}
        for which, messages in enumerate((sends, receives)):
            for peer, message in messages:
                jobs.setdefault(peer, ([], []))[which].append((peer, message))
        done: dict[int, set[int]] = {}

        def one(peer: int) -> None:
            done[peer] = self._swap(*jobs[peer], tolerate=True, control=control)

        threads = [threading.Thread(target=one, args=(peer,), daemon=True) for peer in jobs]
        until = time.monotonic() + seconds
        with self.meter.on_the_wire():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))
        return {peer for peer in jobs if done.get(peer, {peer})}

    def post(self, peer: int, message: Any) -> list[Any]:
        """Begin to send a message and go on; returns what to wait for."""
        import torch.distributed as dist

        self._count(peer, message.numel(), control=False)
        try:
            return self._begin(dist.isend, peer, message, tag=1)
        except RuntimeError as error:
            raise PeerLostError(peer, str(error)) from None

    def take(self, peer: int, message: Any) -> None:
        """Wait for a message that was posted."""
        import torch.distributed as dist

        try:
            for work in self._begin(dist.irecv, peer, message, tag=1):
                work.wait(self.patience)
        except RuntimeError as error:
            raise PeerLostError(peer, str(error)) from None

    def _begin(self, operation: Any, peer: int, message: Any, tag: int = 0) -> list[Any]:
        import torch.distributed as dist

        parts: Sequence[Any] = (
            message.tensor_split(len(self.groups)) if len(self.groups) > 1 else (message,)
        )
        if self.lane is not None:
            calls = [g.send if operation is dist.isend else g.recv for g in self.groups]
            pairs = zip(parts, calls, strict=True)
            return [call([part], peer, tag) for part, call in pairs if part.numel()]
        return [
            operation(part, peer, group=group, tag=tag)
            for part, group in zip(parts, self.groups, strict=True)
            if part.numel()
        ]

    def _count(self, peer: int, size: int, *, control: bool) -> None:
        if control:
            self.meter.control_bytes += size
        else:
            self.meter.sent(self.plan.place_of(self.rank), self.plan.place_of(peer), size)

    @staticmethod
    def _lost(peer: int, error: RuntimeError, *, tolerate: bool) -> int:
        if not tolerate:
            raise PeerLostError(peer, str(error)) from None
        return peer


def lane_groups(plan: RunPlan, rank: int, store: Any, patience: timedelta, lane: str) -> list[Any]:
    """Connect one process of each island over gloo, once for each stream."""
    import torch.distributed as dist

    return [
        dist.ProcessGroupGloo(
            dist.PrefixStore(f"lane/{lane}/{stream}", store), rank, plan.ranks, patience
        )
        for stream in range(plan.exchange.streams if plan.ranks > 1 else 0)
    ]
