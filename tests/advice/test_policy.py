"""Policies over traces: hand-worked runs, the offline optimum against brute force, and properties
that hold on drawn traces.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from placer.advice.policy.policies import (
    POLICIES,
    changed,
    fixed,
    hours_for,
    migrate,
    on_demand,
    ran,
    span,
    start,
    step,
    work_in,
)
from placer.advice.policy.replay import (
    offline_bound,
    offline_optimum,
    simulate,
    starts_of,
    ticks_of,
)
from placer.advice.policy.trace import Job, Market, Observation, lives_h, steady
from placer.errors import PlacerError
from placer.records import replace

HALF_H = 0.5
JOB = Job(machines=4, work_h=2.0, deadline_h=4.0, restart_h=0.25, reform_h=0.05, checkpoint_gib=10)


def market(zones: int = 2, egress: float = 0.02, usd: float = 10.0) -> Market:
    """Zones of different regions; the on-demand machines are in the region of the first."""
    places = [*range(zones), 0]
    return Market(
        zones=tuple("abcdefgh"[:zones]),
        on_demand_place="a",
        on_demand_usd_per_hour=usd,
        egress_usd_per_gib=tuple(tuple(egress * (i != j) for j in places) for i in places),
    )


def seen(launched: list[list[int]], usd: list[float]) -> list[Observation]:
    """What a policy knows at each tick of half an hour."""
    counts = np.array(launched)
    lives = lives_h(counts >= JOB.machines, HALF_H)
    rows = zip(launched, steady(counts, HALF_H).tolist(), lives.tolist(), strict=True)
    return [
        Observation(
            launched=tuple(there), steady=tuple(held), life_h=tuple(life), usd_per_hour=tuple(usd)
        )
        for there, held, life in rows
    ]


def test_on_demand_alone() -> None:
    """A start of 0.25 h and 2 h of work, 4 machines at 10 USD: 2.25 x 40 = 90 USD."""
    trace = seen([[0, 0]] * 8, [1.0, 2.0])
    run = simulate(trace, HALF_H, 0, on_demand, start(JOB, market()))
    assert run.end.usd == pytest.approx(90.0)
    assert run.end.now_h == pytest.approx(2.25)
    assert not run.missed


def test_a_fixed_zone_waits_and_then_pays() -> None:
    """Zone a has machines for an hour from 0.5 h on: 0.75 h of work for 1 x 4 x 1 = 4 USD. Then
    nothing: 1.25 h of work are left, which on-demand machines begin when half an hour more would
    leave less slack than a start needs. At 1.5 h the slack is 4 - 1.5 - 1.25 = 1.25 h, at 2 h 0.75,
    at 2.5 h 0.25: they begin there and end at 2.5 + 0.25 + 1.25 = 4 h, for 1.5 x 40 = 60 USD. The
    checkpoint goes nowhere, as they are in the zone's region.
    """
    trace = seen([[0, 0], [4, 0], [4, 0], *([[0, 4]] * 6)], [1.0, 2.0])
    end = simulate(trace, HALF_H, 0, fixed(0), start(JOB, market())).end
    assert end.machine_usd == pytest.approx(64.0)
    assert end.checkpoint_usd == 0.0
    assert end.now_h == pytest.approx(4.0)
    assert (end.for_good, end.lost) == (True, 4)


def test_migrating_pays_a_restart_and_egress() -> None:
    """Zone a for half an hour: 0.25 h of work, 2 USD. Zone b at 2 USD from then on: a start of 0.25
    h and 1.75 h of work, 2 x 4 x 2 = 16 USD, and 10 GiB at 0.02 USD.
    """
    trace = seen([[4, 0], *([[0, 4]] * 8)], [1.0, 2.0])
    end = simulate(trace, HALF_H, 0, migrate(pace=False), start(JOB, market())).end
    assert end.machine_usd == pytest.approx(2.0 + 16.0)
    assert end.checkpoint_usd == pytest.approx(0.2)
    assert end.now_h == pytest.approx(2.5)
    assert end.moves == 1


@pytest.mark.parametrize(
    ("state", "launched", "usd", "lives", "held"),
    [
        # An hour costs its price, the restarts and the way of the checkpoint that a life has.
        ({}, (4, 4), (1.0, 2.0), (3.0, 3.0), (4, 0, 0)),
        ({}, (3, 4), (1.0, 2.0), (3.0, 3.0), (0, 4, 0)),
        ({}, (4, 4), (1.0, 1.3), (0.5, 3.0), (0, 4, 0)),  # 1.5 against 1.3 x 1.083 = 1.41
        ({}, (4, 4), (1.0, 1.4), (0.5, 3.0), (4, 0, 0)),  # 1.52
        ({"last": 0}, (4, 4), (1.0, 0.99), (3.0, 3.0), (4, 0, 0)),  # 1.083 against 1.072 + 0.017
        ({"last": 0}, (4, 4), (1.0, 0.98), (3.0, 3.0), (0, 4, 0)),  # 1.062 + 0.017
        ({"machines": (4, 0, 0)}, (4, 4), (9.0, 1.0), (3.0, 3.0), (4, 0, 0)),  # it stays
        # A slack of 1.5 h is two restarts and two ticks: less begins nothing on spot machines.
        ({"now_h": 6.5}, (4, 0), (1.0, 2.0), (3.0, 3.0), (4, 0, 0)),
        ({"now_h": 6.51}, (4, 0), (1.0, 2.0), (3.0, 3.0), (0, 0, 0)),
        # On-demand machines stay with a slack of up to 2 h, and give way to spot machines.
        ({"machines": (0, 0, 4), "now_h": 6.0}, (0, 0), (1.0, 2.0), (3.0, 3.0), (0, 0, 4)),
        ({"machines": (0, 0, 4), "now_h": 5.9}, (0, 0), (1.0, 2.0), (3.0, 3.0), (0, 0, 0)),
        ({"machines": (0, 0, 4), "now_h": 5.9}, (4, 0), (1.0, 2.0), (3.0, 3.0), (4, 0, 0)),
    ],
)
def test_where_all_machines_move(
    state: dict[str, Any],
    launched: tuple[int, int],
    usd: tuple[float, float],
    lives: tuple[float, float],
    held: tuple[int, int, int],
) -> None:
    """4 h of work in 12, a start of 0.25 h, 10 GiB at 0.02 USD for all four machines."""
    begun = replace(start(replace(JOB, work_h=4.0, deadline_h=12.0), market()), **state)
    there = Observation(launched=launched, steady=launched, life_h=lives, usd_per_hour=usd)
    assert migrate(pace=False)(begun, there, HALF_H) == held


@pytest.mark.parametrize(
    ("machines", "done_h", "held"),
    [
        ((0, 0, 0), 0.99, (0, 0, 4)),
        ((0, 0, 0), 1.0, (0, 0, 0)),
        ((0, 0, 4), 1.16, (0, 0, 4)),  # until it is two restarts ahead: 3.5 / 3 h
        ((0, 0, 4), 1.17, (0, 0, 0)),
    ],
)
def test_on_demand_machines_keep_a_uniform_pace(
    machines: tuple[int, ...], done_h: float, held: tuple[int, ...]
) -> None:
    """Of 4 h of work in 12 one is done after 3; nothing is there on the spot market."""
    job = replace(JOB, work_h=4.0, deadline_h=12.0)
    state = replace(start(job, market()), machines=machines, now_h=3.0, done_h=done_h)
    nobody = Observation(launched=(0, 3), steady=(0, 3), life_h=(3.0, 3.0), usd_per_hour=(1.0, 2.0))
    assert migrate(pace=True)(state, nobody, HALF_H) == held
    assert migrate(pace=False)(state, nobody, HALF_H) == (0, 0, 0)


def test_islands_in_two_zones() -> None:
    """No zone has four machines, but a and b have two each: both start in 0.25 h, then work at 0.95
    of the speed. 2 h of work take 2 / 0.95 h.
    """
    job = replace(JOB, deadline_h=6.0, exchange_gib_per_h=0.0)
    trace = seen([[2, 2]] * 12, [1.0, 2.0])
    end = simulate(trace, HALF_H, 0, span, start(job, market())).end
    hours = 0.25 + 2 / 0.95
    assert end.now_h == pytest.approx(hours)
    assert end.machine_usd == pytest.approx(hours * (2 * 1.0 + 2 * 2.0))
    assert end.on_demand_h == 0.0


def test_an_island_that_loses_a_machine_goes_on() -> None:
    """Zone a falls from 4 to 3 machines after an hour, and 3 of 4 do 0.75 of the work. The first
    hour has 0.75 h of work. Then the island re-forms in 0.05 h: 1.25 h of work take 0.05 + 1.25 /
    0.75 h. 1 USD an hour and machine.
    """
    job = replace(JOB, deadline_h=12.0)
    trace = seen([[4], [4], *([[3]] * 22)], [1.0])
    end = simulate(trace, HALF_H, 0, span, start(job, market(1))).end
    after = 0.05 + 1.25 / 0.75
    assert end.now_h == pytest.approx(1.0 + after)
    assert end.usd == pytest.approx(4.0 + 3 * after)
    assert end.lost == 1


def test_growing_waits_for_three_steady_ticks() -> None:
    """Two machines are there at once and two more from the second tick on: they join when they have
    been there for three ticks, at 1.5 h.
    """
    job = replace(JOB, deadline_h=12.0)
    trace = seen([[2], *([[4]] * 20)], [1.0])
    state, counts = start(job, market(1)), []
    for tick in trace[:5]:
        held, state = step(state, tick, HALF_H, span)
        counts.append(held.machines[0])
    assert counts == [2, 2, 2, 4, 4]


@pytest.mark.parametrize(
    ("machines", "usd", "checkpoint_gib", "deadline_h", "moves"),
    [
        # By 0.5 USD it saves 4 and costs a start of 0.25 x 4 x 2.5 = 2.5; it pays twice below 2.40.
        ((4, 0, 0), 2.41, 0.0, 20.0, False),
        ((4, 0, 0), 2.39, 0.0, 20.0, True),
        # 10 GiB at 0.02 USD come on top: below 2.36.
        ((4, 0, 0), 2.37, 10.0, 20.0, False),
        ((4, 0, 0), 2.35, 10.0, 20.0, True),
        # The slack has to cover two restarts and two ticks.
        ((4, 0, 0), 1.5, 0.0, 3.5, False),
        ((4, 0, 0), 1.5, 0.0, 3.6, True),
        # Two join two, which costs (0.125 + 0.05) x 4 machines; two places have 0.95 of the speed:
        # 2 x ((6 + 2 usd) / 0.95 - 4 usd) is twice that below 2.43.
        ((2, 2, 0), 2.45, 0.0, 20.0, False),
        ((2, 2, 0), 2.40, 0.0, 20.0, True),
    ],
)
def test_a_move_must_pay_twice(
    machines: tuple[int, ...], usd: float, checkpoint_gib: float, deadline_h: float, moves: bool
) -> None:
    """2 h of work are left on machines at 3 USD in zone a; zone b costs less."""
    job = replace(JOB, deadline_h=deadline_h, checkpoint_gib=checkpoint_gib, exchange_gib_per_h=0.0)
    state = replace(start(job, market()), machines=machines, last=0)
    here = Observation(launched=(4, 4), steady=(4, 4), life_h=(3.0, 3.0), usd_per_hour=(3.0, usd))
    held, _ = step(state, here, HALF_H, span)
    assert held.machines == ((0, 4, 0) if moves else machines)


def test_joiners_wait_and_their_island_re_forms() -> None:
    """Two machines at work and two that join for 0.25 h: 0.125 h each on average, and 0.05 h. One
    that joins three: 0.0625 + 0.05. Never more than to start the whole island anew.
    """
    state = replace(start(JOB, market(1)), machines=(2, 0), last=0)
    assert changed(state, (4, 0)).wait_h[0] == pytest.approx(0.175)
    state = replace(state, machines=(1, 0))
    assert changed(state, (4, 0)).wait_h[0] == pytest.approx(0.1875 + 0.05)
    slow = replace(state, job=replace(JOB, reform_h=0.2))
    assert changed(slow, (4, 0)).wait_h[0] == 0.25


def test_the_last_tick_is_paid_to_the_minute() -> None:
    """4 machines that begin to work after 0.25 h have done 0.1 h of work at 0.35 h."""
    state = replace(start(JOB, market(1)), machines=(4, 0), wait_h=(0.25, 0.0), done_h=1.9)
    assert work_in(state, HALF_H) == 0.25
    assert hours_for(state, 0.1, HALF_H) == pytest.approx(0.35)
    end = ran(state, HALF_H, (3.0,))
    assert end.usd == pytest.approx(0.35 * 4 * 3.0)
    assert end.finished


@pytest.mark.parametrize(
    ("slack", "waited_h"), [(0.10, 0.25), (0.25, 1.5), (0.5, 6.0), (1.0, 12.0)]
)
def test_who_has_more_slack_waits_longer(slack: float, waited_h: float) -> None:
    """Of 2.4, 6, 12 and 24 h of slack a share of 0.1, 0.25, 0.5 and again 0.5 is waited, a restart
    of 0.25 h at least; then on-demand machines fill the gap.
    """
    job = replace(JOB, work_h=24.0, deadline_h=24.0 * (1 + slack))
    nobody = Observation(launched=(0, 0), steady=(0, 0), life_h=(3.0, 3.0), usd_per_hour=(1.0, 2.0))
    held = [
        span(replace(start(job, market()), now_h=hours), nobody, HALF_H)
        for hours in (waited_h - 0.01, waited_h + 0.01)
    ]
    assert held == [(0, 0, 0), (0, 0, 4)]


def test_new_islands_are_where_an_hour_costs_least_with_its_restarts() -> None:
    """A life of half an hour makes 1.25 USD 1.88, one of three makes 1.30 USD 1.41. Four zones at
    most hold two machines each.
    """
    job = replace(JOB, deadline_h=20.0)
    short = Observation(launched=(4, 4), steady=(4, 4), life_h=(0.5, 3.0), usd_per_hour=(1.25, 1.3))
    assert span(start(job, market()), short, HALF_H) == (0, 4, 0)
    two, many = (2,) * 5, replace(job, machines=10)
    wide = Observation(launched=two, steady=two, life_h=(3.0,) * 5, usd_per_hour=(1, 5, 2, 3, 4))
    assert span(start(many, market(5)), wide, HALF_H) == (2, 0, 2, 2, 2, 0)


@pytest.mark.parametrize(("ahead_h", "held"), [(0.49, (0, 0, 4)), (0.51, (0, 0, 0))])
def test_on_demand_machines_are_given_back_half_an_hour_ahead_of_the_pace(
    ahead_h: float, held: tuple[int, ...]
) -> None:
    """24 h of work in 48 begin after 12 and end an hour before: at 29.5 h 12 are done in time."""
    job = replace(JOB, work_h=24.0, deadline_h=48.0)
    nobody = Observation(launched=(0, 0), steady=(0, 0), life_h=(3.0, 3.0), usd_per_hour=(1.0, 2.0))
    state = replace(
        start(job, market()), machines=(0, 0, 4), last=2, now_h=29.5, done_h=12.0 + ahead_h
    )
    assert span(state, nobody, HALF_H) == held


def test_on_demand_machines_run_until_spot_machines_have_started() -> None:
    """Zone a comes back at 2 h and has been there for three ticks at 3 h: its machines start beside
    the on-demand ones, which work at 0.95 of the speed for 0.25 h; then all work, at the speed of
    four, and from 3.5 h on those of zone a alone. A rule that stops first would do nothing for the
    0.25 h.
    """
    job = replace(JOB, work_h=8.0, deadline_h=9.1, exchange_gib_per_h=0.0)
    trace = seen([*([[0]] * 4), *([[4]] * 20)], [1.0])
    state, held, done = start(job, market(1)), [], []
    for tick in trace[:9]:
        decided, state = step(state, tick, HALF_H, span)
        held.append(decided.machines)
        done.append(state.done_h)
    assert held[:2] == [(0, 0), (0, 4)]
    assert held[4:] == [(0, 4), (0, 4), (4, 4), (4, 0), (4, 0)]
    assert done[6] - done[5] == pytest.approx(0.25 * 0.95 + 0.25)
    assert done[7] - done[6] == pytest.approx(HALF_H)


def test_lives_begin_with_three_hours() -> None:
    """Two ticks of half an hour with enough and an end: (1 + 3) / (0 + 1) before, / 2 after it.
    What is older than the memory of an hour is forgotten.
    """
    enough = np.array([[True], [True], [False], [False], [False], [False]])
    assert lives_h(enough, HALF_H)[:3, 0].tolist() == [3.5, 4.0, 2.0]
    assert lives_h(enough, HALF_H, 1.0)[-1, 0] == 3.0


def drawn(rng: np.random.Generator, ticks: int, zones: int, most: int = 6) -> np.ndarray:
    """Counts that stay for some ticks."""
    change = rng.random((ticks, zones)) < 0.3
    counts = rng.integers(0, most + 1, (ticks, zones))
    for tick in range(1, ticks):
        counts[tick] = np.where(change[tick], counts[tick], counts[tick - 1])
    return counts


def every_way(launched: np.ndarray, usd: np.ndarray, job: Job, where: Market) -> float:
    """Try every place, or none, in every tick, by the simulator itself."""
    best, count = math.inf, ticks_of(job, HALF_H)
    for way in itertools.product(range(-1, where.on_demand + 1), repeat=count):
        state = start(job, where)
        for tick, place in enumerate(way):
            at = place < where.on_demand and place >= 0
            if at and launched[tick, place] < job.machines:
                break
            machines = [0] * (where.on_demand + 1)
            if place >= 0:
                machines[place] = job.machines
            state = changed(state, tuple(machines))
            hours = min(HALF_H, job.deadline_h - tick * HALF_H)
            state = ran(state, hours, usd[tick].tolist())
            if state.finished:
                best = min(best, state.usd)
                break
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_brute_force(seed: int) -> None:
    """All ways of two zones, on-demand machines and waiting over five ticks, the last one in part;
    starts of a half, one and a half and no tick; prices that change.
    """
    rng = np.random.default_rng(seed)
    restart = (0.25, 0.75, 0.0)[seed % 3]
    job = Job(machines=4, work_h=1.25, deadline_h=2.25, restart_h=restart, checkpoint_gib=10)
    launched, usd = drawn(rng, 5, 2), rng.uniform(1, 4, (5, 2)).round(2)
    where = market(egress=float(rng.choice([0.0, 0.02, 0.2])))
    optimum = offline_optimum(launched, usd, HALF_H, job, where)
    assert optimum == pytest.approx(every_way(launched, usd, job, where))
    assert offline_bound(launched, usd, HALF_H, job, where) <= optimum + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_no_policy_misses_and_none_beats_the_optimum(seed: int) -> None:
    """On drawn traces with little and much slack: all policies finish in time, those in one place
    at a time pay at least the optimum, and all pay at least the bound.
    """
    rng = np.random.default_rng(100 + seed)
    launched, usd, where = drawn(rng, 40, 3, 8), [1.0, 1.5, 3.0], market(3)
    table, prices = seen(launched.tolist(), usd), np.broadcast_to(usd, launched.shape)
    for slack, restart, machines in itertools.product((0.05, 0.3, 1.0), (0.2, 0.7), (4, 6)):
        work = 8.0
        job = Job(
            machines=machines,
            work_h=work,
            deadline_h=work + max(restart, slack * work),
            restart_h=restart,
        )
        optimum = offline_optimum(launched, prices, HALF_H, job, where)
        bound = offline_bound(launched, prices, HALF_H, job, where)
        assert bound <= optimum + 1e-6
        for name, policy in POLICIES.items():
            run = simulate(table, HALF_H, 0, policy.rule(0), start(job, where))
            assert not run.missed, name
            assert run.end.now_h <= job.deadline_h + 1e-6
            least = bound if name == "span" else optimum
            assert run.end.usd >= least - 1e-6, name


@pytest.mark.parametrize("seed", range(4))
def test_more_capacity_never_costs_the_optimum_more(seed: int) -> None:
    """A machine more here and there; the bound neither."""
    rng = np.random.default_rng(seed)
    launched = drawn(rng, 24, 2)
    usd = np.broadcast_to([1.0, 2.0], launched.shape)
    more = launched + rng.integers(0, 3, launched.shape)
    job = replace(JOB, work_h=6.0, deadline_h=9.0)
    for value in (offline_optimum, offline_bound):
        before = value(launched, usd, HALF_H, job, market())
        assert value(more, usd, HALF_H, job, market()) <= before + 1e-9


def test_a_trace_must_reach_to_a_deadline() -> None:
    """Ten ticks hold the deadline of 4 h from three ticks on: the eight ticks after 0, 1 and 2."""
    assert list(starts_of(10, HALF_H, JOB, HALF_H)) == [0, 1, 2]
    with pytest.raises(PlacerError, match="a trace of 2 h"):
        starts_of(4, HALF_H, JOB, HALF_H)
