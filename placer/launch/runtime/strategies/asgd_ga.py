"""ASGD-GA: PyTorch averages inside each region. Every H steps each region sends the gradients it
accumulated to one other and goes on.

Partners rotate as in `placer.problem.exchange.asgd_ga`; each gets what was accumulated since it
last had its turn, so no gradient is lost. What comes is added to the gradient of the next step.
Gradients are weighted with their share of the target batch, so own and late ones of all regions add
up to the mean gradient.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.training.context import Context

WIRED = True


@dataclass(kw_only=True)
class Gossip:
    """The state of a region's first process: gradients accumulated for each other region, sends
    under way, and arrivals.
    """

    accumulated: dict[int, Any] = field(default_factory=dict)
    posted: list[tuple[int, Any, Any]] = field(default_factory=list)
    came: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    takers: list[threading.Thread] = field(default_factory=list)


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
    """Begin to take what other regions will send: one thread each, so that nothing waits."""
    import torch

    state, leaders = Gossip(), context.leaders
    h, settings = context.plan.steps_per_round, context.settings
    turns = range(context.start // h, -(-settings.steps // h))
    for peer in leaders if context.seat.leads and turns else ():
        if peer == context.rank:
            continue
        state.accumulated[peer] = torch.zeros(context.trainer.elements)
        rest = partner(leaders, peer, turns[-1]) != context.rank  # sent at the end
        count = sum(partner(leaders, peer, turn) == context.rank for turn in turns) + rest
        state.takers.append(
            threading.Thread(target=_take, args=(context, state, peer, count), daemon=True)
        )
        state.takers[-1].start()
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
    """Average inside the region, add what came, update; at the end of a round send and go on."""
    gradient, loss = context.gradient(step, context.settings.target_batch_size)
    for accumulated in state.accumulated.values():
        accumulated.add_(gradient)
    context.step_with(_arrived(state))
    if context.ends_round(step):
        turn = step // context.plan.steps_per_round
        with context.meter.phase("send"):
            _settle(context, state)
            _send(context, state, partner(context.leaders, context.rank, turn))
    return loss


def follow(context: Context, state: Gossip, step: int) -> float:
    """Take a step in a process whose region's first one sends."""
    _, loss = context.gradient(step, context.settings.target_batch_size)
    context.step_with(None)
    return loss


def _arrived(state: Gossip) -> Any:
    """Sum the gradients that came since the last look; None if there are none."""
    total = None
    while True:
        try:
            arrival = state.came.get_nowait()
        except Empty:
            return total
        if isinstance(arrival, PeerLostError):
            raise arrival
        total = arrival if total is None else total + arrival


def _send(context: Context, state: Gossip, to: int) -> None:
    """Hand over what was accumulated for a region, without waiting, and begin anew."""
    wire = context.connected
    message = wire.codec.encode(state.accumulated[to]).clone()
    state.posted += [(to, work, message) for work in wire.post(to, message)]
    state.accumulated[to].zero_()


def _settle(context: Context, state: Gossip) -> None:
    """Wait until the last sends are taken: their memory is free then."""
    posted, state.posted = state.posted, []
    for to, work, _ in posted:
        context.connected.wait(to, work)


def serve(context: Context, state: Gossip, step: int) -> None:
    """Do nothing: there is no hub."""


def close(context: Context, state: Gossip) -> None:
    """Send what has not had its turn, take all that is on its way, and one last step with it."""
    if state.accumulated:
        last = (context.settings.steps - 1) // context.plan.steps_per_round
        served = partner(context.leaders, context.rank, last)
        for to in set(state.accumulated) - {served}:
            _send(context, state, to)
    for thread in state.takers:
        thread.join()
    _settle(context, state)
    context.step_with(_arrived(state), needed=True)
