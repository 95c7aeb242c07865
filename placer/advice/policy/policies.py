"""Policies: the state of a job between ticks, and where it runs in the next one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from placer.advice.policy.trace import Job, Market, Observation
from placer.records import replace

Machines = tuple[int, ...]
"""Machines of each place: the zones in order, then the on-demand place."""
EPSILON_H = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A job in its market at the beginning of a tick.

    ``wait_h`` are the hours that the machines of each place are paid before they work. ``last`` is
    the place that held the job last. ``for_good``: only on-demand machines from now on.
    """

    job: Job
    market: Market
    machines: Machines
    wait_h: tuple[float, ...]
    now_h: float = 0.0
    done_h: float = 0.0
    last: int | None = None
    for_good: bool = False
    machine_usd: float = 0.0
    checkpoint_usd: float = 0.0
    exchange_usd: float = 0.0
    on_demand_h: float = 0.0
    idle_h: float = 0.0
    spread_h: float = 0.0
    moves: int = 0
    lost: int = 0

    @property
    def usd(self) -> float:
        """Dollars so far."""
        return self.machine_usd + self.checkpoint_usd + self.exchange_usd

    @property
    def places(self) -> list[int]:
        """Places in which machines are held."""
        return [place for place, count in enumerate(self.machines) if count]

    @property
    def left_h(self) -> float:
        """Hours of work that are left."""
        return max(0.0, self.job.work_h - self.done_h)

    @property
    def finished(self) -> bool:
        """Whether all work is done."""
        return self.left_h <= EPSILON_H

    @property
    def slack_h(self) -> float:
        """Hours until the deadline that the work itself does not need."""
        return self.job.deadline_h - self.now_h - self.left_h

    def all_in(self, place: int) -> Machines:
        """Return all machines of the job in one place and none elsewhere."""
        return tuple(self.job.machines if at == place else 0 for at in range(len(self.machines)))

    @property
    def nothing(self) -> Machines:
        """No machines anywhere."""
        return (0,) * len(self.machines)


def start(job: Job, market: Market) -> State:
    """Return the state of a job that holds nothing."""
    count = market.on_demand + 1
    return State(job=job, market=market, machines=(0,) * count, wait_h=(0.0,) * count)


def after_losses(state: State, seen: Observation) -> State:
    """Take away the machines that are not there any more; what is left of an island re-forms."""
    machines, wait_h, lost = list(state.machines), list(state.wait_h), 0
    re_forms_h = min(state.job.reform_h, state.job.restart_h)
    for zone, there in enumerate(seen.launched):
        if machines[zone] > there:
            lost += machines[zone] - there
            machines[zone] = there
            wait_h[zone] = max(wait_h[zone], re_forms_h) if there else 0.0
    if not lost:
        return state
    return replace(state, machines=tuple(machines), wait_h=tuple(wait_h), lost=state.lost + lost)


def changed(state: State, target: Machines) -> State:
    """Hold other machines: joiners wait a restart, their island re-forms, a new place gets the
    checkpoint.

    The wait of an island is the mean over its machines: they are paid for that many hours without
    work. Nothing takes longer than to start the whole island anew.
    """
    if target == state.machines:
        return state
    job, wait_h, usd, moves = state.job, list(state.wait_h), 0.0, 0
    for place, (before, count) in enumerate(zip(state.machines, target, strict=True)):
        if count == before:
            continue
        if count == 0:
            wait_h[place] = 0.0
        elif before == 0:
            wait_h[place] = job.restart_h
            usd += checkpoint_usd(state, place)
            moves += bool(state.places) or state.last not in (None, place)
        else:
            joined = max(0, count - before)
            mean = (wait_h[place] * (count - joined) + job.restart_h * joined) / count
            wait_h[place] = min(job.restart_h, mean + job.reform_h)
    return replace(
        state,
        machines=target,
        wait_h=tuple(wait_h),
        checkpoint_usd=state.checkpoint_usd + usd,
        moves=state.moves + moves,
    )


def checkpoint_usd(state: State, place: int) -> float:
    """Price the checkpoint that goes to a new place, from the cheapest that is held or the last."""
    sources = state.places or ([] if state.last is None else [state.last])
    table = state.market.egress_usd_per_gib
    return state.job.checkpoint_gib * min((table[at][place] for at in sources), default=0.0)


