"""Programs of workers that get equal parts and meet through a server, or through stores and cloud functions."""

from __future__ import annotations

from placer.simulation.fluid import Port
from placer.simulation.loop import Process, Signal
from placer.simulation.scene import Crew, Machine, Scene
from placer.timing.store import (
    FUNCTION_BYTES_PER_S,
    POLL_SECONDS,
    POLL_TOLERANCE_S,
    STORE_ROUND_TRIPS,
    STORE_START_S,
    STORE_STREAM_BYTES_PER_S,
    SUM_BYTES_PER_S,
)


def server(scene: Scene) -> Process:
    """Every worker computes and pushes as soon as it can; all pull when the last gradient is there."""
    hub = scene.machine(str(scene.exchange.aggregator))
    yield from scene.meet([((worker,), _push(scene, worker, hub)) for worker in scene.workers])
    yield from scene.meet([((), scene.direct(hub, worker)) for worker in scene.workers])


def _push(scene: Scene, worker: Machine, hub: Machine) -> Process:
    yield from scene.equal_part(worker)
    yield from scene.direct(worker, hub)


class Bucket:
    """Objects of one round in a store: who waits for the first one learns of it, later ones are found by polls."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.count = 0
        self.first = Signal()

    def add(self) -> None:
        """Put an object."""
        self.count += 1
        if self.count == 1:
            self.first.fire()

    def wait(self, wanted: int) -> Process:
        """List the store from the first object on until all are there."""
        yield self.first
        yield POLL_TOLERANCE_S
        while self.count < wanted:
            yield POLL_SECONDS


def store(scene: Scene) -> Process:
    """Upload, aggregate in one function, download."""
    bucket, function = Bucket(str(scene.exchange.storage)), str(scene.exchange.aggregator)
    uploads = scene.loop.start(scene.meet([((worker,), _upload(scene, worker, bucket)) for worker in scene.workers]))
    yield from _aggregate(scene, function, bucket, len(scene.workers), bucket.place)
    yield uploads
    yield from _downloads(scene, scene.workers, bucket.place)


def regional_stores(scene: Scene) -> Process:
    """Aggregate in each region, then all regions' sums; the mean goes back through the regions' stores."""
    top = Bucket(str(scene.exchange.storage))
    regions = scene.loop.start(scene.meet([(crew, _region(scene, place, top)) for place, crew in scene.crews.items()]))
    yield from _aggregate(scene, str(scene.exchange.aggregator), top, len(scene.crews), top.place)
    yield regions
    yield from scene.meet([((), _back(scene, place, top.place)) for place in scene.crews])


def _region(scene: Scene, place: str, top: Bucket) -> Process:
    crew, bucket = scene.crews[place], Bucket(place)
    uploads = scene.loop.start(scene.meet([((worker,), _upload(scene, worker, bucket)) for worker in crew]))
    yield from _aggregate(scene, place, bucket, len(crew), top.place)
    yield uploads
    top.add()


def _back(scene: Scene, place: str, top: str) -> Process:
    """Copy the mean to the store of a region, from where its workers take it."""
    yield STORE_START_S
    yield from _moved(scene, top, place)
    yield from _moved(scene, place, place)
    yield from _downloads(scene, scene.crews[place], place)


def _upload(scene: Scene, worker: Machine, bucket: Bucket) -> Process:
    yield from scene.equal_part(worker)
    yield from _object(scene, worker.place, bucket.place, worker.sends)
    bucket.add()


def _downloads(scene: Scene, crew: Crew, place: str) -> Process:
    yield from scene.meet([((), _object(scene, place, worker.place, worker.receives)) for worker in crew])


def _object(scene: Scene, src: str, dst: str, port: Port) -> Process:
    """Move an object between a worker and a store: connect anew, then some streams."""
    scene.moved(src, dst, scene.size)
    yield STORE_START_S + STORE_ROUND_TRIPS * scene.network.link(src, dst).rtt_s
    yield scene.fluid.send(scene.size, min(STORE_STREAM_BYTES_PER_S * scene.exchange.streams, scene.bandwidth(src, dst)), (port,))


def _aggregate(scene: Scene, place: str, bucket: Bucket, wanted: int, to: str) -> Process:
    """Run a function: wait for all objects, read them one after the other, sum them, write the result."""
    yield from bucket.wait(wanted)
    yield STORE_START_S
    for _ in range(wanted):
        yield from _moved(scene, bucket.place, place)
        yield scene.size / SUM_BYTES_PER_S
    yield from _moved(scene, place, to)


def _moved(scene: Scene, src: str, dst: str) -> Process:
    """Move an object between a function, whose network is its own, and a store."""
    scene.moved(src, dst, scene.size)
    yield STORE_ROUND_TRIPS * scene.network.link(src, dst).rtt_s
    yield scene.fluid.send(scene.size, min(FUNCTION_BYTES_PER_S, scene.bandwidth(src, dst, 1)), ())
