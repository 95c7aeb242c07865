"""Watch: the policy that replay judges, run on a feed as it is written."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import to_builtins

from placer.advice.policy.policies import (
    State,
    after_losses,
    checkpoint_usd,
    decide,
    ran,
    span,
    start,
)
from placer.advice.policy.trace import MEMORY_H, Job, Market, Observation, observed
from placer.documents.schemas.worlds import Action, Watch
from placer.errors import PlacerError, unknown
from placer.files.growing_file import Line
from placer.market.launch_log import observation, zones_of
from placer.records import replace

Array = npt.NDArray[Any]
Kind = Literal["lose", "add", "drop", "move"]
END = "end"
"""A line that says that nothing follows."""
RECENT = 12
"""Gaps between lines whose median is how long the next one is expected to take."""
MOST_ROWS = 5_000
Priced = Callable[[tuple[str, ...]], tuple[Array, Market]]
"""Prices of zones, shape (zones,), and their market."""


class Change(Watch, frozen=True):
    """One tick that changes something: what is done, and what is held from then on."""

    def to_dict(self) -> dict[str, Any]:
        """Build one ``placer.watch/v1`` line."""
        document: dict[str, Any] = to_builtins(self)
        return document


def _utc(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def watch(
    lines: Iterable[Line],
    job: Job,
    priced: Priced,
    *,
    tick_h: float,
    held: Mapping[str, int],
    done_h: float = 0.0,
) -> Iterator[Change]:
    """Decide at each line of a feed, and yield the ticks that change something.

    Each file of a folder begins with its header. ``priced`` is called once, with the zones of the
    feed; ``tick_h`` is how long the next line is waited for until some have come; ``held`` and
    ``done_h`` are spot machines and hours of work when the feed begins. Machines that are gone
    count as gone since the line before, and the deadline is taken one tick earlier: a tick in which
    everything is lost still leaves time for a restart. Raises PlacerError, which names the file,
    line and column that are wrong, or a zone that the feed does not have.
    """
    ready: tuple[Array, Market] | None = None
    rows: deque[list[int]] = deque(maxlen=MOST_ROWS)
    gaps: deque[float] = deque(maxlen=RECENT)
    last: datetime | None = None
    for zones, time, counts in _observations(lines):
        if ready is None:
            ready = priced(zones)
            state = _begun(start(job, ready[1]), held, done_h)
        prices, _ = ready
        elapsed_h = 0.0 if last is None else (time - last).total_seconds() / 3600
        if last is not None:
            gaps.append(elapsed_h)
        expected_h = max(tick_h if len(gaps) < RECENT else 0.0, median(gaps or [tick_h]))
        last = time
        rows.append([
            rows[-1][zone] if count < 0 and rows else max(0, count)
            for zone, count in enumerate(counts)
        ])  # fmt: skip
        launched = np.array(rows)[-max(3, round(MEMORY_H / expected_h) + 1) :]
        usd = np.broadcast_to(prices, launched.shape)
        seen = observed(launched, usd, expected_h, job)[-1]
        kept = _after(state, seen, elapsed_h)
        if kept.finished:
            decided = replace(kept, machines=kept.nothing)
        else:
            deadline_h = max(job.work_h + job.restart_h, job.deadline_h - expected_h)
            early = replace(kept, job=replace(job, deadline_h=deadline_h))
            decided = replace(decide(early, seen, expected_h, span), job=job)
        if decided.machines != state.machines or decided.for_good != state.for_good:
            yield _change(time, state, kept, decided, seen)
        if kept.finished:
            return
        state = decided


def _observations(lines: Iterable[Line]) -> Iterator[tuple[tuple[str, ...], datetime, list[int]]]:
    """Read lines: zones as in the first header, when, and machines in that order."""
    zones: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    last: datetime | None = None
    for line in lines:
        text = line.text.strip()
        if text == END:
            return
        if not text:
            continue
        try:
            cells = next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise PlacerError(
                f"{line.where}: not valid CSV: {error}", "check the quotes of this line"
            ) from None
        if line.number == 1 or not head:
            head = zones_of(cells, line.where)
            zones = zones or head
            if set(head) != set(zones):
                raise PlacerError(
                    f"{line.where}: other zones than at the beginning of the feed",
                    "keep the same zones in every file",
                )
            continue
        last, counts = observation(cells, head, line.where, last)
        yield zones, last, [counts[head.index(zone)] for zone in zones]


def _begun(state: State, held: Mapping[str, int], done_h: float) -> State:
    zones = state.market.zones
    for zone in held:
        if zone not in zones:
            raise unknown("zone", zone, zones)
    machines = [held.get(zone, 0) for zone in zones]
    last, done_h = machines.index(max(machines)) if held else None, min(done_h, state.job.work_h)
    return replace(state, machines=(*machines, 0), done_h=done_h, last=last)


def _after(state: State, seen: Observation, elapsed_h: float) -> State:
    """Count what was done since the line before without what is gone; the rest has to re-form."""
    kept = after_losses(state, seen)
    if not elapsed_h:
        return kept
    after = ran(kept, elapsed_h, seen.usd_per_hour)
    pairs = zip(state.machines, kept.machines, kept.wait_h, after.wait_h, strict=True)
    return replace(
        after, wait_h=tuple(waits if left < was else rest for was, left, waits, rest in pairs)
    )


def _change(
    time: datetime, before: State, kept: State, decided: State, seen: Observation
) -> Change:
    market = decided.market
    slack_h, finished = decided.slack_h, decided.finished
    usd = (*seen.usd_per_hour, market.on_demand_usd_per_hour)
    latest = time + timedelta(hours=max(0.0, slack_h - decided.job.restart_h))
    pairs = zip(market.places, decided.machines, strict=True)
    return Change(
        utc=_utc(time),
        actions=actions_of(before, kept, decided, seen),
        held={place: count for place, count in pairs if count},
        usd_per_hour=sum(count * price for count, price in zip(decided.machines, usd, strict=True)),
        usd=decided.usd,
        done_hours=decided.done_h,
        slack_hours=slack_h,
        latest_on_demand=None if finished else _utc(latest),
        on_demand_for_good=decided.for_good,
        finished=finished,
    )


def actions_of(before: State, kept: State, held: State, seen: Observation) -> list[Action]:
    """List what happens between two ticks, losses first: before them, after them, and as decided.

    Where a place is left and another one is new, the larger ones are paired as moves.
    """
    places = held.market.places

    def action(kind: Kind, old: State, new: State, at: int) -> Action:
        usd, count = _waits(old, new, at, seen), new.machines[at]
        if kind == "add" and not old.machines[at]:
            usd += checkpoint_usd(kept, at)
        machines = abs(count - old.machines[at])
        return Action(action=kind, place=places[at], machines=machines, usd=usd, from_=None)

    was, left, then = before.machines, kept.machines, held.machines
    every = range(len(then))
    losses = [action("lose", before, kept, at) for at in every if left[at] < was[at]]
    adds = {at: action("add", kept, held, at) for at in every if then[at] > left[at]}
    drops = {at: action("drop", kept, held, at) for at in every if then[at] < left[at]}
    new = sorted((at for at in adds if not left[at]), key=lambda at: -adds[at].machines)
    gone = sorted((at for at in drops if not then[at]), key=lambda at: -drops[at].machines)
    moves = []
    for to, source in zip(new, gone, strict=False):
        add, drop = adds.pop(to), drops.pop(source)
        moves.append(replace(add, action="move", usd=add.usd + drop.usd, from_=drop.place))
    return [*losses, *moves, *adds.values(), *drops.values()]


def _waits(old: State, new: State, place: int, seen: Observation) -> float:
    """Price the machine-hours without work that a place has more than before."""
    hours = [state.machines[place] * state.wait_h[place] for state in (old, new)]
    usd = (*seen.usd_per_hour, new.market.on_demand_usd_per_hour)[place]
    return max(0.0, hours[1] - hours[0]) * usd
