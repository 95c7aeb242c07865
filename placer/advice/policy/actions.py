"""What a decision changes, place by place, and what each change costs."""

from __future__ import annotations

from dataclasses import dataclass

from placer.advice.policy.job import Job, Market, Observation
from placer.advice.policy.state import State, checkpoint_usd


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One change: ``lose``, ``add``, ``drop`` or ``move`` machines.

    Notes
    -----
    ``usd`` is what the change itself costs: the hours that machines of its place are paid without
    work, and the checkpoint that goes to a new place. ``source`` is the place that a move leaves.
    """

    kind: str
    place: int
    machines: int
    usd: float
    source: int | None = None


def actions_of(
    before: State, kept: State, held: State, seen: Observation, job: Job, market: Market
) -> tuple[Action, ...]:
    """List what happens between two ticks, losses first.

    Parameters
    ----------
    before, kept, held
        The job before losses, after them, and after the decision.

    Notes
    -----
    Where a place is left and another one is new, the larger ones are paired as moves.
    """
    losses = [
        Action(
            kind="lose",
            place=place,
            machines=was - left,
            usd=_waits(before, kept, place, seen, market),
        )
        for place, (was, left) in enumerate(zip(before.machines, kept.machines, strict=True))
        if left < was
    ]
    adds, drops = [], []
    for place, (was, count) in enumerate(zip(kept.machines, held.machines, strict=True)):
        if count > was:
            usd = _waits(kept, held, place, seen, market)
            if not was:
                usd += checkpoint_usd(kept, place, job, market)
            adds.append(Action(kind="add", place=place, machines=count - was, usd=usd))
        elif count < was:
            usd = max(0.0, _waits(kept, held, place, seen, market))
            drops.append(Action(kind="drop", place=place, machines=was - count, usd=usd))
    return (*losses, *_paired(adds, drops, kept, held))


def _paired(
    adds: list[Action], drops: list[Action], kept: State, held: State
) -> tuple[Action, ...]:
    """Join the places that are left with those that are new."""
    new = sorted((a for a in adds if not kept.machines[a.place]), key=lambda a: -a.machines)
    left = sorted((d for d in drops if not held.machines[d.place]), key=lambda d: -d.machines)
    moves = [
        Action(
            kind="move",
            place=add.place,
            machines=add.machines,
            usd=add.usd + drop.usd,
            source=drop.place,
        )
        for add, drop in zip(new, left, strict=False)
    ]
    gone = {move.source for move in moves}
    come = {move.place for move in moves}
    return (
        *moves,
        *(add for add in adds if add.place not in come),
        *(drop for drop in drops if drop.place not in gone),
    )


def _waits(old: State, new: State, place: int, seen: Observation, market: Market) -> float:
    """Price the machine-hours without work that a place has more than before."""
    hours = [state.machines[place] * state.wait_h[place] for state in (old, new)]
    on_demand = place == market.on_demand
    usd = market.on_demand_usd_per_hour if on_demand else seen.usd_per_hour[place]
    return max(0.0, hours[1] - hours[0]) * usd
