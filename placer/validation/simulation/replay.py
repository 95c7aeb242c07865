"""Rounds of a placement one after the other, and what came of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import inf

import numpy as np
from msgspec import UNSET, UnsetType

from placer.cost_model.estimate import evaluate
from placer.cost_model.timing.site_groups import hidden_seconds, overlap_window
from placer.documents.schemas import by_hand
from placer.documents.schemas.by_hand import LinkBytes, Waiting
from placer.errors import PlacerError
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.report.shown import Shown
from placer.units import format_speed
from placer.validation.simulation import programs
from placer.validation.simulation.scene import Noise, Process, Scene, Signal

MOST_ROUNDS = 100_000
MOST_JITTER = 2.0
MOST_WORKERS = 128
"""Flows are followed between single machines: their number grows with the square of this."""

ROUNDS: dict[str, Callable[[Scene], Process]] = {
    "region-hub": programs.region_hub,
    "server": programs.server,
    "store": programs.store,
    "regional-stores": programs.regional_stores,
}
"""Transport and its program of a whole round."""
EXCHANGES: dict[str, Callable[[Scene], Process]] = {
    "butterfly": programs.butterfly,
    "leaders": programs.leaders,
}
"""Transport and its program after the calculation, beside which it may run."""


class Simulation(by_hand.Simulation, Shown, frozen=True):
    """What a simulated placement did, beside what the closed form says of it."""

    def __repr__(self) -> str:
        length = None if isinstance(self.tokens_per_sample, UnsetType) else self.tokens_per_sample
        speed = format_speed(self.samples_per_second, length)
        off = f"{100 * self.difference:+.1f} % against the prediction"
        return f"<Simulation of {self.rounds} rounds: {speed}, round {off}>"


def replay(
    placement: Placement,
    problem: Problem,
    *,
    rounds: int = 30,
    seed: int = 0,
    jitter: float = 0.0,
    stragglers: float = 0.0,
    straggler_factor: float = 2.0,
) -> Simulation:
    """Simulate some rounds of a placement. Raises `PlacerError` if a value is out of its range, or
    the placement cannot be simulated.

    jitter: Coefficient of variation of the speed of each worker in each step and of each link in
        each round.
    stragglers, straggler_factor: Probability that a worker is slower in a step, and by how much.
    """
    _check(placement, rounds, seed, jitter, stragglers, straggler_factor)
    scene = Scene(placement, problem, Noise(seed, jitter, stragglers, straggler_factor))
    ends, seen = _ends(scene, rounds)
    seconds = tuple(b - a for a, b in itertools.pairwise(ends))
    expected, shape = evaluate(placement, problem), problem.profile.architecture
    mean = (ends[-1] - ends[0]) / rounds
    p5, p50, p95 = (float(end) for end in np.quantile(seconds, (0.05, 0.5, 0.95)))
    return Simulation(
        strategy=placement.exchange.strategy,
        rounds=rounds,
        seed=seed,
        jitter=float(jitter),
        stragglers=float(stragglers),
        straggler_factor=float(straggler_factor),
        samples_per_second=expected.samples / mean,
        round_seconds=list(seconds),
        p5=p5,
        p50=p50,
        p95=p95,
        bytes_by_link=[
            LinkBytes(src=src, dst=dst, bytes_per_round=size / seen)
            for (src, dst), size in sorted(scene.sent.items())
        ],
        waiting_by_place=[
            Waiting(place=place, seconds_per_round=scene.waited[place] / len(site_group) / seen)
            for place, site_group in scene.site_groups.items()
        ],
        predicted_samples_per_second=expected.processed_per_second,
        predicted_round_seconds=expected.step.total,
        difference=mean / expected.step.total - 1,
        tokens_per_sample=UNSET if shape is None else shape.sequence_length,
        workers=",".join(group.spec for group in placement.groups),
    )


def _check(
    placement: Placement, rounds: int, seed: int, jitter: float, stragglers: float, factor: float
) -> None:
    """Refuse what cannot be simulated."""
    for name, whole in (("rounds", rounds), ("seed", seed)):
        ends = f" from 1 to {MOST_ROUNDS:,}" if name == "rounds" else ""
        wrong = isinstance(whole, bool) or not isinstance(whole, int)
        if wrong or (ends and not 1 <= whole <= MOST_ROUNDS):
            raise PlacerError(f"{name} {whole!r} is out of range", f"give a whole number{ends}")
    for name, value, low, high in (
        ("jitter", jitter, 0.0, MOST_JITTER),
        ("stragglers", stragglers, 0.0, 1.0),
        ("straggler factor", factor, 1.0, inf),
    ):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high or value == inf:
            end = "" if high == inf else f" to {high:g}"
            hint = f"give a number from {low:g}{end}"
            raise PlacerError(f"{name} {value!r} is out of range", hint)
    if placement.workers > MOST_WORKERS:
        raise PlacerError(
            f"{placement.workers} workers are too many to simulate",
            f"simulate at most {MOST_WORKERS}",
        )
    if placement.exchange.overlap and not traits(placement.exchange.strategy).may_overlap:
        raise PlacerError(
            f"a {placement.exchange.strategy} exchange cannot overlap the next step",
            "simulate it without overlap",
        )


def _ends(scene: Scene, rounds: int) -> tuple[list[float], float]:
    """Return the ends of the rounds, the start first, and the number of rounds counted."""
    transport = traits(scene.exchange.strategy).transport
    if transport == "region-gossip":
        gossip = programs.Gossip(scene, rounds)
        ends = gossip.run()
        return ends, rounds * scene.loop.now / (ends[-1] - ends[0])
    ends = []
    if scene.exchange.overlap:
        scene.loop.start(_overlapped(scene, EXCHANGES[transport], rounds, ends))
    else:
        ends.append(0.0)
        scene.loop.start(_in_turn(scene, transport, rounds, ends))
    scene.loop.run()
    return ends, rounds + int(scene.exchange.overlap)


def _in_turn(scene: Scene, transport: str, rounds: int, ends: list[float]) -> Process:
    """Calculate and exchange in turn; what buckets hide is taken off the clock."""
    window, beside = overlap_window(scene.exchange, free_share=scene.free_share), 0.0
    for _ in range(rounds):
        scene.new_round()
        begun = scene.loop.now
        if transport in ROUNDS:
            yield from ROUNDS[transport](scene)
        else:
            yield from programs.calculate(scene)
        ready = scene.loop.now
        if transport in EXCHANGES:
            yield from EXCHANGES[transport](scene)
        if window:
            beside += float(hidden_seconds(ready - begun, scene.loop.now - ready, window))
        ends.append(scene.loop.now - beside)


def _overlapped(
    scene: Scene, exchange: Callable[[Scene], Process], rounds: int, ends: list[float]
) -> Process:
    """Exchange beside the next calculation; a round ends where both are through."""
    under_way = Signal()
    under_way.fire()
    for _ in range(rounds + 1):
        yield from programs.calculate(scene)
        since = scene.loop.now
        yield under_way
        for worker in scene.workers:
            scene.waits(worker, scene.loop.now - since)
        ends.append(scene.loop.now)
        scene.new_round()
        under_way = scene.loop.start(exchange(scene))