def work_in(state: State, hours: float) -> float:
    """Return the hours of work that the machines do in so many hours.

    Between two ends of a wait the speed is one; it is never more than that of all machines.
    """
    if sum(state.machines) < state.job.quorum * state.job.machines - EPSILON_H:
        return 0.0
    held = [pair for pair in zip(state.wait_h, state.machines, strict=True) if pair[1]]
    edges = sorted({0.0, hours, *(wait for wait, _ in held if 0 < wait < hours)})
    work = 0.0
    for begin, end in pairwise(edges):
        working = sum(count for wait, count in held if wait <= begin)
        work += (end - begin) * state.job.speed(working, len(held))
    return work


def hours_for(state: State, work_h: float, most_h: float) -> float:
    """Return the hours after which so much work is done; at most ``most_h``."""
    if work_in(state, most_h) <= work_h:
        return most_h
    edges = sorted({min(wait, most_h) for wait in state.wait_h} | {0.0, most_h})
    for begin, end in pairwise(edges):  # between edges work grows evenly
        before, after = work_in(state, begin), work_in(state, end)
        if after > work_h:
            return begin + (end - begin) * (work_h - before) / (after - before)
    return most_h


def ran(state: State, hours: float, usd_per_hour: Sequence[float]) -> State:
    """Run the held machines for so many hours, or until the work is done."""
    work, held = work_in(state, hours), state.places
    if work >= state.left_h - EPSILON_H:
        hours, work = hours_for(state, state.left_h, hours), state.left_h
    usd = (*usd_per_hour, state.market.on_demand_usd_per_hour)
    price = sum(state.machines[place] * usd[place] for place in held)
    return replace(
        state,
        now_h=state.now_h + hours,
        done_h=state.done_h + work,
        wait_h=tuple(max(0.0, wait - hours) for wait in state.wait_h),
        last=held[0] if held else state.last,
        machine_usd=state.machine_usd + hours * price,
        exchange_usd=state.exchange_usd + hours * exchange_usd_per_hour(held, state),
        on_demand_h=state.on_demand_h + hours * state.machines[state.market.on_demand],
        idle_h=state.idle_h + (0.0 if held else hours),
        spread_h=state.spread_h + (hours if len(held) > 1 else 0.0),
    )


def exchange_usd_per_hour(held: Sequence[int], state: State) -> float:
    """Price what places exchange in an hour: to and from each of them but the first."""
    table = state.market.egress_usd_per_gib
    return state.job.exchange_gib_per_h * sum(
        table[held[0]][place] + table[place][held[0]] for place in held[1:]
    )


Rule = Callable[[State, Observation, float], Machines]
"""Machines to hold in the next tick, from the state after losses; pure."""
LEAST_ISLAND = 2
"""Fewer spot machines in a place are not worth a place."""
MOST_ZONES = 4
"""Spot zones at once."""
RESERVE_H = 1.0
"""Hours before the deadline at which the uniform pace ends."""
MOST_PATIENCE = 0.5
"""Share of the slack, at most, that is waited for spot machines before the uniform pace begins."""
AHEAD_H = 0.5
"""Hours of work ahead of the pace at which on-demand machines are given back."""
HYSTERESIS = 2.0
"""A move of everything into one zone must save so many times what it costs."""
Held = dict[int, int]
"""Spot machines by zone."""


def step(state: State, seen: Observation, tick_h: float, rule: Rule) -> tuple[State, State]:
    """Decide and run one tick; return the state after the decision and the one after the tick."""
    tick_h = min(tick_h, max(0.0, state.job.deadline_h - state.now_h))
    held = decide(after_losses(state, seen), seen, tick_h, rule)
    return held, ran(held, tick_h, seen.usd_per_hour)


def decide(kept: State, seen: Observation, tick_h: float, rule: Rule) -> State:
    """Return the state with the machines of the next tick, from the one after losses.

    No deadline is missed: before each tick, if the slack after it would not cover a restart, all
    machines become on-demand for good. Slack covers a restart at the beginning, a tick is only run
    if it still does afterwards, and on-demand machines need no more than that.
    """
    if not kept.for_good:
        held = changed(kept, rule(kept, seen, tick_h))
        work_h = work_in(held, tick_h)
        slack_h = held.slack_h - tick_h + work_h
        if work_h >= held.left_h - EPSILON_H or slack_h >= held.job.restart_h - EPSILON_H:
            return held
    return replace(changed(kept, kept.all_in(kept.market.on_demand)), for_good=True)


def on_demand(state: State, seen: Observation, tick_h: float) -> Machines:
    """Hold on-demand machines from the first tick on."""
    return state.all_in(state.market.on_demand)


