"""Measure links from this machine to hosts of the user: plan, bill, run, and bring into rows of a
book.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from placer.errors import PlacerError
from placer.market.catalog import Region
from placer.market.network.graph import Network
from placer.market.network.link_model import light_rtt_s
from placer.market.sources.harvest import Harvest, Origin
from placer.market.sources.links.probe.bill import BillLine, Run, bill, plan_runs
from placer.market.sources.links.probe.client import Peer, Throughput, round_trip, throughput
from placer.market.sources.links.probe.hosts import ProbeHost, ProbeHosts
from placer.market.sources.links.probe.iperf3 import iperf3_throughput
from placer.market.sources.links.probe.protocol import ProbeError
from placer.market.sources.links.readings import MOST_BITS_PER_S, Reading, harvest_readings


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbePlan:
    """What will be sent to whom: the runs of each host and what all of them cost at most."""

    here: str
    hosts: tuple[tuple[ProbeHost, tuple[Run, ...]], ...]
    lines: tuple[BillLine, ...]
    seconds: float

    @property
    def usd(self) -> float:
        """Most that the probe costs."""
        return sum(line.usd for line in self.lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostReport:
    """What one host gave: readings, or why there are none."""

    host: ProbeHost
    readings: tuple[Reading, ...] = ()
    runs: tuple[tuple[str, Throughput], ...] = ()
    connect_ms: float | None = None
    echo_ms: float | None = None
    fault: str = ""


def plan_probe(
    network: Network, hosts: ProbeHosts, streams: Sequence[int], seconds: float, most_bytes: float
) -> ProbePlan:
    """Plan a probe; nothing is connected. See `plan_runs` and `bill`."""
    planned = tuple(
        (host, tuple(plan_runs(network, hosts.here, host, streams, seconds, most_bytes)))
        for host in hosts.hosts
    )
    lines = tuple(line for host, runs in planned for line in bill(network, hosts.here, host, runs))
    return ProbePlan(here=hosts.here, hosts=planned, lines=lines, seconds=seconds)


def run_probe(
    plan: ProbePlan, regions: Mapping[str, Region], token: str, iperf3: str | None = None
) -> Iterator[HostReport]:
    """Measure one host after the other: side by side they would share this machine's network.

    Parameters
    ----------
    plan
        Of `plan_probe`.
    regions
        Places with coordinates: an answer faster than light tells of a wrong place.
    token
        Shared secret of the servers.
    iperf3
        Program to measure with; None: sockets.
    """
    for host, runs in plan.hosts:
        try:
            yield (
                _iperf3_host(plan, host, runs, iperf3)
                if iperf3
                else _socket_host(plan, host, runs, regions, token)
            )
        except (ProbeError, PlacerError, OSError, UnicodeError) as fault:
            yield HostReport(host=host, fault=_words(fault))


def harvest_probe(
    reports: Sequence[HostReport], plan: ProbePlan, regions: Mapping[str, Region]
) -> Harvest:
    """Turn the figures of all hosts into rows of links.csv; count failed hosts as left out."""
    readings = [reading for report in reports for reading in report.readings]
    document = json.dumps(
        [
            [r.host.name, [[v, t.streams, t.received_bytes, t.bits_per_s] for v, t in r.runs]]
            for r in reports
        ]
    ).encode()
    origin = Origin(
        place=f"probe from {plan.here}",
        sha256=hashlib.sha256(document).hexdigest(),
        size_bytes=len(document),
    )
    left_out = {f"host {r.host.name}: {r.fault}": 1 for r in reports if r.fault}
    return harvest_readings(readings, regions, origins=[origin], left_out=left_out)


def _socket_host(
    plan: ProbePlan, host: ProbeHost, runs: Sequence[Run], regions: Mapping[str, Region], token: str
) -> HostReport:
    peer = Peer(address=resolve(host), token=token)
    trip = round_trip(peer)
    rtt_ms, least_ms = trip.rtt_s * 1e3, light_rtt_s(regions[plan.here], regions[host.place]) * 1e3
    if rtt_ms < least_ms:
        raise ProbeError(
            f"answers in {rtt_ms:.3g} ms; light in fibre to {host.place} needs {least_ms:.1f} ms: "
            f"check its place"
        )
    measured = _measured(
        runs, lambda run: throughput(peer, run.verb, run.streams, run.most_bytes, plan.seconds)
    )
    reading = partial(
        Reading, where=host.name, source=f"placer probe, {plan.seconds:g} s a run", as_of=today()
    )
    timed = [
        reading(src=a, dst=b, rtt_ms=rtt_ms)
        for a, b in ((plan.here, host.place), (host.place, plan.here))
    ]
    return HostReport(
        host=host,
        readings=(*timed, *(_reading(reading, plan, host, verb, done) for verb, done in measured)),
        runs=tuple(measured),
        connect_ms=trip.connect_s * 1e3,
        echo_ms=trip.echo_s * 1e3,
    )


def _iperf3_host(plan: ProbePlan, host: ProbeHost, runs: Sequence[Run], program: str) -> HostReport:
    rtts: list[float] = []

    def one(run: Run) -> Throughput:
        done, rtt_ms = iperf3_throughput(program, host, run, plan.seconds)
        rtts.extend([] if rtt_ms is None else [rtt_ms])
        return done

    measured = _measured(runs, one)
    reading = partial(
        Reading,
        where=host.name,
        source=f"placer probe with iperf3, {plan.seconds:g} s a run",
        as_of=today(),
    )
    timed = [reading(src=plan.here, dst=host.place, rtt_ms=min(rtts))] if rtts else []
    return HostReport(
        host=host,
        readings=(*timed, *(_reading(reading, plan, host, v, done) for v, done in measured)),
        runs=tuple(measured),
    )


def _measured(
    runs: Sequence[Run], measure: Callable[[Run], Throughput]
) -> list[tuple[str, Throughput]]:
    rows = []
    for run in runs:
        done = measure(run)
        if done.bits_per_s > MOST_BITS_PER_S:
            raise ProbeError(f"reports {done.bits_per_s:.3g} bits/s, more than any network")
        rows.append((run.verb, done))
    return rows


def _reading(
    reading: Callable[..., Reading], plan: ProbePlan, host: ProbeHost, verb: str, done: Throughput
) -> Reading:
    src, dst = (plan.here, host.place) if verb == "upload" else (host.place, plan.here)
    return reading(src=src, dst=dst, streams=done.streams, bits_per_s=done.bits_per_s)


def resolve(host: ProbeHost) -> tuple[str, int]:
    """Look a host's address up once, so that no time of a name server is measured."""
    address = socket.getaddrinfo(host.host, host.port, type=socket.SOCK_STREAM)[0][4]
    return str(address[0]), int(address[1])


def today() -> str:
    """Return the date of a measurement, UTC."""
    return datetime.now(UTC).date().isoformat()


def _words(fault: Exception) -> str:
    if isinstance(fault, TimeoutError):
        return "was silent for too long"
    if isinstance(fault, OSError):
        return fault.strerror or str(fault) or type(fault).__name__
    return str(fault)
