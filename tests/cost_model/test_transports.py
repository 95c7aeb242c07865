"""Exchanges by NCCL, Gloo and hivemind: what hides behind the calculation, what many machines send
side by side, and figures that must not change.
"""

import importlib
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from instances import island_problem, language_model, question, wishing
from placer.cost_model.estimate import estimate, evaluate, exchange_phases, pool_of
from placer.cost_model.timing.site_groups import (
    StepSeconds,
    bucketed,
    hidden_seconds,
    most_calculation_seconds,
    overlap_window,
    site_group_of,
)
from placer.cost_model.timing.transfers import Lanes, lanes, machine_loads
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.market.network.graph import Network
from placer.market.words.own_machines import parse_own, with_own_machines
from placer.problem.exchange import STRATEGIES, Phase, Transfer
from placer.problem.placement import Exchange, Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Quota
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.workload.island.transports import HIDDEN_SHARE
from placer.workload.profile import load_profile

placements = importlib.import_module("placer.solvers.exhaustive").placements
seconds = st.floats(0, 1e5)
windows = st.floats(0.01, 1)


@given(seconds, seconds, st.one_of(st.just(0.0), windows))
def test_part_of_an_exchange_hides(calculation: float, communication: float, window: float) -> None:
    """Between nothing and 0.8 of it, and never longer than the calculation beside which it runs;
    the first and the last bucket stay.
    """
    hidden = float(hidden_seconds(calculation, communication, window))
    assert 0 <= hidden <= HIDDEN_SHARE * communication
    assert hidden <= window * calculation
    step = bucketed(StepSeconds(calculation=calculation, communication=communication), window)
    assert max(calculation, communication) <= step.total * (1 + 1e-12)
    assert step.total <= calculation + communication


@given(seconds, seconds, st.floats(0, 10), windows)
def test_longer_parts_make_longer_steps(
    calculation: float, communication: float, more: float, window: float
) -> None:
    """More calculation, or more communication, never shortens a step."""

    def total(a: float, b: float) -> float:
        return float(a + b - hidden_seconds(a, b, window))

    at = total(calculation, communication)
    assert at <= total(calculation + more, communication) * (1 + 1e-12)
    assert at <= total(calculation, communication + more) * (1 + 1e-12)


@given(st.floats(1e-3, 1e5), seconds, st.one_of(st.just(0.0), windows))
def test_the_longest_calculation_is_the_inverse_of_a_round(
    calculation: float, communication: float, window: float
) -> None:
    """Solvers ask how long a round of given length may calculate: exactly as long as one that
    takes so long.
    """
    round_s = calculation + communication - hidden_seconds(calculation, communication, window)
    back = float(most_calculation_seconds(round_s, communication, window))
    assert back == pytest.approx(calculation, rel=1e-9, abs=1e-9 * (communication + 1))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("transport", ["nccl", "gloo", "hivemind"])
@pytest.mark.parametrize("overlap", [False, True])
def test_only_rings_of_gradients_hide_without_staleness(
    strategy: str, transport: str, overlap: bool
) -> None:
    """An all-reduce of NCCL or Gloo in buckets; what runs beside the next step hides there, and
    once.
    """
    exchange = Exchange(strategy=strategy, compression="fp16", transport=transport, overlap=overlap)
    window = [overlap_window(exchange, case) for case in range(3)]
    if strategy == "all-reduce" and transport != "hivemind" and not overlap:
        expected, slow, fast = window
        assert 0 < slow < expected < fast < 1
    else:
        assert window == [0.0, 0.0, 0.0]
    for late in ({"compression": "int8"}, {"streams": 4}):  # placer averages, not PyTorch
        assert overlap_window(replace(exchange, **late)) == 0.0


def drawn(seed: int, pick: int) -> tuple[Problem, Placement]:
    """Draw one placement of a market with islands, of several workers where it has any."""
    problem = island_problem(seed)
    found = list(islice(placements(problem), 200))
    several = [p for p in found if p.workers > 1] or found
    if not several:
        reject()
    return problem, several[pick % len(several)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 400))
def test_slow_and_fast_cases_bracket_the_expected_one(seed: int, pick: int) -> None:
    """Any transport, any strategy, islands of any size."""
    problem, placement = drawn(seed, pick)
    speed = estimate(placement, problem).samples_per_second
    assert speed.low <= speed.value * (1 + 1e-12)
    assert speed.value <= speed.high * (1 + 1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 400), st.floats(1, 8))
