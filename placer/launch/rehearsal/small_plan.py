"""A plan made small: few bytes, no calculation to speak of, links that this machine carries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil
from typing import Any

from placer.cost_model.estimate import Estimate, estimate, exchange_phases, pool_of
from placer.cost_model.timing.transfers import GB, GOODPUT
from placer.documents.manifest import build_manifest
from placer.errors import PlacerError
from placer.launch.runtime.run_plan import RunPlan, plan_from
from placer.launch.shaped_network import Shape
from placer.market.catalog import MeasuredLink
from placer.market.network.graph import Link
from placer.market.network.tables import GBPS
from placer.problem.exchange import bytes_by_link, fragments, ring, traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.workload.constants import RINGS, Calibration, HostConstants, ServiceConstants
from placer.workload.engines import averages_in_ring
from placer.workload.profile import COMPRESSION_BYTES, Rate

EXCHANGE_S = 1.5
"""An exchange takes about so long: what this machine itself adds is small beside it."""
MOST_WIRE_BYTES = 24e6
"""Largest gradient of a rehearsal as it travels."""
LEAST_ELEMENTS = 10_000
SAMPLES_PER_WORKER = 64
"""Samples of a worker in one step, drawn in no time."""
MOST_MACHINES = 24
"""Workers on one machine."""
CARRIED_BYTES_PER_S = 30e6
"""Bytes/s of all transfers of a phase together: two cores of 2026 carry them beside the processes
at their ends, which take about a second for 300 MB, also where others use them.
"""
MOST_INSIDE_BYTES_PER_S = 375e6
"""Of a link inside a place, beside the slower ones between places."""
FRAMEWORKS = ("none", "hivemind", *RINGS)
INSTANT = 1e9
"""Samples/s of each worker: a rehearsal judges the exchange, so nobody waits for calculations."""
FAST = 1e15
DIRECT = ("server", "region-hub", "region-gossip")
"""Transports that are priced with `GOODPUT`, the share of a link's rate that reaches the
application. Shaped links count payload alone, so they are slower by it.
"""
AVERAGES = {"butterfly": 1, "leaders": 2}
"""Averages that the timing of a transport adds up in one exchange between regions."""
KEPT_ALIVE_ROUND_TRIPS = 1.5
"""Over a kept connection: one for a read, two for a write, which asks before it sends."""


@dataclass(frozen=True, kw_only=True)
class SmallPlan:
    """A plan made small: the question with its model made small, its links as they are carried here
    and the constants of this network, and the placement.

    ``scale``: bytes over those of the plan. ``slower``: pairs of places whose link is faster in the
    plan than here; they are cut, for the price too.
    """

    problem: Problem
    placement: Placement
    scale: float
    elements: int
    slower: tuple[tuple[str, str], ...]

    @cached_property
    def estimate(self) -> Estimate:
        """Return the estimate of the cost model."""
        return estimate(self.placement, self.problem)

    @cached_property
    def exchange_s(self) -> float:
        """Return the priced seconds of one exchange: all that is waited for beside calculation."""
        if self.rings:
            exchange, network = self.placement.exchange, self.problem.network
            late = traits(exchange.strategy).always_overlaps
            times = fragments(exchange.local_steps) if late else 1
            part = self.problem.gradient_bytes / times
            return times * ring_seconds(self.plan.places, part, network.link)
        step = self.estimate.step
        return step.total - step.calculation

    @property
    def rings(self) -> bool:
        """Return whether gloo itself averages over all workers, for PyTorch or torchft."""
        plan = self.plan
        plain = plan.engine == "torchft" and plan.exchange.compression == "none"
        return plan.engine == "torch" or plain

    def sent_bytes(self, rounds: int) -> dict[tuple[str, str], float]:
        """Return the bytes of a round by directed pair of places; each of so many has its part of
        the first copies of the model, which PyTorch makes inside worlds.
        """
        plan, size = self.plan, self.problem.gradient_bytes
        regions = [(place, len(ranks)) for place, ranks in plan.regions]
        # With gloo, whatever was priced.
        sent = bytes_by_link(ring(regions, size, "gloo") if self.rings else plan.phases(size))
        copy = self.elements * COMPRESSION_BYTES["none"] / rounds
        for world in plan.worlds:
            for pair, count in first_copies([plan.places[rank] for rank in world], copy).items():
                sent[pair] = sent.get(pair, 0.0) + count
        return sent

    def manifest(self) -> dict[str, Any]:
        """Build the manifest of the small plan."""
        return build_manifest(self.problem, self.placement, self.estimate, "feasible", None)

    @cached_property
    def plan(self) -> RunPlan:
        """Return the plan of its manifest; its machines are those of the network."""
        return plan_from(self.manifest(), "rehearsal")

    @property
    def shapes(self) -> list[Shape]:
        """List the links between all places, and inside each."""
        places = sorted(set(self.plan.machines))
        share = GOODPUT if traits(self.placement.exchange.strategy).transport in DIRECT else 1.0
        links = (self.problem.network.link(src, dst) for src, dst in product(places, places))
        return [
            Shape(
                src=link.src,
                dst=link.dst,
                stream_bytes_per_s=share * link.bytes_per_second,
                pair_bytes_per_s=share * max(link.cap, link.bytes_per_second),
                rtt_s=link.rtt_s,
            )
            for link in links
        ]


def fewer(placement: Placement, per_group: int | None) -> Placement:
    """Cut each group of the plan to at most so many workers; too many in all are refused."""
    if per_group is not None:
        placement = replace(
            placement,
            groups=tuple(replace(g, count=min(g.count, per_group)) for g in placement.groups),
        )
    if placement.workers > MOST_MACHINES:
        raise PlacerError(
            f"the plan has {placement.workers} workers, a rehearsal at most {MOST_MACHINES}",
            "rehearse fewer of each group: --per-group 2",
        )
    return placement


def as_hosts(placement: Placement, where: str) -> Placement:
    """Return a placement whose workers are single hosts, whatever they do inside.

    An island of several machines is refused: they send side by side, which one host cannot show.
    """
    most = max(group.machines for group in placement.groups)
    if most > 1:
        raise PlacerError(
            f"{where}: a rehearsal runs workers of one machine, and an island of the plan has "
            f"{most}",
            "run it on this machine with placer run --local; its links are not shaped",
        )
    return replace(placement, groups=tuple(replace(g, inner=None) for g in placement.groups))


def small_plan(
    problem: Problem, placement: Placement, scale: float | None = None, elements: int | None = None
) -> SmallPlan:
    """Make a plan small: without ``scale`` or ``elements``, which a user's own model has, so that
    an exchange takes about `EXCHANGE_S`, with at most `MOST_WIRE_BYTES`. Too small is refused.
    """
    whole = problem.profile.gradient_bytes_fp32 / COMPRESSION_BYTES["none"]
    if elements is None:
        scale = usual_scale(problem, placement) if scale is None else scale
        elements = round(whole * scale)
        if elements < min(LEAST_ELEMENTS, int(whole)):
            least = f"{LEAST_ELEMENTS / whole:.2g} is about the smallest"
            raise PlacerError(
                f"scale {scale:.3g} leaves {elements:,} of {whole:,.0f} parameters, fewer than "
                f"{LEAST_ELEMENTS:,}",
                f"{least}: headers are more than data below it",
            )
    return _small(problem, placement, elements / whole, elements)


def usual_scale(problem: Problem, placement: Placement) -> float:
    """Return the scale of about `EXCHANGE_S`, at most 1: seconds grow evenly with the bytes."""
    element_bytes = COMPRESSION_BYTES[problem.compression]
    least = LEAST_ELEMENTS * element_bytes / problem.gradient_bytes
    most = MOST_WIRE_BYTES / problem.gradient_bytes
    whole = problem.profile.gradient_bytes_fp32 / COMPRESSION_BYTES["none"]
    none, all_of_it = (
        _small(problem, placement, share, max(1, round(share * whole))).exchange_s
        for share in (least, 1.0)
    )
    wanted = EXCHANGE_S / max(all_of_it - none, 1e-9) if least < 1 else 1.0
    return min(1.0, max(least, min(most, wanted)))


def _small(problem: Problem, placement: Placement, scale: float, elements: int) -> SmallPlan:
    batch = SAMPLES_PER_WORKER * placement.workers
    links, slower = _carried(problem, placement)
    profile = replace(
        problem.profile,
        parameters=elements,
        gradient_bytes_fp32=elements * int(COMPRESSION_BYTES["none"]),
        tensors=1,
        target_batch_size=batch,
        microbatch=batch,
        rates=_instant_rates(placement),
        architecture=None,
    )
    requirements = replace(
        problem.requirements,
        target_batch_size=batch,
        batch_range=None,
        quorum=None,  # all workers answer here
        grace_s=None,
        compression=problem.compression,
    )
    small = Problem(
        profile=profile,
        catalog=replace(problem.catalog, links=links),
        requirements=requirements,
        calibration=problem.calibration,
    )
    calibration = _this_network(small, placement)
    return SmallPlan(
        problem=replace(small, calibration=calibration),
        placement=placement,
        scale=scale,
        elements=elements,
        slower=slower,
    )


def _instant_rates(placement: Placement) -> tuple[Rate, ...]:
    kinds = dict.fromkeys((group.gpu, group.gpu_count) for group in placement.groups)
    return tuple(
        Rate(
            gpu=gpu,
            gpu_count=count,
            framework=framework,
            **dict.fromkeys(("value", "low", "high"), INSTANT),
            basis="assumed",
            source="a rehearsal does not calculate",
        )
        for gpu, count in kinds
        for framework in FRAMEWORKS
    )


def _carried(
    problem: Problem, placement: Placement
) -> tuple[tuple[MeasuredLink, ...], tuple[tuple[str, str], ...]]:
    """Return a row for each link between places, none above what is carried here beside all
    transfers of its phase, and the pairs that were cut. Inside places links stay as many times
    faster as there are workers, so that those between places are still waited for.
    """
    exchange = placement.exchange
    places = sorted({*placement.places, *filter(None, (exchange.aggregator, exchange.storage))})
    phases = exchange_phases(placement, problem)
    at_once = [sum(t.count for t in phase.transfers if t.src != t.dst) for phase in phases]
    if averages_in_ring(exchange, "gloo"):  # whatever was priced, as here
        at_once = [len(places)]
    between = CARRIED_BYTES_PER_S / max([1, *at_once])
    inside = min(MOST_INSIDE_BYTES_PER_S, between * placement.workers)
    if len(places) == 1:
        inside = CARRIED_BYTES_PER_S / placement.workers
    rows, slower = [], []
    for src, dst in product(places, places):
        link, most = problem.network.link(src, dst), inside if src == dst else between
        if link.bytes_per_second > most:
            slower.append((src, dst))
        rows.append(
            MeasuredLink(
                src=src,
                dst=dst,
                gbps_one_stream=min(most, link.bytes_per_second) / GBPS,
                gbps_low=None,
                gbps_high=None,
                rtt_ms=link.rtt_s * 1e3,
                basis=link.basis,
                source=link.source,
                as_of="",
                gbps_many_streams=min(most, max(link.cap, link.bytes_per_second)) / GBPS,
            )
        )
    return tuple(rows), tuple(slower)


def _this_network(small: Problem, placement: Placement) -> Calibration:
    """Return the constants of this network: averages inside a place pass its cards, the machine
    itself takes no time, and gloo asks before it sends.

    The published form of an average inside a zone is of machines that are not here. One round trip
    of the slowest pair is added for each phase, of fragments for each of them. Between regions an
    average passes the cards beside the slower links, and takes nothing more.
    """
    exchange, places = placement.exchange, placement.places
    chosen, network = traits(exchange.strategy), small.network
    several = len(set(places)) > 1
    rounds = fragments(exchange.local_steps) if chosen.always_overlaps else 1
    pairs = [(a, b) for a in places for b in places if a != b or not several]
    slowest = max((network.link(*pair).rtt_s for pair in pairs), default=0.0)
    inside = min(network.machine_bytes_per_s(place) for place in places)
    if chosen.transport in DIRECT:
        inside *= GOODPUT
    averages = AVERAGES.get(chosen.transport)
    constants = HostConstants(
        2 * slowest * rounds / averages if averages else 0.0,
        0.0,
        0.0,
        s_per_gb_sent=_inside_share(placement, chosen.transport) * GB / inside,
    )
    hosts = {pool_of(g, small, placement.workers).host for g in placement.groups}
    hosts |= {gpu.host for gpu in small.catalog.gpus.values()}
    return Calibration(
        name="the network of a rehearsal",
        hosts=dict.fromkeys(sorted(hosts), constants),
        kappa=(1.0, 1.0, 1.0),
        ring_kappa=(1.0, 1.0, 1.0),
        averaging_spread=(1.0, 1.0, 1.0),
        services=ServiceConstants(
            start_s=0.0,
            round_trips=KEPT_ALIVE_ROUND_TRIPS,
            stream_bytes_per_s=FAST,
            function_bytes_per_s=FAST,
            sum_bytes_per_s=FAST,
            server_sum_bytes_per_s=None,
        ),
    )


def _inside_share(placement: Placement, transport: str) -> float:
    """Return the share of averages that passes cards inside places: none of a butterfly between
    places; of leaders one average inside and one between look alike.
    """
    counts = placement.workers_by_place.values()
    if len(counts) == 1 or transport not in AVERAGES:
        return 1.0
    if transport == "butterfly":
        return 0.0
    inside, between = (1 - 1 / count for count in (max(counts), len(counts)))
    return inside / (inside + between)


MOST_SEGMENT_BYTES = 2**20
IN_FLIGHT = 2
"""Segments that a rank sends, and receives, at a time (gloo/allreduce.cc, ``ring``)."""
Links = Callable[[str, str], Link]


def ring_seconds(places: Sequence[str], byte_count: float, link: Links) -> float:
    """Return the seconds of an all-reduce of some bytes over ranks in some places.

    Reduce-scatter and all-gather each pass all but one part of the vector on to the next rank, in
    segments. One is sent when its receiver has said that it waits for it, and that one waits for
    two at a time: far ranks wait for a round trip for each two. Of two ranks the asking waits
    behind the segments that go the same way, over the same connection.

    >>> from placer.market.network.graph import Link
    >>> def even(src, dst):
    ...     return Link(
    ...         src=src, dst=dst, bytes_per_second=1e7, low=1e7, high=1e7, cap=1e7, rtt_s=0.1,
    ...         basis="measured", source="")
    >>> # twice two segments of half a MB, and a round trip
    >>> round(ring_seconds(["a", "b"], 2e6, even), 3)
    0.4
    """
    ranks = len(places)
    parts = max(IN_FLIGHT, ceil(byte_count / MOST_SEGMENT_BYTES / ranks))
    segment = byte_count / ranks / parts
    # As seen from the last rank to the first, each sends to the next.
    backwards = places[::-1]
    links = [link(backwards[number - 1], place) for number, place in enumerate(backwards)]
    delays = [way.rtt_s / 2 for way in links]
    free, began = [0.0] * ranks, 0.0
    for _ in range(2):
        ready = [[began] * ranks for _ in range(IN_FLIGHT)]
        ended = began
        for number in range((ranks - 1) * parts):
            posted = ready[number % IN_FLIGHT]
            came, sent, before = [0.0] * ranks, [0.0] * ranks, list(free)
            for rank, way in enumerate(links):
                asked, takes = posted[rank], segment / way.bytes_per_second
                if ranks == 2 and before[rank - 1] - takes <= asked:  # a segment is on its way
                    asked = max(asked, before[rank - 1])
                start = max(posted[rank - 1], asked + delays[rank], free[rank])
                free[rank] = sent[rank - 1] = start + takes
                came[rank] = free[rank] + delays[rank]
            ready[number % IN_FLIGHT] = [max(pair) for pair in zip(came, sent, strict=True)]
            ended = max(ended, *came)
        began = ended
    return began


def first_copies(places: Sequence[str], byte_count: float) -> dict[tuple[str, str], float]:
    """Return the bytes by which rank 0 first gives its model to the others, in a binomial tree.

    >>> dict(first_copies(["a", "a", "b", "b"], 100.0))
    {('a', 'a'): 100.0, ('a', 'b'): 200.0}
    """
    sent: defaultdict[tuple[str, str], float] = defaultdict(float)
    for rank in range(1, len(places)):
        parent = rank - (1 << (rank.bit_length() - 1))
        sent[places[parent], places[rank]] += byte_count
    return sent
