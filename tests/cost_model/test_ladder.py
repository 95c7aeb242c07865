"""Runs on a ladder of placements, against hand-worked paths and properties of paths."""

from __future__ import annotations

import math

import numpy as np
import pytest

from placer.cost_model.capacity.ladder import Rung, climb
from placer.cost_model.capacity.scenarios import state_paths


def rung(there: list[int], rate: float = 1.0, usd: float = 1.0, start_h: float = 0.0) -> Rung:
    """Return a rung of one scenario: 1 where its machines are there; 1 sample/s is 3,600/h."""
    path = np.array(there, dtype=bool)[:, None]
    return Rung(samples_per_s=rate, usd_per_hour=usd, start_h=start_h, there=path)


def test_a_run_waits_where_nothing_is_there_and_pays_nothing() -> None:
    """Two hours of work; there in hours 1, 3, 4: done after 4 h for 2 h of 3 USD."""
    runs = climb([rung([1, 0, 0, 1, 1], usd=3.0)], 2 * 3600, 5.0, 1.0)
    assert (runs.hours[0], runs.usd[0], runs.starts[0]) == (4.0, 6.0, 2)


def test_each_start_is_paid_and_does_not_work() -> None:
    """Half an hour to start, lost after the first hour: 0.5 h of work, then 1.5 h after another
    start. Done at 1 + 0.5 + 1.5 = 3 h, and all three are paid.
    """
    runs = climb([rung([1, 0, 1, 1, 1], start_h=0.5)], 2 * 3600, 5.0, 1.0)
    assert runs.starts[0] == 2
    assert runs.hours[0] == pytest.approx(4.0)  # hour 2 was waited for
    assert runs.usd[0] == pytest.approx(3.0)


def test_a_fallback_takes_over_and_gives_back() -> None:
    """The first rung is lost after an hour and back in hours 4 to 8: three steady hours later the
    run returns, as it costs a third. Work of 8 h at equal rates.
    """
    first = rung([1, 0, 0, 1, 1, 1, 1, 1, 1, 1], usd=1.0)
    second = rung([1] * 10, usd=3.0)
    runs = climb([first, second], 8 * 3600, 10.0, 1.0)
    assert runs.hours[0] == 8.0
    # Hours 2 to 6 on the second, the fourth steady hour of the first is the seventh.
    assert runs.busy_h[:, 0].tolist() == [3.0, 5.0]
    assert runs.usd[0] == 3.0 + 15.0


def test_what_is_certain_is_left_until_time_runs_out() -> None:
    """Six hours for 3 h of work on demand; spot never comes. After 3 h nothing else would do."""
    spot = rung([0] * 6)
    demand = Rung(
        samples_per_s=1.0,
        usd_per_hour=10.0,
        start_h=0.0,
        there=np.ones((6, 1), dtype=bool),
        certain=True,
    )
    runs = climb([spot, demand], 3 * 3600, 6.0, 1.0)
    assert runs.hours[0] <= 6.0
    assert runs.usd[0] == 30.0


def test_a_certain_rung_never_misses_and_more_rungs_never_finish_less() -> None:
    """In drawn paths of three zones: with one rung on demand no run misses, and a further spot rung
    never lowers the share that is done.
    """
    states = state_paths(
        ["a/x", "a/x", "b/y"], ["1", "2", "3"], steps=48, step_h=1.0, draws=400, seed=3
    )
    spot = [
        Rung(samples_per_s=1.0, usd_per_hour=1.0 + at, start_h=0.1, there=states[:, :, at] > 0.3)
        for at in range(3)
    ]
    demand = Rung(
        samples_per_s=1.0,
        usd_per_hour=9.0,
        start_h=0.1,
        there=np.ones((48, 400), dtype=bool),
        certain=True,
    )
    done = [climb(spot[:count], 20 * 3600, 48.0, 1.0).chance(48.0) for count in (1, 2, 3)]
    assert done == sorted(done)
    assert done[0] < done[2]
    assert climb([*spot, demand], 20 * 3600, 48.0, 1.0).chance(48.0) == 1.0
    tail = climb([*spot, demand], 20 * 3600, 48.0, 1.0)
    assert tail.tail_usd(0.05) >= tail.usd.mean()


def test_paths_are_standard_normal_alike_nearby_and_the_same_by_name() -> None:
    """4,000 paths: mean 0, variance 1 at every hour; zones of a region correlate by 0.30 and others
    by 0.04, to within 0.03; an hour later 0.3 / e + 0.7 exp(-1 / 48) = 0.796 is left.
    """
    names = ["1", "2", "3"]
    states = state_paths(["a/x", "a/x", "b/y"], names, steps=6, step_h=1.0, draws=4_000, seed=0)
    assert np.abs(states.mean(axis=1)).max() < 1e-9  # each has its mirror image
    assert states.var(axis=1) == pytest.approx(1.0, abs=0.08)
    flat = states[-1].T
    assert np.corrcoef(flat)[0, 1] == pytest.approx(0.30, abs=0.04)
    assert np.corrcoef(flat)[0, 2] == pytest.approx(0.04, abs=0.04)
    kept = 0.3 * math.exp(-1) + 0.7 * math.exp(-1 / 48)
    assert np.corrcoef(states[0, :, 0], states[1, :, 0])[0, 1] == pytest.approx(kept, abs=0.03)
    alone = state_paths(["b/y"], ["3"], steps=6, step_h=1.0, draws=4_000, seed=0)
    assert np.array_equal(alone[:, :, 0], states[:, :, 2])
