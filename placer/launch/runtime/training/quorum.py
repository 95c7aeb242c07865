"""Exchanges that go on with a quorum of the workers: who takes part in each, who comes back, and
what happens when one is lost in the middle.

Every worker writes into the run's store that it has come to an exchange. ``grace_s`` seconds after
the quorum is there, or when all are whom nobody has given up, the first to see it writes down the
members, and that holds for all. They sum their changes; then each writes whether it could. Where
one could not, those that are left begin again. A worker that was too late takes the parameters that
all agree on at the next exchange, and goes on from there.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.wire.butterfly import butterfly_sum
from placer.launch.runtime.wire.feedback import Feedback
from placer.launch.runtime.wire.members_wire import MembersWire
from placer.launch.runtime.wire.meter import Meter

T = TypeVar("T")
ATTEMPTS = 5
"""To sum the changes of one exchange: in each but the last a worker was lost."""
LOOK_S = 0.02
"""Between two looks into the store."""
UNTIL_EXIT: list[Any] = []
"""Wires that were given up: see `placer.launch.runtime.processes.rank_process`."""
CHANGED, BEHIND = "changed", "behind"
"""What a worker comes to an exchange with: the change of its steps, or none."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an exchange came to.

    Parameters
    ----------
    number
        Of the exchange in which the worker took part: of a late one not that to which it came.
    total
        Mean change of the members; None: the worker was too late for the last exchange.
    taken
        Vectors that all agreed on before this exchange; None: the worker had them.
    """

    number: int
    total: Any
    taken: tuple[Any, ...] | None = None


class Quorum:
    """One worker in the exchanges of a run.

    Parameters
    ----------
    plan
        With its quorum and grace.
    rank, store, meter
        Of the worker.
    shares
        Samples of each worker in a step.
    timeout_s
        So many seconds may pass until a quorum is there, and until a sum is done.
    last
        Number of the last exchange of the run; the first is 0.
    say
        Takes a worker and a line on its leaving (True) or coming back.

    Notes
    -----
    ``away``: this worker came too late for an exchange, and has not followed the others yet.
    """

    def __init__(
        self,
        plan: RunPlan,
        rank: int,
        store: Any,
        meter: Meter,
        shares: dict[int, int],
        timeout_s: float,
        last: int,
        say: Callable[[int, bool, str], None],
    ) -> None:
        assert plan.quorum is not None
        self.plan, self.rank, self.meter, self.shares = plan, rank, meter, shares
        self.needed, self.grace_s, self.timeout_s = plan.quorum, plan.grace_s, timeout_s
        self.last, self.say = last, say
        self.store = store
        self.expected = set(range(plan.workers))
        self.number = 0
        self.wire: MembersWire | None = None
        self.away = False
        if store.check([f"dead/{rank}"]):
            store.delete_key(f"dead/{rank}")
        while self._read(f"quorum/{self.number}/members") is not None:
            self.number += 1
        self.state = BEHIND if self.number else CHANGED  # a process that was started again

    def mean(
        self,
        change: Any,
        vectors: Callable[[], Sequence[Any]],
        feedback: Feedback | None = None,
        elements: Callable[[int], int] | None = None,
    ) -> Outcome:
        """Take part in the next exchange.

        Parameters
        ----------
        change
            Of this worker's parameters; weighted with its share of the samples of those that
            answered.
        vectors
            Returns what all agree on, for workers that come back.
        feedback
            What compression lost of the worker's earlier changes.
        elements
            Length of what an exchange sums, by its number; None: that of ``change``.

        Raises
        ------
        PeerLostError
            If there are fewer workers than the quorum.
        """
        while self.number <= self.last:
            number, self.number = self.number, self.number + 1
            members, joiners = self._gathered(number, self.state)
            outcome = None
            if self.rank in members and self.state == CHANGED:
                outcome = self._summed(number, members, joiners, change, vectors, feedback)
            elif self.rank in joiners:
                length = len(change) if elements is None else elements(number)
                outcome = self._taken(number, members, [*vectors(), change.new_empty(length)])
            if outcome is not None:
                self.state = CHANGED
                return outcome
            self.state, self.away = BEHIND, True
        return Outcome(number=self.last, total=None)

    def _gathered(self, number: int, state: str) -> tuple[list[int], list[int]]:
        """Wait until it is decided who takes part in an exchange: members with a change, and those
        that come back.
        """
        self.store.set(f"quorum/{number}/at/{self.rank}", state)
        began, complete = time.monotonic(), None
        patience = self.timeout_s + (self.plan.timeouts.round_s if state == BEHIND else 0.0)
        while True:
            decided = self._read(f"quorum/{number}/members")
            if decided is None:
                came = self._came(number)
                members = [rank for rank, with_ in came.items() if with_ == CHANGED]
                now, dead = time.monotonic(), self._dead()
                if len(members) >= self.needed:
                    complete = complete or now
                    if self.expected - dead <= set(came) or now - complete >= self.grace_s:
                        joiners = [rank for rank in came if rank not in members]
                        words = json.dumps([members, joiners])
                        self.store.compare_set(f"quorum/{number}/members", "", words)
                        continue
                self._check(number, came, dead, now - began > patience)
                time.sleep(LOOK_S)
                continue
            members, joiners = json.loads(decided)
            self._tell(number, members, joiners)
            return members, joiners

    def _came(self, number: int) -> dict[int, str]:
        """Return the workers that have come to an exchange, with a change or without."""
        came = {r: self._read(f"quorum/{number}/at/{r}") for r in range(self.plan.workers)}
        return {rank: state for rank, state in came.items() if state is not None}

    def _check(self, number: int, came: dict[int, str], dead: set[int], late: bool) -> None:
        """Stop where the quorum cannot be reached any more."""
        missing = sorted(set(range(self.plan.workers)) - set(came))
        if self.plan.workers - len(dead) < self.needed or (late and missing):
            words = f"{len(came)} of the {self.needed} workers of a quorum answered"
            raise PeerLostError(min(dead or missing), words)

    def _tell(self, number: int, members: list[int], joiners: list[int]) -> None:
        """Say who has left and who is back; the first member does."""
        there = {*members, *joiners}
        if self.rank == members[0]:
            for rank in sorted(self.expected - there):
                words = f"{self.plan.rank_name(rank)} has not answered: {len(members)} workers"
                self.say(rank, True, f"{words} exchange without it")
            for rank in joiners:
                self.say(rank, False, f"{self.plan.rank_name(rank)} is back")
        self.expected = there

    def _summed(
        self,
        number: int,
        members: list[int],
        joiners: list[int],
        change: Any,
        vectors: Callable[[], Sequence[Any]],
        feedback: Feedback | None,
    ) -> Outcome | None:
        """Sum the changes of the members, again without those that are lost meanwhile; None: this
        worker was one of them.
        """
        for attempt in range(ATTEMPTS):
            if len(members) < self.needed:
                break
            name = f"quorum/{number}/{attempt}"
            trial = None if feedback is None else feedback.copy()
            weight = self.shares[self.rank] / sum(self.shares[rank] for rank in members)
            total = self._attempt(name, members, change * weight, trial)
            whole, left = self._verdict(name, members, done=total is not None)
            if whole:
                if feedback is not None and trial is not None:
                    feedback.load_state(trial.state())
                if joiners and self.rank == members[0]:
                    self._hand_over(number, joiners, [*vectors(), total])
                return Outcome(number=number, total=total)
            if self.rank not in left:
                return None
            members, self.wire = left, None
        gone = min(set(range(self.plan.workers)) - set(members), default=members[0])
        raise PeerLostError(gone, f"{len(members)} workers could not sum their changes")

    def _attempt(
        self, name: str, members: list[int], change: Any, feedback: Feedback | None
    ) -> Any | None:
        """Sum a vector over the members; None if that failed."""
        kept = self.wire if self.wire is not None and self.wire.members == tuple(members) else None
        meter = Meter()

        def run() -> tuple[MembersWire, Any]:
            wire = kept or self._connected(members, f"{name}/wire", meter)
            wire.meter = meter
            return wire, butterfly_sum(wire, change, members, feedback=feedback)

        result = self._in_time(run, members, f"{name}/done")
        if result is None:
            return None
        self.wire, total = result
        self.meter.absorb(meter)
        return total

    def _verdict(self, name: str, members: list[int], *, done: bool) -> tuple[bool, list[int]]:
        """Tell the others how an attempt ended here; return whether it did everywhere, and who is
        left.
        """
        self.store.set(f"{name}/done/{self.rank}", "yes" if done else "no")
        until = time.monotonic() + self.timeout_s
        while (verdict := self._read(f"{name}/left")) is None:
            said = {rank: self._read(f"{name}/done/{rank}") for rank in members}
            dead = self._dead()
            silent = {rank for rank, word in said.items() if word is None} - dead
            if silent and time.monotonic() < until:
                time.sleep(LOOK_S)
                continue
            whole = all(word == "yes" for word in said.values())
            left = [rank for rank in members if said[rank] and (whole or rank not in dead)]
            self.store.compare_set(f"{name}/left", "", json.dumps([whole, left]))
        whole, left = json.loads(verdict)
        return whole, left

    def _hand_over(self, number: int, joiners: list[int], vectors: Sequence[Any]) -> None:
        """Send vectors to the workers that come back; one that is lost again stays behind."""
        self.store.set(f"quorum/{number}/from", str(self.rank))
        meter = Meter()

        def run() -> bool:
            wire = self._connected([self.rank, *joiners], f"quorum/{number}/back", meter)
            for vector in vectors:
                message = vector.contiguous().view(torch.uint8)
                wire.swap([(rank, message) for rank in joiners], [])
            return True

        import torch

        self._in_time(run, joiners)
        self.meter.absorb(meter)

    def _taken(self, number: int, members: list[int], like: Sequence[Any]) -> Outcome | None:
        """Take vectors from a member of an exchange; None if none comes."""
        import torch

        until = time.monotonic() + 4 * self.timeout_s
        while (source := self._read(f"quorum/{number}/from")) is None:
            if time.monotonic() > until or set(members) <= self._dead():
                return None
            time.sleep(LOOK_S)
        joiners = json.loads(self._read(f"quorum/{number}/members") or "[[], []]")[1]

        def run() -> list[Any]:
            ends = [int(source), *joiners]
            wire = self._connected(ends, f"quorum/{number}/back", Meter())
            taken = [torch.empty_like(vector) for vector in like]
            for vector in taken:
                wire.swap([], [(int(source), vector.view(torch.uint8))])
            return taken

        taken = self._in_time(run, [int(source)])
        if taken is None:
            return None
        return Outcome(number=number, total=taken[-1], taken=tuple(taken[:-1]))

    def _connected(self, members: Sequence[int], name: str, meter: Meter) -> MembersWire:
        # A group waits for its peers inside a client of the store: that of its own.
        own = self.store.clone()
        wire = MembersWire(self.plan, self.rank, own, meter, self.timeout_s, members, name)
        UNTIL_EXIT.append(wire)
        return wire

    def _in_time(
        self, run: Callable[[], T], peers: Sequence[int], done: str | None = None
    ) -> T | None:
        """Return what a function returns, or None if it fails or a peer is lost before it ends.

        Parameters
        ----------
        done
            Under this key of the store peers say ``no`` when they have given up.

        Notes
        -----
        It runs in a thread of its own, which is given up with a peer: it would wait for messages
        that nobody sends any more.
        """
        results: list[T] = []

        def guarded() -> None:
            with suppress(PeerLostError, RuntimeError):
                results.append(run())

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        until = time.monotonic() + self.timeout_s
        while thread.is_alive():
            thread.join(LOOK_S)
            lost = self._dead() & set(peers) or time.monotonic() > until
            refused = done and any(self._read(f"{done}/{rank}") == "no" for rank in peers)
            if (lost or refused) and thread.is_alive():
                return None
        return results[0] if results else None

    def _dead(self) -> set[int]:
        """Return the workers whose launcher has seen them end."""
        workers = range(self.plan.workers)
        return {rank for rank in workers if self.store.check([f"dead/{rank}"])}

    def _read(self, key: str) -> str | None:
        """Read a key of the store without waiting for it."""
        return self.store.get(key).decode() if self.store.check([key]) else None
