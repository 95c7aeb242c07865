"""The lines of ``placer capacity watch``."""

from __future__ import annotations

from placer.advice.policy.watch import Action, Change
from placer.units import SECONDS_PER_HOUR, counted, format_duration, format_usd


def change_line(change: Change) -> str:
    """Say what a tick changes, each action with its cost, and how the job stands."""
    done = "; ".join(_words(action, change) for action in change.actions) or "all stays"
    return f"{change.time:%Y-%m-%d %H:%M}  {done}  |  {_standing(change)}"


def _words(action: Action, change: Change) -> str:
    places, count = change.market.places, action.machines
    where = places[action.place]
    if action.kind == "move":
        assert action.source is not None
        where = f"{places[action.source]} -> {where}"
    cost = f" ({format_usd(action.usd)})" if action.usd else ""
    return f"{action.kind} {count} {where}{cost}"


def _standing(change: Change) -> str:
    if change.latest is None:
        return f"the work is done for {format_usd(change.state.usd)}"
    held = sum(change.state.machines)
    good = ", on-demand for good" if change.state.for_good else ""
    if not held:
        return f"nothing held, slack {_hours(change.slack_h)}, on-demand from {_latest(change)}"
    return (
        f"{counted(held, 'machine')} for {format_usd(change.usd_per_hour)}/h, slack "
        f"{_hours(change.slack_h)}{good or f', on-demand from {_latest(change)} if nothing works'}"
    )


def _latest(change: Change) -> str:
    assert change.latest is not None
    return f"{change.latest:%m-%d %H:%M}"


def _hours(hours: float) -> str:
    sign = "-" if hours < 0 else ""
    return f"{sign}{format_duration(abs(hours) * SECONDS_PER_HOUR)}"


def closing_line(last: Change | None) -> str:
    """Say how the job stands when the feed ends."""
    if last is None:
        return "the feed ended: nothing changed"
    if last.finished:
        return "the work is done"
    held = ", ".join(f"{count} {place}" for place, count in last.held.items()) or "nothing"
    return f"the feed ended: {held} held, {_hours(last.state.done_h)} of work done"
