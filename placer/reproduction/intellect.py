"""Jaghouar et al., INTELLECT-1 (2024): DiLoCo of 10 B parameters over up to three continents, its
ring of INT8 changes over the public internet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from placer.cost_model.timing.transfers import wan_seconds
from placer.documents.schemas.measured import PaperRow, Verdict
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.market.network.graph import Network, network_of
from placer.problem.exchange import butterfly
from placer.reproduction.comparison import (
    Finding,
    PublishedClaim,
    Reproduction,
    judged_claims,
    paper_row,
    reproduction,
    told,
)
from placer.workload.constants import PUBLISHED
from placer.workload.island import TRANSPORTS, Island, Question, island
from placer.workload.island.hardware import Hardware
from placer.workload.profile import ModelProfile, load_profile

BOOK = "intellect-1"
MODEL = "intellect-1"
SENT = "int8"
"""Changes travel so."""
TITLE = "Jaghouar et al., INTELLECT-1 Technical Report (arXiv 2412.01152)"
LOCAL_STEPS = 100
CALCULATION_S = 38 * 60.0
"""Seconds of 100 inner steps of a node, wherever the others are: table 2."""
SEQUENCES = 128
"""Of a node in a step: configs/10B/H100_intellect1.toml of their framework, prime."""
BASE_MFU = 0.433
"""Share of the peak without communication, table 2."""
WEST, SOUTH, EAST = "lambda/us-west-1", "lambda/us-south-1", "lambda/us-east-1"
EUROPE, ASIA = "lambda/europe-central-1", "lambda/asia-northeast-1"
UTILISATION, ALL_REDUCE, MFU = "calculating", "all-reduce", "MFU"
AS_RUN, AS_PLACER = "a ring, as it ran", "a butterfly, as placer would run it"
NODE = "one node of 8 x H100"
NOTES = (
    "Places are stand-ins: three in the USA, one in Europe, one in Asia, 14 nodes in all. Which "
    "nodes ran when is not published, nor the bandwidth of a pair; the prices are Lambda's.",
    "Links: 0.5 to 4 Gb/s is published. Assumed: the geometric mean within a continent, the low "
    "end between continents. No figure is fitted to the run.",
    "A ring of Gloo takes 1.90 times as long as an ideal one (measured on shaped links), and "
    "waits for its slowest link; their order of nodes makes that link as fast as it can be.",
    "Utilisation is calculation over calculation and all-reduce: 38 minutes are published for "
    "100 steps, and beside them stand placer's own, from the dimensions of the model.",
    "The butterfly has no published figure: its parts take all links side by side.",
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Nodes by place, and the published share of time, seconds of an all-reduce and MFU."""

    label: str
    claim: str
    nodes: tuple[tuple[str, int], ...]
    utilisation: float
    all_reduce_s: float
    mfu: float


SCENARIOS = (
    Scenario("USA", "I01", ((WEST, 5), (SOUTH, 4), (EAST, 5)), 0.957, 103, 0.414),
    Scenario(
        "USA and Europe", "I02", ((WEST, 3), (SOUTH, 3), (EAST, 3), (EUROPE, 5)), 0.856, 382, 0.371
    ),
    Scenario(
        "three continents",
        "I03",
        ((WEST, 2), (SOUTH, 2), (EAST, 3), (EUROPE, 4), (ASIA, 3)),
        0.830,
        469,
        0.362,
    ),
)
"""Table 2; medians of the all-reduces."""


def reproduce() -> Reproduction:
    """Time their all-reduce over the book's links and check the claims."""
    book, profile = load_catalog(BOOK), load_profile(MODEL)
    network = network_of(book)
    rows = [row for scenario in SCENARIOS for row in ring_rows(scenario, network, profile)]
    rows += [butterfly_row(scenario, network, profile) for scenario in SCENARIOS]
    rows.append(node_row(book, profile))
    claims = judged_claims(BOOK, lambda claim: _finding(claim, rows, profile))
    return reproduction(
        paper="intellect-1", title=TITLE, rows=tuple(rows), claims=claims, notes=NOTES
    )


def slowest_hop(places: Sequence[str], network: Network, case: int) -> float:
    """Return the bytes/s of the slowest link of the best ring over some places."""
    first, *others = places
    return max(
        min(
            network.link(a, b).speed(case=case)
            for a, b in zip(order, (*order[1:], first), strict=True)
        )
        for rest in permutations(others)
        for order in [(first, *rest)]
    )


