"""Programs of workers: among themselves, with a server, through stores and functions, by region."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import numpy as np

from placer.cost_model.timing.services import server_sum_seconds, summing_vcpus
from placer.problem.admitted_exchanges import server_offer
from placer.problem.exchange import crossings, edge_bytes, ring_messages
from placer.validation.simulation.scene import Machine, Port, Process, Scene, Signal, SiteGroup


def calculate(scene: Scene) -> Process:
    """Compute a batch for each local step: in one pool, or one a region where data stays."""
    steps, begun = scene.exchange.local_steps, scene.loop.now
    if scene.placed:
        yield from scene.regions(
            lambda place, group: scene.drain(group, scene.parts[place] * steps, steps)
        )
    else:
        yield from scene.drain(scene.workers, scene.problem.batch * steps, steps)
    scene.calculated_s = scene.loop.now - begun


def butterfly(scene: Scene) -> Process:
    """Average among all: the hosts' work, then shards to their owners and means back between
    regions, or parts around a ring. What passes inside a region is part of the hosts' measured
    times: its bytes are only counted.
    """
    yield from form_group(scene)
    yield from scene.host_work(scene.workers, len(scene.workers))
    if len(scene.site_groups) > 1 and scene.exchange.in_ring:
        yield from _around(scene)
        return
    for site_group in scene.site_groups.values():
        _count_inside(scene, site_group, scene.size / len(scene.workers))
    yield from exchange_shards(scene, scene.workers)


def _around(scene: Scene) -> Process:
    """Pass all but one part of the vector from each region to the next, twice: edges are busy side
    by side, and the last part of each message is on its way over each of them.
    """
    edge = edge_bytes(scene.size, len(scene.workers))
    for place, site_group in scene.site_groups.items():
        scene.moved(place, place, edge * (len(site_group) - 1))
    ways = crossings(sorted(scene.site_groups), scene.exchange.transport)
    messages = ring_messages(scene.size, scene.exchange)
    for _ in range(2):
        yield messages * sum(scene.network.link(*way).rtt_s for way in ways) / 2
        pairs = [(scene.heads[src], scene.heads[dst]) for src, dst in ways]
        yield from flows(scene, pairs, edge / 2)


def leaders(scene: Scene) -> Process:
    """Average inside the regions, among their heads, and hand the mean on."""
    yield from form_group(scene)
    yield from scene.regions(lambda _, site_group: inside(scene, site_group))
    heads = tuple(scene.heads.values())
    yield from scene.host_work(heads, len(heads))
    yield from exchange_shards(scene, heads)
    yield from broadcast(scene)


def form_group(scene: Scene) -> Process:
    """Wait until hosts may average again after the calculation that is over now, or after the last
    average where both run side by side.
    """
    before = 0.0 if scene.exchange.overlap else scene.calculated_s
    hosts = scene.problem.calibration.hosts
    periods = [hosts[w.host].least_period_s for w in scene.workers if w.host in hosts]
    yield max([0.0, *(period - before for period in periods)])


def inside(scene: Scene, site_group: SiteGroup) -> Process:
    """Average among the workers of one region."""
    if len(site_group) > 1:
        yield from scene.host_work(site_group, len(site_group))
        _count_inside(scene, site_group, scene.size / len(site_group))


def _count_inside(scene: Scene, site_group: SiteGroup, shard: float) -> None:
    if len(site_group) > 1:
        place, count = site_group[0].place, len(site_group)
        scene.moved(place, place, 2 * shard * count * (count - 1))


def exchange_shards(scene: Scene, peers: SiteGroup) -> Process:
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
        for p, site_group in scene.site_groups.items()
        for worker in site_group
        if worker is not scene.heads[p]
    ]
    yield from scene.meet([((), scene.direct(head, worker)) for head, worker in to])


def server(scene: Scene) -> Process:
    """Let every worker compute and push at once; all pull when the last gradient has arrived."""
    hub = scene.machine(str(scene.exchange.aggregator))
    yield from scene.each(scene.workers, lambda worker: _push(scene, worker, hub))
    group = scene.exchange.server
    vcpus = summing_vcpus(None if group is None else server_offer(group, scene.problem))
    yield server_sum_seconds(len(scene.workers), vcpus, scene.problem)
    yield from scene.meet([((), scene.direct(hub, worker)) for worker in scene.workers])


def _push(scene: Scene, worker: Machine, hub: Machine) -> Process:
    yield from scene.equal_part(worker)
    yield from scene.direct(worker, hub)


class Bucket:
    """Objects of one round in a store; who waits for all of them learns of the last one at once.
    Polls that find nothing are billed; how long the last object waits for the next poll is below
    the error of the assumed times, and left out here as in the closed form.
    """

    def __init__(self, place: str, wanted: int) -> None:
        self.place, self.wanted = place, wanted
        self.count = 0
        self.full = Signal()

    def add(self) -> None:
        """Put an object."""
        self.count += 1
        if self.count == self.wanted:
            self.full.fire()


def store(scene: Scene) -> Process:
    """Run from mean to mean: download, calculate, upload; one function aggregates."""
    bucket = Bucket(str(scene.exchange.storage), len(scene.workers))
    turns = scene.each(scene.workers, lambda worker: _turn(scene, worker, bucket))
    uploads = scene.loop.start(turns)
    yield from _aggregate(scene, str(scene.exchange.aggregator), bucket, bucket.place)
    yield uploads


def regional_stores(scene: Scene) -> Process:
    """Run through the regions' stores: aggregate in each, then the regions' sums."""
    top = Bucket(str(scene.exchange.storage), len(scene.site_groups))
    regions = scene.loop.start(scene.regions(lambda place, _: _region(scene, place, top)))
    yield from _aggregate(scene, str(scene.exchange.aggregator), top, top.place)
    yield regions


def _region(scene: Scene, place: str, top: Bucket) -> Process:
    site_group = scene.site_groups[place]
    bucket = Bucket(place, len(site_group))
    yield scene.services.start_s  # a function copies the last mean
    yield from _moved(scene, top.place, place)
    yield from _moved(scene, place, place)
    turns = scene.each(site_group, lambda worker: _turn(scene, worker, bucket))
    uploads = scene.loop.start(turns)
    yield from _aggregate(scene, place, bucket, top.place)
    yield uploads
    top.add()


def _turn(scene: Scene, worker: Machine, bucket: Bucket) -> Process:
    yield from _object(scene, bucket.place, worker.place, worker.receives)
    yield from scene.equal_part(worker)
    yield from _object(scene, worker.place, bucket.place, worker.sends)
    bucket.add()


def _object(scene: Scene, src: str, dst: str, port: Port) -> Process:
    """Move an object between a worker and a store: connect anew, then some streams."""
    scene.moved(src, dst, scene.size)
    yield scene.services.start_s + scene.services.round_trips * scene.network.link(src, dst).rtt_s
    yield scene.fluid.send(
        scene.size,
        min(scene.services.stream_bytes_per_s * scene.exchange.streams, scene.bandwidth(src, dst)),
        (port,),
    )


def _aggregate(scene: Scene, place: str, bucket: Bucket, to: str) -> Process:
    """Wait for all objects, read one after the other, sum them, write the result."""
    yield bucket.full
    yield scene.services.start_s
    for _ in range(bucket.wanted):
        yield from _moved(scene, bucket.place, place)
        yield scene.size / scene.services.sum_bytes_per_s
    yield from _moved(scene, place, to)


def _moved(scene: Scene, src: str, dst: str) -> Process:
    """Move an object between a function, whose network is its own, and a store."""
    scene.moved(src, dst, scene.size)
    yield scene.services.round_trips * scene.network.link(src, dst).rtt_s
    yield scene.fluid.send(
        scene.size, min(scene.services.function_bytes_per_s, scene.bandwidth(src, dst, 1)), ()
    )


def region_hub(scene: Scene) -> Process:
    """Run H steps in each region, send models to the hub, and its mean back to workers."""
    hub = scene.heads[str(scene.exchange.aggregator)]
    others = [head for head in scene.heads.values() if head is not hub]
    yield from scene.regions(lambda place, _: local_steps(scene, place))
    yield from scene.each(others, lambda head: scene.direct(head, hub))
    yield from scene.each(others, lambda head: scene.direct(hub, head))
    yield from broadcast(scene)


def local_steps(scene: Scene, place: str) -> Process:
    """Compute and average H times inside one region."""
    site_group = scene.site_groups[place]
    for _ in range(scene.exchange.local_steps):
        yield from scene.drain(site_group, scene.parts[place])
        yield from inside(scene, site_group)


class Gossip:
    """Regions that send what they have to one partner after the other and go on at once, unless the
    last send is under way. A send shares its network card with the averages of its region; what
    comes from others is taken to pass beside them.

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
            yield from self._steps(place)
            since = scene.loop.now
            yield sending
            for worker in scene.site_groups[place]:
                scene.waits(worker, scene.loop.now - since)
            scene.new_round()
            partner = names[(number + 1 + turn % (len(names) - 1)) % len(names)]
            sending = scene.loop.start(scene.direct(scene.heads[place], scene.heads[partner]))
            turn += 1
            self.marks[place].append(scene.loop.now)

    def _steps(self, place: str) -> Process:
        scene, site_group = self.scene, self.scene.site_groups[place]
        for _ in range(scene.exchange.local_steps):
            yield from scene.drain(site_group, scene.parts[place])
            if len(site_group) > 1:
                yield from scene.meet([((), inside(scene, site_group)), ((), self._card(place))])

    def _card(self, place: str) -> Process:
        """Let an average fill the card of a head for as long as it takes alone."""
        scene, head = self.scene, self.scene.heads[place]
        seconds = scene.averaging(head, len(scene.site_groups[place]))
        rate = head.sends.bytes_per_s
        yield scene.fluid.send(seconds * rate, rate, (head.sends,))

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
        return fsum(
            self.share[place] * float(np.interp(now, marks, range(1, len(marks) + 1), left=0.0))
            for place, marks in self.marks.items()
        )

    def _crossings(self) -> list[float]:
        """Find when the rounds done are 0, 1, 2 ... more than at the start."""
        start = self._start
        times = sorted(mark for marks in self.marks.values() for mark in marks if mark >= start)
        done = [self._done(time) for time in times]
        wanted = [done[0] + number for number in range(self.rounds + 1)]
        return [float(end) for end in np.interp(wanted, done, times)]
