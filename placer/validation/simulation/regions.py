"""Programs of regions that exchange every few steps: with a hub, or with partners in turn."""

from __future__ import annotations

from bisect import bisect_right
from math import fsum

from placer.validation.simulation.flows import Process, Signal
from placer.validation.simulation.peers import broadcast, inside
from placer.validation.simulation.scene import Scene


def region_hub(scene: Scene) -> Process:
    """Run H steps in each region, send models to the hub, and its mean back to workers."""
    hub = scene.heads[str(scene.exchange.aggregator)]
    others = [head for head in scene.heads.values() if head is not hub]
    yield from scene.meet(
        [(site_group, local_steps(scene, place)) for place, site_group in scene.site_groups.items()]
    )
    yield from scene.meet([((head,), scene.direct(head, hub)) for head in others])
    yield from scene.meet([((head,), scene.direct(hub, head)) for head in others])
    yield from broadcast(scene)


def local_steps(scene: Scene, place: str) -> Process:
    """Compute and average H times inside one region."""
    site_group = scene.site_groups[place]
    for _ in range(scene.exchange.local_steps):
        yield from scene.drain(site_group, scene.parts[place])
        yield from inside(scene, site_group)


class Gossip:
    """Regions that send what they have to one partner after the other and go on at once, unless the
    last send is under way.

    rounds: How many rounds of H batches to see, after each region has sent once.
    """

    def __init__(self, scene: Scene, rounds: int) -> None:
        self.scene, self.rounds = scene, rounds
        self.marks: dict[str, list[float]] = {place: [] for place in scene.site_groups}
        self.share = {place: part / scene.problem.batch for place, part in scene.parts.items()}

    def run(self) -> list[float]:
        """Return when rounds end, the first entry being the start. Where data has its place the
        last region ends a round; elsewhere a round has ended when all regions together have done
        another H batches.
        """
        for number, place in enumerate(self.scene.site_groups):
            self.scene.loop.start(self._region(number, place))
        self.scene.loop.run()
        if self.scene.placed:
            return [max(marks[k] for marks in self.marks.values()) for k in range(self.rounds + 1)]
        return self._crossings()

    def _region(self, number: int, place: str) -> Process:
        scene, names = self.scene, list(self.scene.site_groups)
        sending, turn = Signal(), 0
        sending.fire()
        while not self._enough(place):
            yield from local_steps(scene, place)
            since = scene.loop.now
            yield sending
            for worker in scene.site_groups[place]:
                scene.waits(worker, scene.loop.now - since)
            scene.new_round()
            partner = names[(number + 1 + turn % (len(names) - 1)) % len(names)]
            sending = scene.loop.start(scene.direct(scene.heads[place], scene.heads[partner]))
            turn += 1
            self.marks[place].append(scene.loop.now)

    def _enough(self, place: str) -> bool:
        """Tell whether a region may stop: its part of all rounds is done, or all rounds are."""
        if self.scene.placed:
            return len(self.marks[place]) > self.rounds
        if not all(self.marks.values()):
            return False
        last = min(marks[-1] for marks in self.marks.values())
        return self._done(last) >= self.rounds + self._done(self._start)

    @property
    def _start(self) -> float:
        return max(marks[0] for marks in self.marks.values())

    def _done(self, now: float) -> float:
        """Count the rounds done by all regions, evenly between two sends of a region."""
        total = []
        for place, marks in self.marks.items():
            k, under_way = bisect_right(marks, now), 0.0
            if 0 < k < len(marks):
                under_way = (now - marks[k - 1]) / (marks[k] - marks[k - 1])
            total.append(self.share[place] * (k + under_way))
        return fsum(total)

    def _crossings(self) -> list[float]:
        """Find when the rounds done are 0, 1, 2 ... more than at the start."""
        seen = {mark for marks in self.marks.values() for mark in marks}
        times = sorted(mark for mark in seen if mark >= self._start)
        before, base, ends = (times[0], 0.0), self._done(times[0]), [times[0]]
        for time in times[1:]:
            done = self._done(time) - base
            while len(ends) <= self.rounds and done >= len(ends) - 1e-9:
                share = (len(ends) - before[1]) / (done - before[1])
                ends.append(before[0] + (time - before[0]) * share)
            before = (time, done)
        return ends
