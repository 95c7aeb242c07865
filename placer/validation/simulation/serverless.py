"""Programs of workers that get equal parts and meet through a server, or through stores and cloud
functions.
"""

from __future__ import annotations

from placer.cost_model.timing.server_sum import server_sum_seconds, summing_vcpus
from placer.problem.admitted_exchanges import server_offer
from placer.validation.simulation.event_loop import Process, Signal
from placer.validation.simulation.flows import Port
from placer.validation.simulation.scene import Machine, Scene


def server(scene: Scene) -> Process:
    """Let every worker compute and push at once; all pull when the last gradient has arrived."""
    hub = scene.machine(str(scene.exchange.aggregator))
    yield from scene.meet([((worker,), _push(scene, worker, hub)) for worker in scene.workers])
    group = scene.exchange.server
    vcpus = summing_vcpus(None if group is None else server_offer(group, scene.problem))
    yield server_sum_seconds(len(scene.workers), vcpus, scene.problem)
    yield from scene.meet([((), scene.direct(hub, worker)) for worker in scene.workers])


def _push(scene: Scene, worker: Machine, hub: Machine) -> Process:
    yield from scene.equal_part(worker)
    yield from scene.direct(worker, hub)


class Bucket:
    """Objects of one round in a store; who waits for all of them learns of the last one at once.

    Notes
    -----
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
    """Run from mean to mean: each worker downloads the last one, calculates and uploads; one
    function aggregates.
    """
    bucket, function = (
        Bucket(str(scene.exchange.storage), len(scene.workers)),
        str(scene.exchange.aggregator),
    )
    uploads = scene.loop.start(
        scene.meet([((worker,), _turn(scene, worker, bucket)) for worker in scene.workers])
    )
    yield from _aggregate(scene, function, bucket, bucket.place)
    yield uploads


def regional_stores(scene: Scene) -> Process:
    """Run from mean to mean through the regions' stores; aggregate in each region, then the
    regions' sums.
    """
    top = Bucket(str(scene.exchange.storage), len(scene.crews))
    regions = scene.loop.start(
        scene.meet([(crew, _region(scene, place, top)) for place, crew in scene.crews.items()])
    )
    yield from _aggregate(scene, str(scene.exchange.aggregator), top, top.place)
    yield regions


def _region(scene: Scene, place: str, top: Bucket) -> Process:
    crew = scene.crews[place]
    bucket = Bucket(place, len(crew))
    yield scene.services.start_s  # a function copies the last mean
    yield from _moved(scene, top.place, place)
    yield from _moved(scene, place, place)
    uploads = scene.loop.start(
        scene.meet([((worker,), _turn(scene, worker, bucket)) for worker in crew])
    )
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
    """Run a function: wait for all objects, read them one after the other, sum them, write the
    result.
    """
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