def fixed(zone: int) -> Rule:
    """Make the rule that waits for all machines in one zone, whatever happens elsewhere."""

    def rule(state: State, seen: Observation, tick_h: float) -> Machines:
        fits = seen.launched[zone] >= state.job.machines
        return state.all_in(zone) if fits else state.nothing

    return rule


def migrate(*, pace: bool) -> Rule:
    """Make the rule that holds all machines in one zone and moves when they are gone.

    ``pace``: on-demand machines keep the job at a uniform pace while no zone has room; else it
    waits for spot machines as long as the slack allows. The zone is the cheapest one at its price
    and the restarts and egress that its life makes likely: SkyNomad (NSDI 2027); the pace is that
    of Can't Be Late (NSDI 2024), with the hysteresis that leaves on-demand machines only when the
    job is two restarts ahead.
    """

    def rule(state: State, seen: Observation, tick_h: float) -> Machines:
        job, n, od = state.job, state.job.machines, state.market.on_demand
        at = next((place for place, count in enumerate(state.machines) if count >= n), None)
        if at is not None and at != od:
            return state.machines
        fit = [zone for zone, there in enumerate(seen.launched) if there >= n]
        slack = state.slack_h
        if fit and slack > 2 * job.restart_h + 2 * tick_h - EPSILON_H:
            best = min(fit, key=lambda zone: _effective_usd(zone, state, seen))
            return state.all_in(best)
        if at == od and (
            slack <= 2 * job.restart_h + 3 * tick_h
            or (pace and state.done_h < _uniform_h(state.now_h + 2 * job.restart_h, job))
        ):
            return state.machines
        if pace and state.done_h < _uniform_h(state.now_h, job) - EPSILON_H:
            return state.all_in(od)
        return state.nothing

    return rule


def _effective_usd(zone: int, state: State, seen: Observation) -> float:
    """Price of an hour with the restarts and the egress that the zone's life makes likely."""
    job, life, egress = state.job, seen.life_h[zone], 0.0
    if state.last is not None:
        usd_per_gib = state.market.egress_usd_per_gib[state.last][zone]
        egress = job.checkpoint_gib * usd_per_gib / job.machines
    return seen.usd_per_hour[zone] * (1 + job.restart_h / life) + egress / life


def _uniform_h(now_h: float, job: Job, begin_h: float = 0.0, end_h: float = math.inf) -> float:
    """Return the hours of work that a uniform pace from one hour to another has done by now."""
    hours = max(job.work_h, min(end_h, job.deadline_h) - begin_h)
    return min(job.work_h, job.work_h * max(0.0, now_h - begin_h) / hours)


def span(state: State, seen: Observation, tick_h: float) -> Machines:
    """Hold islands in up to four zones, the cheapest ones first, and grow, join and move them.

    Machines that are held stay while they last. Islands grow where machines have been there for
    half an hour, and new islands take what is missing. Everything moves into one zone if that saves
    several times what it costs. On-demand machines fill the gap while the job is behind a uniform
    pace, and run on beside spot machines that are starting: make before break. Below the quorum
    nothing is held.
    """
    job, zones = state.job, range(state.market.on_demand)
    room = [min(pair) for pair in zip(seen.launched, seen.steady, strict=True)]
    held = {zone: state.machines[zone] for zone in zones if state.machines[zone] >= _least(job)}
    held = _grown(held, state, room, seen)
    held = _moved(held, state, room, seen, tick_h)
    filled = _filled(held, state)
    if sum(held.values()) + filled < job.quorum * job.machines - EPSILON_H:
        return state.nothing
    return (*(held.get(zone, 0) for zone in zones), filled)


def _least(job: Job) -> int:
    return min(LEAST_ISLAND, job.machines)


def _wanted(places: int, state: State) -> int:
    """Return the machines to hold: in several places full speed takes more of them, of which the
    last one is worth its price only to a job that is behind its pace.
    """
    if places <= 1:
        return state.job.machines
    full = state.job.machines / state.job.efficiency
    return math.ceil(full - EPSILON_H) if _is_behind(state) else math.floor(full + EPSILON_H)


def _pace_h(state: State) -> float:
    """Hours of work below which on-demand machines fill gaps: a uniform pace that ends before the
    deadline and begins when a part of the slack is waited: the slack over the work. Who has little
    slack needs it for restarts, who has much can wait.
    """
    job, slack_h = state.job, state.job.deadline_h - state.job.work_h
    patience_h = max(job.restart_h, min(MOST_PATIENCE, slack_h / job.work_h) * slack_h)
    return _uniform_h(state.now_h, job, patience_h, job.deadline_h - RESERVE_H)


