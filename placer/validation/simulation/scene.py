"""What the programs of a simulation act on: an event loop, max-min fair flows between machines,
single workers with a network each, links, chance, and what is counted on the way.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import fsum

from placer.cost_model.estimate import workers_of
from placer.cost_model.timing.site_groups import EXPECTED, site_group_of
from placer.cost_model.timing.transfers import GOODPUT, averaging_seconds
from placer.problem.datasets import shares
from placer.problem.placement import Placement
from placer.problem.problem import Problem


@dataclass(frozen=True, eq=False, slots=True)
class Machine:
    """One machine; ``rate`` samples/s while it computes on average, 0 for a server."""

    number: int
    place: str
    host: str
    rate: float
    sends: Port
    receives: Port


SiteGroup = tuple[Machine, ...]


class Noise:
    """Factors on speeds, drawn from one seed: each worker and each link has a stream of its own. A
    worker draws both chances in each step, so that more stragglers leave all other draws as they
    are.

    seed: Equal seeds draw equal factors.
    stragglers: Probability that a worker is slowed in one step.
    """

    def __init__(
        self, seed: int, jitter: float, stragglers: float, straggler_factor: float
    ) -> None:
        self._stragglers, self._factor = stragglers, straggler_factor
        self._sigma = math.sqrt(math.log1p(jitter * jitter))
        self._stream = cache(lambda name: random.Random(f"{seed} {name}"))  # noqa: S311 - no secret

    @property
    def silent(self) -> bool:
        """Whether all factors are 1."""
        return self._sigma == 0.0 and self._stragglers == 0.0

    def worker(self, number: int) -> float:
        """Draw the speed of a worker in one step, as a multiple of its mean."""
        if self.silent:
            return 1.0
        stream = self._stream(f"worker {number}")
        slowed = stream.random() < self._stragglers
        return self._lognormal(stream) / (self._factor if slowed else 1.0)

    def link(self, src: str, dst: str) -> float:
        """Draw the bandwidth of a link in one round, as a multiple of its mean."""
        return 1.0 if self._sigma == 0.0 else self._lognormal(self._stream(f"link {src} {dst}"))

    def _lognormal(self, stream: random.Random) -> float:
        return math.exp(self._sigma * (stream.gauss(0.0, 1.0) - self._sigma / 2))


class Scene:
    """Workers, network and chance of one simulation, and its clock."""

    def __init__(self, placement: Placement, problem: Problem, noise: Noise) -> None:
        self.problem, self.exchange, self.noise = problem, placement.exchange, noise
        pools = workers_of(placement, problem)
        hired = site_group_of(pools, placement, (), problem, EXPECTED)
        self.free_share = min(pool.free_share for pool, _ in pools)
        self.network, self.size = hired.network, problem.gradient_bytes
        self.services = problem.calibration.services
        self.loop = Loop()
        self.fluid = Fluid(self.loop)
        rows = zip(pools, hired.site_group, strict=True)
        each = [(place, pool.host, rate) for (pool, n), (place, _, rate) in rows for _ in range(n)]
        self.workers: SiteGroup = tuple(
            self.machine(place, number, host, rate)
            for number, (place, host, rate) in enumerate(each)
        )
        self.site_groups: dict[str, SiteGroup] = {
            p: tuple(w for w in self.workers if w.place == p) for p in placement.workers_by_place
        }
        self.sent: dict[tuple[str, str], float] = defaultdict(float)
        self.waited = dict.fromkeys(self.site_groups, 0.0)
        self.calculated_s = 0.0
        self._bandwidth: dict[tuple[str, str], float] = {}
        self._averaging = cache(self._averaging_of)

    def machine(self, place: str, number: int = -1, host: str = "", rate: float = 0.0) -> Machine:
        """Set up a machine; its ports carry what one stream reaches inside its region."""
        speed = self.network.machine_bytes_per_s(place)
        return Machine(number, place, host, rate, Port(speed), Port(speed))

    @cached_property
    def heads(self) -> dict[str, Machine]:
        """Choose each region's machine that talks to others: of the slowest host class."""
        return {
            p: max(site_group, key=lambda w: self.averaging(w, len(self.site_groups)))
            for p, site_group in self.site_groups.items()
        }

    @cached_property
    def parts(self) -> dict[str, float]:
        """Split the samples of one step by region: where data lies, else by speed."""
        speeds = {
            place: fsum(w.rate for w in site_group)
            for place, site_group in self.site_groups.items()
        }
        data, whole = self.problem.requirements.datasets, fsum(speeds.values())
        equal = {place: speed / whole for place, speed in speeds.items()}
        part = shares(data, speeds) if data else equal
        return {place: share * self.problem.batch for place, share in part.items()}

    def new_round(self) -> None:
        """Let links draw their bandwidth anew."""
        self._bandwidth.clear()

    def meet(self, jobs: Sequence[tuple[SiteGroup, Process]]) -> Process:
        """Run jobs side by side up to a barrier; who is there early waits."""
        ends = [self.loop.now] * len(jobs)
        done = [self.loop.start(self._noted(job, ends, k)) for k, (_, job) in enumerate(jobs)]
        yield from done
        for (site_group, _), end in zip(jobs, ends, strict=True):
            for worker in site_group:
                self.waits(worker, self.loop.now - end)

    def regions(self, job: Callable[[str, SiteGroup], Process]) -> Process:
        """Run a job of each region, of its place and workers, up to a barrier."""
        yield from self.meet(
            [(group, job(place, group)) for place, group in self.site_groups.items()]
        )

    def each(self, workers: Iterable[Machine], job: Callable[[Machine], Process]) -> Process:
        """Run a job of each of some workers up to a barrier."""
        yield from self.meet([((worker,), job(worker)) for worker in workers])

    def _noted(self, job: Process, ends: list[float], k: int) -> Process:
        yield from job
        ends[k] = self.loop.now

    def waits(self, worker: Machine, seconds: float) -> None:
        """Count what a worker waits at a barrier."""
        self.waited[worker.place] += seconds

    def drain(self, site_group: SiteGroup, samples: float, steps: int = 1) -> Process:
        """Let workers take samples from one pool until it is empty: fast ones do more, all end
        together. Each worker draws its speed once for each of ``steps``; over several it has their
        harmonic mean.
        """
        yield samples / fsum(worker.rate * self._pace(worker, steps) for worker in site_group)

    def _pace(self, worker: Machine, steps: int) -> float:
        if self.noise.silent:
            return 1.0
        return steps / fsum(1 / self.noise.worker(worker.number) for _ in range(steps))

    def equal_part(self, worker: Machine) -> Process:
        """Let a worker do its equal part of the batch, or of its region's data."""
        site_group, batch = self.workers, float(self.problem.batch)
        if self.placed:
            site_group, batch = self.site_groups[worker.place], self.parts[worker.place]
        yield batch / len(site_group) / (worker.rate * self.noise.worker(worker.number))

    @property
    def placed(self) -> bool:
        """Whether data has a place."""
        return bool(self.problem.requirements.datasets)

    def averaging(self, worker: Machine, peers: int) -> float:
        """Return the seconds that averaging among some peers costs the worker's host."""
        return self._averaging(worker.host, peers)

    def _averaging_of(self, host: str, peers: int) -> float:
        fitted, tensors = self.problem.calibration, self.problem.profile.tensors
        seconds = averaging_seconds([host], self.size, peers, tensors, fitted)
        return fitted.spread([host], 0) * seconds

    def host_work(self, site_group: SiteGroup, peers: int) -> Process:
        """Let hosts average at the pace of their class; none ends before all have."""
        yield from self.each(site_group, lambda worker: _sleep(self.averaging(worker, peers)))

    def moved(self, src: str, dst: str, size: float) -> None:
        """Count bytes."""
        self.sent[src, dst] += size

    def bandwidth(self, src: str, dst: str, streams: int | None = None) -> float:
        """Return the bytes/s of one pair of machines in this round."""
        if (src, dst) not in self._bandwidth:
            self._bandwidth[src, dst] = self.noise.link(src, dst)
        speed = self.network.link(src, dst).speed(streams or self.exchange.streams)
        return self._bandwidth[src, dst] * speed

    def shard(self, src: Machine, dst: Machine, size: float) -> Signal:
        """Send a shard as averaging peers do; the factor of the software is on the link."""
        self.moved(src.place, dst.place, size)
        factor = self.problem.calibration.line_factor(
            self.exchange.transport,
            src.place,
            dst.place,
            rtt_s=self.network.link(src.place, dst.place).rtt_s,
            peers=round(self.size / size),
        )
        return self.fluid.send(
            size, self.bandwidth(src.place, dst.place) / factor, (src.sends, dst.receives)
        )

    def direct(self, src: Machine, dst: Machine) -> Process:
        """Send a gradient over plain streams, with what the protocol adds to its bytes."""
        self.moved(src.place, dst.place, self.size)
        yield self.network.link(src.place, dst.place).rtt_s / 2
        yield self.fluid.send(
            self.size / GOODPUT, self.bandwidth(src.place, dst.place), (src.sends, dst.receives)
        )