def test_larger_network_cards_never_slow_a_round(seed: int, pick: int, more: float) -> None:
    """The same workers with the same plans, whose machines have faster networks.

    Not by ASGD-GA: a region that got faster takes a larger part, and still waits for its sends.
    """
    problem, placement = drawn(seed, pick)
    if placement.exchange.strategy == "asgd-ga":
        reject()
    offers = tuple(
        replace(o, network_gbps=o.network_gbps * more) if o.network_gbps else o
        for o in problem.catalog.offers
    )
    faster = replace(problem, catalog=replace(problem.catalog, offers=offers))
    before, after = (evaluate(placement, asked).step.total for asked in (problem, faster))
    assert after <= before * (1 + 1e-9)


def test_a_ring_crosses_twice_where_a_butterfly_crosses_with_every_pair(default: Catalog) -> None:
    """Eight workers in each of two regions, S = 1.12 GB. hivemind's 2 x 64 pairs between them carry
    2 S / 16 each, 16 S in all; PyTorch's ring has two edges there of 2 x 15 / 16 S, 3.75 S. The
    slower edge takes 1.875 S over its bandwidth, and a part is on its way over both in each of two
    phases: two round trips in halves, for each of the eight buckets of 2.24 GB in FP32.
    """
    two = "aws/us-east-1=8xT4:spot,aws/us-west-2=8xT4:spot"
    sent, seconds = {}, {}
    for transport in ("nccl", "hivemind"):
        wish = {"exchange": "all-reduce", "compression": "fp16", "transport": transport}
        problem = question("roberta-xlm", default, **wish)
        got = estimate(place_by_hand(two, problem), problem)
        across = [use.bytes_per_step for use in got.links if use.src != use.dst]
        sent[transport] = sum(across) / problem.gradient_bytes
        seconds[transport] = dict(got.step.parts)["between regions"]
    assert sent == pytest.approx({"nccl": 3.75, "hivemind": 16.0})
    ways = [("aws/us-east-1", "aws/us-west-2"), ("aws/us-west-2", "aws/us-east-1")]
    links = [problem.network.link(*way) for way in ways]
    slowest = min(link.bytes_per_second for link in links)
    assert seconds["nccl"] == pytest.approx(
        1.875 * problem.gradient_bytes / slowest + 8 * sum(link.rtt_s for link in links)
    )
    assert seconds["nccl"] > 5 * seconds["hivemind"]


SPREAD = "aws/us-east-1={}xH100:8:spot+zero-3+mb=1,aws/us-west-2={}xH100:8:spot+zero-3+mb=1"


@pytest.mark.parametrize("exchange", ["all-reduce", "model-averaging", "asgd-ga"])
def test_bytes_do_not_depend_on_machines_and_streams_do(default: Catalog, exchange: str) -> None:
    """A worker of four machines sends the same gradient as one of one machine, over four times
    the streams: no slower, and for the same price a round.
    """
    steps = {} if exchange == "all-reduce" else {"min_local_steps": 4, "max_local_steps": 4}
    problem, bills, rates = asked(default, exchange=exchange, **steps), [], []
    for words in ("1", "1x4"):
        placement = place_by_hand(SPREAD.format(words, words), problem)
        machines = [(pool_of(group, problem), group.count) for group in placement.groups]
        phases = exchange_phases(placement, problem)
        network = site_group_of(machines, placement, phases, problem, 0).network
        got, ends = estimate(placement, problem), ("aws/us-east-1", "aws/us-west-2")
        across = [use.bytes_per_step for use in got.links if use.src != use.dst]
        bills.append([*across, got.usd_per_hour.egress * got.step.total])
        rates.append([network.link(*ends).bytes_per_second, network.machine_bytes_per_s(ends[0])])
    assert bills[0] == pytest.approx(bills[1])
    (one_rate, one_card), (four_rate, four_card) = rates
    assert one_rate < four_rate <= 4 * one_rate
    assert four_card == 4 * one_card


def test_an_island_sends_as_fast_as_its_machines_together(default: Catalog) -> None:
    """Llama 3.1 8B in two regions of AWS with 64 streams: 16.1 GB each way at the 4.8 Gb/s that one
    pair of machines reaches are 26.8 s, a quarter of it for four pairs and 1.7 s for 16. With eight
    workers a region the eight that a machine sends to share its own network, which also has 4.8
    Gb/s: 8 x 2 S / 16, as long as one worker takes with 2 S / 2.
    """
    quota = (Quota(place="*", gpu="*", market="*", gpus=1024),)
    for count in (1, 8):
        steps = []
        for machines in (1, 4, 16):
            problem = replace(
                asked(default, exchange="all-reduce", streams=64),
                profile=load_profile("llama-3.1-8b"),
            )
            problem = wishing(problem, quotas=quota)
            words = f"{count}x{machines}x" if machines > 1 else f"{count}x"
            groups = f"aws/us-east-1={words}H100:8:spot,aws/us-west-2={words}H100:8:spot"
            steps.append(estimate(place_by_hand(groups, problem), problem).step)
        between = [dict(step.parts)["between regions"] for step in steps]
        assert between == pytest.approx([26.8, 26.8 / 4, 26.8 / 16], rel=0.01)