def _is_behind(state: State) -> bool:
    return state.done_h < _pace_h(state) - EPSILON_H


def _grown(held: Held, state: State, room: Sequence[int], seen: Observation) -> Held:
    """Grow islands where machines have been steady; then open new ones, the cheapest first.

    A job that holds nothing takes what is there; one that runs, on-demand or not, what is steady:
    zones that have just come back are often gone within minutes.
    """
    runs = bool(held or state.machines[state.market.on_demand])
    grown, job = dict(held), state.job
    pairs = zip(seen.usd_per_hour, seen.life_h, strict=True)
    usd = [price * (1 + job.restart_h / life) for price, life in pairs]  # with likely restarts
    for zone in sorted(held, key=lambda at: seen.usd_per_hour[at]):
        missing = _wanted(len(grown), state) - sum(grown.values())
        grown[zone] += max(0, min(missing, room[zone] - grown[zone]))
    for zone in sorted(range(len(room)), key=lambda at: usd[at]):
        if sum(grown.values()) >= job.machines or len(grown) >= MOST_ZONES:
            break
        missing = _wanted(len(grown) + 1, state) - sum(grown.values())
        count = min(missing, room[zone] if runs or grown else seen.launched[zone])
        if zone not in grown and count >= _least(job):
            grown[zone] = count
    return grown


def _moved(held: Held, state: State, room: Sequence[int], seen: Observation, tick_h: float) -> Held:
    """Move everything into the one zone in which that saves `HYSTERESIS` times what it costs.

    The saving is that of an hour of work, exchange between places included, over the hours that the
    zone's life or the work lasts. The cost are hours that all machines are paid without work, and
    the checkpoint where the job is not in that zone. A zone of the job needs only the start of the
    machines that it lacks, and a job that holds nothing has to start anyway.
    """
    job, egress_usd = state.job, state.market.egress_usd_per_gib
    speed = job.speed(sum(held.values()), len(held))
    if not speed or state.slack_h <= 2 * (job.restart_h + tick_h):
        return held
    exchange = exchange_usd_per_hour([*held], state)
    now = (sum(seen.usd_per_hour[zone] * count for zone, count in held.items()) + exchange) / speed
    best, most, runs = held, 0.0, any(state.machines)
    for zone in (zone for zone, count in enumerate(room) if count >= job.machines):
        if held.get(zone) == job.machines:
            continue
        then = seen.usd_per_hour[zone] * job.machines
        joining = 1 - state.machines[zone] / job.machines
        waits = min(job.restart_h, job.restart_h * joining + job.reform_h) if runs else 0.0
        egress = min(egress_usd[source][zone] for source in held)
        cost = waits * then + job.checkpoint_gib * egress
        saved = (now - then) * min(seen.life_h[zone], state.left_h)
        if saved - HYSTERESIS * cost > most:
            best, most = {zone: job.machines}, saved - HYSTERESIS * cost
    return best


def _filled(held: Held, state: State) -> int:
    """Return the on-demand machines: what is missing while the job is behind its pace, and those
    that run until the spot machines in their place have started, so that a return costs no slack.
    """
    working = {
        z: count for z, count in held.items() if state.machines[z] and state.wait_h[z] <= EPSILON_H
    }
    before = state.machines[state.market.on_demand]
    kept = min(before, _missing(working, len(held), state))
    if _is_behind(state):
        return max(kept, _missing(held, len(held), state))
    return kept if state.done_h < _pace_h(state) + AHEAD_H else 0


def _missing(held: Held, zones: int, state: State) -> int:
    """Return the machines that are missing beside islands in so many zones."""
    spot = sum(held.values())
    return max(0, _wanted(zones + 1, state) - spot) if spot < state.job.machines else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A rule that a job may follow.

    ``rule`` makes the rule of one run from the zone that is cheapest when it begins. ``censored``
    reads a zone that launched all machines that were asked for as one that has any number.
    """

    rule: Callable[[int], Rule]
    censored: bool = False


_WAITS, _PACES = migrate(pace=False), migrate(pace=True)
POLICIES = {
    "on-demand": Policy(rule=lambda zone: on_demand),
    "fixed": Policy(rule=fixed),
    "migrate": Policy(rule=lambda zone: _WAITS),
    "migrate-pace": Policy(rule=lambda zone: _PACES),
    "migrate-censored": Policy(rule=lambda zone: _WAITS, censored=True),
    "span": Policy(rule=lambda zone: span),
}
"""What ``placer capacity replay`` compares, by name."""