def _sleep(seconds: float) -> Process:
    yield seconds


Action = Callable[[], None]


class Signal:
    """Something that happens once; processes wait for it."""

    __slots__ = ("_waiting", "fired")

    def __init__(self) -> None:
        self.fired = False
        self._waiting: list[Action] = []

    def then(self, action: Action) -> None:
        """Call back when it happens, at once if it has."""
        if self.fired:
            action()
        else:
            self._waiting.append(action)

    def fire(self) -> None:
        """Let it happen, now."""
        self.fired = True
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()


Process = Generator[float | Signal, None, None]


class Loop:
    """Events in the order of their time, those of one time in the order in which they were planned.

    >>> loop, ended = Loop(), []
    >>> def sleeper(name, seconds):
    ...     yield seconds
    ...     ended.append((name, loop.now))
    >>> for name, seconds in (("late", 2.0), ("early", 1.0)):
    ...     _ = loop.start(sleeper(name, seconds))
    >>> loop.run()
    >>> ended
    [('early', 1.0), ('late', 2.0)]
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._planned: list[tuple[float, int, Action]] = []
        self._number = 0

    def after(self, seconds: float, action: Action) -> None:
        """Plan an action."""
        self._number += 1
        heapq.heappush(self._planned, (self.now + seconds, self._number, action))

    def start(self, process: Process) -> Signal:
        """Run a process from now on; the signal is its end."""
        done = Signal()
        self._resume(process, done)
        return done

    def run(self) -> None:
        """Run until nothing is planned."""
        while self._planned:
            self.now, _, action = heapq.heappop(self._planned)
            action()

    def _resume(self, process: Process, done: Signal) -> None:
        wanted = next(process, None)
        if wanted is None:
            done.fire()
        elif isinstance(wanted, Signal):
            wanted.then(partial(self._resume, process, done))
        else:
            self.after(wanted, partial(self._resume, process, done))


DONE = 1e-12
"""Share of a flow, or of the time on the clock, that rounding may leave over."""


@dataclass(eq=False, slots=True)
class Port:
    """One direction of a machine's network."""

    bytes_per_s: float
    room: float = 0.0
    open: int = 0