def test_the_busiest_machine_of_a_place_by_hand() -> None:
    """Two machines of a share four transfers of 100 B to the one of b, and two of 60 B between
    them; b sends 30 B back: 200 B leave each of a, 400 B reach b.
    """
    sent = Transfer("a", "b", 100.0, 4, src_hosts=2), Transfer("b", "a", 30.0)
    phase = Phase("test", (*sent, Transfer("a", "a", 60.0, 2, src_hosts=2, dst_hosts=2)))
    assert machine_loads(phase, inside=False) == {"a": 200.0, "b": 400.0}
    assert machine_loads(phase, inside=True) == {"a": 260.0, "b": 400.0}


def test_lanes_are_as_many_as_the_smaller_end_has_machines(default: Catalog) -> None:
    """Two machines against eight send in two lanes, each with a cap of its own; where each is one
    nothing changes.
    """
    network = asked(default).network
    east, west = "aws/us-east-1", "aws/us-west-2"
    several = lanes(network, {east: 2, west: 8})
    assert isinstance(several, Lanes)
    one = network.link(east, west)
    assert several.link(east, west).speed(64) == 2 * one.speed(64)
    assert several.link(east, "gcp/us-central1") == network.link(east, "gcp/us-central1")
    assert lanes(network, {east: 1, west: 1}) is network


def asked(book: Catalog, **wishes: Any) -> Problem:
    """A model of 1.3 B parameters on the default book with a quota of 256."""
    quota = Quota(place="*", gpu="*", market="*", gpus=256)
    return question("mpt-1b", book, quotas=(quota,), **wishes)


@pytest.mark.parametrize("gbps", [100.0, 400.0, 3200.0])
@pytest.mark.parametrize(("islands", "machines"), [(2, 1), (4, 1), (2, 2), (4, 2), (2, 4), (8, 2)])
def test_several_islands_of_a_zone_take_as_long_as_one(
    default: Catalog, gbps: float, islands: int, machines: int
) -> None:
    """Plain data parallelism over the same machines is the same run, called one island of n k
    machines or n islands of k.
    """
    offers = tuple(
        replace(o, network_gbps=gbps, fabric="efa")
        for o in default.offers_at("aws/us-east-1")
        if o.device == "H100:8"
    )
    model = replace(language_model(24, 1_024, 64 * islands * machines * 8), microbatch=8)
    problem = replace(
        asked(replace(default, offers=offers)), profile=replace(model, compression="fp16")
    )
    one, several = (
        evaluate(place_by_hand(f"aws/us-east-1={words}H100:8:spot+none+mb=8", problem), problem)
        for words in (f"1x{islands * machines}x", f"{islands}x{machines}x")
    )
    assert several.processed_per_second == pytest.approx(one.processed_per_second, rel=0.01)


def _averaged(model: str, workers: str, batch: int) -> StepSeconds:
    """Time a round of the book of Erben et al."""
    problem = question(model, load_catalog("erben-2023"), target_batch_size=batch)
    return estimate(place_by_hand(workers, problem), problem).step


def test_an_exchange_waits_for_the_slowest_stream_of_a_site() -> None:
    """Two FP16 gradients of 560,142,482 parameters over 0.06 Gb/s take 0.85 x 2 ** 0.2 times as
    long with one peer; with eight each pair sends 2 / 9 and waits 0.85 x 16 ** 0.2.
    """
    site, size_s = "onprem/erben-eu=1xRTX8000", 2 * 560_142_482 * 8 / 0.06e9
    for peers, share, factor in ((1, 1, 0.85 * 2**0.2), (8, 2 / 9, 0.85 * 16**0.2)):
        step = _averaged("roberta-xlm", f"{site},gcp/us-central1={peers}xT4", 32_768)
        between = dict(step.parts)["between regions"]
        assert between == pytest.approx(share * factor * size_s, rel=1e-3)


def test_machines_of_a_site_share_its_line(default: Catalog) -> None:
    """A site of one's own sends no faster with 16 machines than its line of 1 Gb/s, and many
    streams of them no faster than one machine's.
    """
    own = parse_own("lab=32xH100:8@Dallas:line=1Gb/s", default)
    network = Network(with_own_machines(default, own))
    lab, cloud = "onprem/lab", "aws/us-east-1"
    assert network.machine_bytes_per_s(lab, 16) == 1e9 / 8
    assert network.machine_bytes_per_s(cloud, 16) == 16 * network.machine_bytes_per_s(cloud)
    for ends in ((lab, cloud), (cloud, lab)):
        link = network.link(*ends)
        assert link.of_machines(16).speed(64) == link.speed(64) == link.cap
        assert link.of_machines(3).speed() == min(3 * link.speed(), link.cap)
