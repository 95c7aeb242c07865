"""ASGD-GA: regions are synchronous inside. Every H steps each sends the gradients it accumulated to
one other region and goes on.

Partners rotate as in `placer.problem.exchange.asgd_ga`; each gets what was accumulated since it
last had its turn, so no gradient is lost. What comes is added to the gradient of the next step.
Gradients are weighted with their share of the target batch, so own and late ones of all regions add
up to the mean gradient.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire.butterfly import butterfly_sum

WIRED = True
REPLICATED = False
ELASTIC = True


@dataclass(kw_only=True)
class Gossip:
    """The state of a leader: gradients accumulated for each other leader, sends under way,
    arrivals, and lost leaders.
    """

    accumulated: dict[int, Any] = field(default_factory=dict)
    posted: list[tuple[int, Any, Any]] = field(default_factory=list)
    came: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    takers: dict[int, threading.Thread] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)


def partner(leaders: tuple[int, ...], leader: int, exchange: int) -> int:
    """Return the leader to whom a leader sends in an exchange: all others take turns.

    Examples
    --------
    >>> [partner((0, 2, 4), 0, e) for e in range(4)]
    [2, 4, 2, 4]
    """
    count = len(leaders)
    return leaders[(leaders.index(leader) + 1 + exchange % (count - 1)) % count]


def open(context: Context) -> Gossip:  # noqa: A001 - the protocol's word
    """Begin to take what other leaders will send: one thread each, so that nothing waits."""
    import torch

    state = Gossip()
    ranks, leaders = context.region(), context.leaders
    h, settings = context.plan.steps_per_round, context.settings
    turns = range(context.start // h, -(-settings.steps // h))
    if context.rank == ranks[0] and turns:
        for peer in (leader for leader in leaders if leader != context.rank):
            state.accumulated[peer] = torch.zeros(context.trainer.elements)
            rest = partner(leaders, peer, turns[-1]) != context.rank  # sent at the end
            count = sum(partner(leaders, peer, turn) == context.rank for turn in turns) + rest
            if count:
                state.takers[peer] = threading.Thread(
                    target=_take, args=(context, state, peer, count), daemon=True
                )
                state.takers[peer].start()
    return state


def _take(context: Context, state: Gossip, peer: int, count: int) -> None:
    wire = context.connected
    for _ in range(count):
        message = wire.codec.empty(context.trainer.elements)
        try:
            wire.take(peer, message)
        except PeerLostError as lost:
            state.came.put(lost)
            return
        state.came.put(wire.codec.decode(message))


def step(context: Context, state: Gossip, step: int) -> float:
    """Add what came to the own gradient, sum inside the region, update; at the end of a round send
    and go on.
    """
    ranks, leaders = context.region(), context.leaders
    gradient, loss = context.gradient(step, context.settings.target_batch_size)
    foreign = _arrived(context, state, step)
    total = butterfly_sum(
        context.connected,
        gradient if foreign is None else gradient + foreign,
        ranks,
        " inside regions",
    )
    for accumulated in state.accumulated.values():
        accumulated.add_(total if foreign is None else total - foreign)
    context.update(total)
    if context.ends_round(step) and context.rank == ranks[0]:
        with context.meter.phase("send"):
            _settle(context, state, step)
            _send(
                context,
                state,
                partner(leaders, context.rank, step // context.plan.steps_per_round),
                step,
            )
    return loss


def _arrived(context: Context, state: Gossip, step: int) -> Any:
    """Sum the gradients that came since the last look; None if there are none."""
    total = None
    while True:
        try:
            arrival = state.came.get_nowait()
        except Empty:
            return total
        if isinstance(arrival, PeerLostError):
            _drop(context, state, arrival, step)
        else:
            total = arrival if total is None else total + arrival


def _send(context: Context, state: Gossip, to: int, step: int) -> None:
    """Hand over what was accumulated for a leader, without waiting, and begin anew."""
    wire = context.connected
    if to not in state.dead:
        message = wire.codec.encode(state.accumulated[to]).clone()
        try:
            state.posted += [(to, work, message) for work in wire.post(to, message)]
        except PeerLostError as lost:
            _drop(context, state, lost, step)
    state.accumulated[to].zero_()


def _settle(context: Context, state: Gossip, step: int) -> None:
    """Wait until the last sends are taken, for a time-out each: their memory is free then."""
    posted, state.posted = state.posted, []
    for to, work, _ in posted:
        failed: list[str] = []
        thread = threading.Thread(
            target=_wait, args=(work, context.connected.patience, failed), daemon=True
        )
        thread.start()
        thread.join(context.settings.timeout_s)
        if thread.is_alive() or failed:
            _drop(
                context,
                state,
                PeerLostError(to, failed[0] if failed else "does not take what is sent"),
                step,
            )


def _wait(work: Any, patience: timedelta, failed: list[str]) -> None:
    try:
        work.wait(patience)
    except RuntimeError as error:
        failed.append(str(error))


def _drop(context: Context, state: Gossip, lost: PeerLostError, step: int) -> None:
    """Give up the region of a leader."""
    if not context.settings.elastic:
        raise lost
    if lost.rank not in state.dead:
        state.dead.add(lost.rank)
        region = dict(context.plan.regions)[context.plan.place_of(lost.rank)]
        for rank in region:
            context.notice(
                rank,
                f"{context.plan.rank_name(rank)} is gone in step {step}: its region takes no part "
                "any more",
            )


def serve(context: Context, state: Gossip, step: int) -> None:
    """Do nothing: there is no hub."""


def close(context: Context, state: Gossip) -> None:
    """Send what has not had its turn, take all that is on its way, and one last step with it."""
    last = context.settings.steps
    ranks, leaders = context.region(), context.leaders
    if state.accumulated:
        served = partner(leaders, context.rank, (last - 1) // context.plan.steps_per_round)
        for to in set(state.accumulated) - {served}:
            _send(context, state, to, last)
    until = time.monotonic() + context.settings.timeout_s
    for peer, thread in state.takers.items():
        thread.join(max(0.0, until - time.monotonic()) if context.settings.elastic else None)
        if thread.is_alive():
            state.came.put(PeerLostError(peer, "sends nothing any more"))
    _settle(context, state, last)
    late = _arrived(context, state, last)
    mine = context.trainer.vector().zero_() if late is None else late
    total = butterfly_sum(context.connected, mine, ranks, " inside regions")
    if bool(total.any()):
        context.update(total)