def ring_seconds(scenario: Scenario, network: Network, profile: ModelProfile, case: int) -> float:
    """Return the seconds of an all-reduce in a ring: 2 (N - 1) / N changes over its slowest link;
    ``case`` 0 expected, 1 slow, 2 fast.
    """
    via, nodes = TRANSPORTS["gloo"], sum(count for _, count in scenario.nodes)
    places = [place for place, _ in scenario.nodes]
    sent_bytes = 2 * (nodes - 1) / nodes * profile.gradient_bytes(SENT)
    ideal = sent_bytes / slowest_hop(places, network, case)
    return ideal / via.slow_link_share * (1.0, via.slow, via.fast)[case]


def utilisation(exchange_s: float) -> float:
    """Return the share of time in which a node calculates."""
    return CALCULATION_S / (CALCULATION_S + exchange_s)


def ring_rows(scenario: Scenario, network: Network, profile: ModelProfile) -> list[PaperRow]:
    """Compare all-reduce, share of time and MFU with the published ones."""
    value, slow, fast = (ring_seconds(scenario, network, profile, case) for case in range(3))
    shares = [utilisation(seconds) for seconds in (value, slow, fast)]
    figures = (
        (UTILISATION, "%", 100 * scenario.utilisation, [100 * share for share in shares]),
        (ALL_REDUCE, "s", scenario.all_reduce_s, [value, fast, slow]),
        (MFU, "%", 100 * scenario.mfu, [100 * BASE_MFU * share for share in shares]),
    )
    return [
        paper_row(
            groups=(AS_RUN,),
            label=scenario.label,
            quantity=quantity,
            unit=unit,
            published=published,
            ours=ours,
            low=low,
            high=high,
        )
        for quantity, unit, published, (ours, low, high) in figures
    ]


def butterfly_row(scenario: Scenario, network: Network, profile: ModelProfile) -> PaperRow:
    """Time the same change in the butterfly of placer's plans; nobody published that."""
    phases = butterfly(scenario.nodes, profile.gradient_bytes(SENT))
    value, slow, fast = (
        utilisation(wan_seconds(phases, network, PUBLISHED, case=case, software="gloo"))
        for case in range(3)
    )
    return paper_row(
        groups=(AS_PLACER,),
        label=scenario.label,
        family=scenario.label,
        quantity=UTILISATION,
        unit="%",
        ours=100 * value,
        low=100 * slow,
        high=100 * fast,
    )


def node_row(book: Catalog, profile: ModelProfile) -> PaperRow:
    """Compare the seconds of 100 steps with those that follow from the model's dimensions."""
    assert profile.architecture is not None
    machine = Hardware(gpu=book.gpu("H100"), gpu_count=8, network_gbps=None, fabric="", machines=1)
    node = island(
        Question(architecture=profile.architecture, hardware=machine, sequences=SEQUENCES)
    )
    assert isinstance(node, Island)
    sequences = LOCAL_STEPS * SEQUENCES
    return paper_row(
        groups=(NODE,),
        label=f"{LOCAL_STEPS} steps of {SEQUENCES} sequences",
        quantity="calculation",
        unit="s",
        published=CALCULATION_S,
        ours=sequences / node.samples_per_second,
        low=sequences / node.high,
        high=sequences / node.low,
    )


def _finding(claim: PublishedClaim, rows: Sequence[PaperRow], profile: ModelProfile) -> Finding:
    """Judge a claim: a published figure outside of the interval contradicts it; inside it decides
    only where nothing unpublished makes the interval, as the links of the ring do.
    """
    if claim.id == "I05":
        steps = LOCAL_STEPS * profile.gradient_bytes("none") / profile.gradient_bytes(SENT)
        return Finding(
            told(steps == float(claim.value)),
            f"{steps:.0f} x: {LOCAL_STEPS} steps, 1 byte in place of 4",
            "bytes of the exchange; nothing is fitted",
        )
    inside = Verdict.REPRODUCED
    if claim.id == "I04":
        row = next(row for row in rows if row.groups == [NODE])
        ends = (row.ours, row.high or row.ours, row.low or row.ours)
        ours = tuple(100 * BASE_MFU * CALCULATION_S / seconds for seconds in ends)
        words = f"{ours[0]:.1f} % ({ours[1]:.1f} to {ours[2]:.1f}): {row.ours:.0f} s for 38 min"
        why = "FLOPs of the dimensions, utilisation fitted to other models on A100"
    else:
        label = next(s.label for s in SCENARIOS if s.claim == claim.id)
        row = next(
            r for r in rows if r.label == label and r.quantity == UTILISATION and r.published
        )
        words = f"{row.ours:.1f} % ({row.low:.1f} to {row.high:.1f})"
        why = "a ring over links of 0.5 to 4 Gb/s: those of a pair would decide within the interval"
        inside = Verdict.UNDECIDED
    return Finding(inside if row.inside_interval else Verdict.CONTRADICTED, words, why)
