"""Programs of workers that average among themselves: a flat butterfly, or leaders of regions."""

from __future__ import annotations

from collections.abc import Sequence

from placer.validation.simulation.event_loop import Process
from placer.validation.simulation.scene import Crew, Machine, Scene


def calculate(scene: Scene) -> Process:
    """Compute a batch for each local step: one pool for all, or one in each region where data has
    its place.
    """
    steps, begun = scene.exchange.local_steps, scene.loop.now
    if scene.placed:
        yield from scene.meet(
            [
                (crew, scene.drain(crew, scene.parts[p] * steps, steps))
                for p, crew in scene.crews.items()
            ]
        )
    else:
        yield from scene.drain(scene.workers, scene.problem.batch * steps, steps)
    scene.calculated_s = scene.loop.now - begun


def butterfly(scene: Scene) -> Process:
    """Average among all: the hosts' work, then shards to their owners and means back between
    regions.

    Notes
    -----
    What passes inside a region is part of the hosts' measured times: its bytes are only counted.
    """
    yield from form_group(scene)
    yield from scene.host_work(scene.workers, len(scene.workers))
    for crew in scene.crews.values():
        _count_inside(scene, crew, scene.size / len(scene.workers))
    yield from exchange_shards(scene, scene.workers)


def leaders(scene: Scene) -> Process:
    """Average inside the regions, among their heads, and hand the mean on."""
    yield from form_group(scene)
    yield from scene.meet([(crew, inside(scene, crew)) for crew in scene.crews.values()])
    heads = tuple(scene.heads.values())
    yield from scene.host_work(heads, len(heads))
    yield from exchange_shards(scene, heads)
    yield from broadcast(scene)


def form_group(scene: Scene) -> Process:
    """Wait until hosts may average again after the calculation that is over now."""
    hosts = scene.problem.calibration.hosts
    periods = [hosts[w.host].least_period_s for w in scene.workers if w.host in hosts]
    yield max([0.0, *(period - scene.calculated_s for period in periods)])


def inside(scene: Scene, crew: Crew) -> Process:
    """Average among the workers of one region."""
    if len(crew) > 1:
        yield from scene.host_work(crew, len(crew))
        _count_inside(scene, crew, scene.size / len(crew))


def _count_inside(scene: Scene, crew: Crew, shard: float) -> None:
    if len(crew) > 1:
        scene.moved(crew[0].place, crew[0].place, 2 * shard * len(crew) * (len(crew) - 1))


def exchange_shards(scene: Scene, peers: Crew) -> Process:
    """Send a shard over each ordered pair between regions, twice: no mean goes back before all
    shards are there.
    """
    pairs = [(a, b) for a in peers for b in peers if a.place != b.place]
    for _ in range(2):
        yield from flows(scene, pairs, scene.size / len(peers))


def flows(scene: Scene, pairs: Sequence[tuple[Machine, Machine]], size: float) -> Process:
    """Send to all at once and wait for the last arrival."""
    yield from [scene.shard(src, dst, size) for src, dst in pairs]


def broadcast(scene: Scene) -> Process:
    """Let the head of each region hand what it has to the others there."""
    to = [
        (scene.heads[p], worker)
        for p, crew in scene.crews.items()
        for worker in crew
        if worker is not scene.heads[p]
    ]
    yield from scene.meet([((), scene.direct(head, worker)) for head, worker in to])