class Flow:
    """Bytes under way, not faster than ``cap``, through some ports."""

    __slots__ = ("cap", "done", "left", "ports", "rate", "size")

    def __init__(self, size: float, cap: float, ports: Sequence[Port]) -> None:
        self.size = self.left = size
        self.cap = cap
        self.ports = ports
        self.rate = 0.0
        self.done = Signal()


class Fluid:
    """All flows under way; their rates change whenever one begins or ends.

    >>> loop, port = Loop(), Port(10.0)
    >>> fluid, ends = Fluid(loop), []
    >>> for size in (10.0, 30.0):  # 5 bytes/s each until 2 s, then 20 bytes at 10 bytes/s
    ...     fluid.send(size, 100.0, [port]).then(lambda: ends.append(loop.now))
    >>> loop.run()
    >>> ends
    [2.0, 4.0]
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._flows: list[Flow] = []
        self._since = 0.0
        self._version = 0
        self._stale = False

    def send(self, size: float, cap: float, ports: Sequence[Port]) -> Signal:
        """Send bytes from now on; the signal is their arrival.

        size: Bytes, above 0.
        cap: bytes/s that the flow reaches alone.
        """
        self._advance()
        flow = Flow(size, cap, ports)
        self._flows.append(flow)
        self._refresh()
        return flow.done

    def _refresh(self) -> None:
        """Share anew, once for all flows that begin at this time."""
        if not self._stale:
            self._stale = True
            self._loop.after(0.0, self._settle)

    def _settle(self) -> None:
        self._stale = False
        self._version += 1
        if self._flows:
            share(self._flows)
            first = min(flow.left / flow.rate for flow in self._flows)
            self._loop.after(first, partial(self._wake, self._version))

    def _wake(self, version: int) -> None:
        """Take out the flows that have arrived, unless rates have changed since."""
        if version != self._version:
            return
        self._advance()
        instant = self._loop.now * DONE
        arrived, left = list[Flow](), list[Flow]()
        for flow in self._flows:
            rest = max(DONE * flow.size, flow.rate * instant)
            (arrived if flow.left <= rest else left).append(flow)
        self._flows = left
        for flow in arrived:
            flow.done.fire()
        self._refresh()

    def _advance(self) -> None:
        elapsed, self._since = self._loop.now - self._since, self._loop.now
        if elapsed:
            for flow in self._flows:
                flow.left -= flow.rate * elapsed


def share(flows: Sequence[Flow]) -> None:
    """Set the rates of flows: all rise together until a flow reaches its cap or a port is full
    (progressive filling).

    Bertsekas and Gallager, Data Networks (1992), section 6.5.2: the max-min fair allocation.

    >>> port = Port(10.0)
    >>> flows = [Flow(1.0, 2.0, [port]), Flow(1.0, 9.0, [port]), Flow(1.0, 9.0, [port])]
    >>> share(flows)  # the first reaches its cap of 2, the others share the 8 that are left
    >>> [flow.rate for flow in flows]
    [2.0, 4.0, 4.0]
    """
    ports = {id(port): port for flow in flows for port in flow.ports}
    for port in ports.values():
        port.room, port.open = port.bytes_per_s, 0
    for flow in flows:
        for port in flow.ports:
            port.open += 1
    rising = list(flows)
    while rising:
        tightest = min((port for port in ports.values() if port.open), key=_fair, default=None)
        level = float("inf") if tightest is None else _fair(tightest)
        fixed = [flow for flow in rising if flow.cap <= level]
        if fixed:
            rising = [flow for flow in rising if flow.cap > level]
        else:
            fixed = [flow for flow in rising if tightest in flow.ports]
            rising = [flow for flow in rising if tightest not in flow.ports]
        for flow in fixed:
            flow.rate = min(flow.cap, level)
            for port in flow.ports:
                port.room -= flow.rate
                port.open -= 1


def _fair(port: Port) -> float:
    """Return the bytes/s that each flow still rising through a port could have."""
    return max(0.0, port.room) / port.open
