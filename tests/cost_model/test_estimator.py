"""Seconds and dollars of a placement by hand; test_reproduce.py has the runs of the papers."""

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest

import placer
from instances import question, wishing
from placer.cost_model.dollars import sample_usd
from placer.cost_model.estimate import estimate
from placer.cost_model.limits import Violation, joint_use, violations
from placer.cost_model.timing.services import (
    SUMMING_VCPUS,
    aggregate_seconds,
    copy_seconds,
    function_transfer_seconds,
    server_sum_seconds,
    summing_vcpus,
    worker_transfer_seconds,
)
from placer.documents.validate import examine_document
from placer.market.catalog import Catalog
from placer.market.network.graph import IDEAL
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Kept, Quota
from placer.problem.shares import ShareLimit, SpeedCap
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.solving.result import Result
from placer.units import GIB
from placer.workload.constants import HostConstants


def on_book(model: str, workers: str, book: Catalog, **wishes: object) -> tuple[Placement, Problem]:
    """Place a model by hand on a book."""
    problem = question(model, book, **wishes)
    return place_by_hand(workers, problem), problem


def test_eight_a10_at_lambda(erben: Catalog) -> None:
    """About 1,060 samples/s measured for 8 x 0.60 = 4.80 USD/h, no egress charge."""
    got = estimate(*on_book("roberta-xlm", "lambda/us-west-1=8xA10", erben))
    assert got.samples_per_second.value == pytest.approx(1060, rel=0.05)
    assert got.samples_per_second.low <= 1060 <= got.samples_per_second.high
    assert got.usd_per_hour.total == pytest.approx(4.80)


def test_one_node_exchanges_nothing_and_pays_no_efficiency(erben: Catalog) -> None:
    """A DGX-2 runs at its published 1,811 samples/s for 6.30 USD/h; two workers can lose to one."""
    got = estimate(*on_book("roberta-xlm", "gcp/us-central1=1xV100:8:spot", erben))
    assert got.granularity is None
    assert got.samples_per_second.value == pytest.approx(1811.4)
    assert got.usd_per_hour.total == pytest.approx(6.30)
    assert [line.split()[0] for line in got.provenance] == ["speed", "price"]
    one, two = (
        estimate(
            *on_book("roberta-xlm", f"lambda/us-west-1={n}xA10", erben)
        ).samples_per_second.value
        for n in (1, 2)
    )
    assert two < one


def test_four_t4_in_two_clouds_costs_what_the_paper_adds_up(erben: Catalog) -> None:
    """Erben et al., 4 x T4 in two clouds: of each VM's bytes 1/3 stays in its cloud, 2/3 leave it.

    2 x GC in us-west1, 2 x AWS in us-west-2, XLM: a VM sends 2 x 3/4 x 1.12 GB = 1.680 GB a step,
    that is 1.565 GiB; 1/3 at the inter-zone price 0.01, 2/3 at the internet price of its cloud,
    times steps per hour. Sources are said once of each device, price and way between the places.
    """
    placement, problem = on_book(
        "roberta-xlm", "gcp/us-west1=2xT4:spot,aws/us-west-2=2xT4:spot", erben, same_zone=False
    )
    got = estimate(placement, problem)
    steps_per_hour = 3600 / got.step.total
    gib = 2 * 3 / 4 * 1_120_284_964 / GIB
    by_hand = {
        cloud: steps_per_hour * gib * (0.01 / 3 + out * 2 / 3)
        for cloud, out in (("gcp/us-west1", 0.12), ("aws/us-west-2", 0.09))
    }
    for cloud, usd in by_hand.items():
        assert sum(use.usd_per_hour for use in got.links if use.src == cloud) / 2 == pytest.approx(
            usd
        )
    assert got.usd_per_hour.egress == pytest.approx(2 * sum(by_hand.values()))
    assert (
        got.usd_per_hour.egress / got.usd_per_hour.total > 0.9
    )  # the paper: over 90 % in the worst case
    first, second = ("aws/us-west-2", "gcp/us-west1")
    assert [line.split(":")[0] for line in got.provenance if "averaging" not in line] == [
        "speed on T4",
        *(f"price of T4 spot in {place}" for place in (second, first)),
        *(f"link {src} to {dst}" for src, dst in ((first, second), (second, first))),
        "between regions",
        "samples to target",
    ]


def test_data_loading_counts_when_a_store_is_named(erben: Catalog) -> None:
    """29,000 bytes a sample from Backblaze at 0.01 USD/GiB: 1,106 samples/s x 3600 x 29000 / 2**30
    x 0.01 = 1.075 USD/h.
    """
    place, totals, paid = "lambda/us-west-1", [], []
    for store, usd in ((None, 0.0), ("backblaze/us-west", 29_000 / GIB * 0.01)):
        placement, problem = on_book("roberta-xlm", f"{place}=8xA10", erben, data_store=store)
        got = estimate(placement, problem)
        assert sample_usd(place, problem) == pytest.approx(usd)
        assert got.usd_per_hour.data == pytest.approx(got.samples_per_second.value * 3600 * usd)
        totals.append(got.usd_per_hour.total)
        paid.append(got.usd_per_hour.data)
    assert totals[1] == pytest.approx(totals[0] + paid[1])


def test_a_round_through_a_store_goes_from_mean_to_mean(phalak: Catalog) -> None:
    """Two alike in Oregon and London, store and function in Oregon: London is last, the function
    waits for what its ways take longer.

    A worker's way is the store's start, its handshakes and 17 MB over the slower of client and
    link. Nothing is paid twice: the round is London's way down, its calculation, its way up and the
    function's run.
    """
    oregon, london = "aws/us-west-2", "aws/eu-west-2"
    wishes = {"exchange": "central", "aggregator": oregon, "storage": oregon}
    placement, problem = on_book("niser", f"{oregon}=1xCPU-2,{london}=1xCPU-2", phalak, **wishes)
    step, services, network = (
        estimate(placement, problem).step,
        problem.calibration.services,
        problem.network,
    )

    def way(src: str, dst: str) -> float:
        link = network.link(src, dst)
        speed = min(services.stream_bytes_per_s, link.bytes_per_second)
        return services.start_s + services.round_trips * link.rtt_s + problem.gradient_bytes / speed

    near, far = 2 * way(oregon, oregon), way(oregon, london) + way(london, oregon)
    parts = dict(step.parts)
    assert far > near
    assert step.total == pytest.approx(step.calculation + far + parts["aggregate"])
    assert step.waiting == pytest.approx(far - near)
    assert [run.seconds for run in step.functions] == [
        pytest.approx(far - near + parts["aggregate"])
    ]


def test_functions_and_stores_by_hand(phalak: Catalog) -> None:
    """Where no link holds them back all of their times are half as long again at worst and 0.7 of
    them at best. Twice the streams halve what a worker's bytes take; a function that sums five
    gradients reads four more than one that copies one, and sums all five.
    """
    services, size = question("niser", phalak).calibration.services, 17e6
    for case, spread in ((0, 1.0), (1, 1.5), (2, 0.7)):
        start = spread * services.start_s
        each = spread * size / services.function_bytes_per_s
        moved = spread * size / services.stream_bytes_per_s
        summed = spread * 5 * size / services.sum_bytes_per_s
        assert [
            worker_transfer_seconds(size, IDEAL, services, 1, case),
            worker_transfer_seconds(size, IDEAL, services, 2, case),
            copy_seconds(size, IDEAL, IDEAL, services, case),
            aggregate_seconds(size, 5, IDEAL, IDEAL, services, case),
        ] == pytest.approx(
            [start + moved, start + moved / 2, start + 2 * each, start + summed + 6 * each]
        )
    far = replace(IDEAL, rtt_s=0.1)
    waits = services.round_trips * 0.1
    for seconds in (worker_transfer_seconds, function_transfer_seconds):
        assert seconds(size, far, services) == pytest.approx(seconds(size, IDEAL, services) + waits)


def codes(found: tuple[Violation, ...]) -> set[str]:
    """Codes of violations."""
    return {v.code for v in found}


TWO = "gcp/us-central1=1xT4:spot,gcp/us-west1=1xT4:spot"
OREGON, LONDON = "aws/us-west-2", "aws/eu-west-2"
SUMMED: dict[str, Any] = {"exchange": "central", "aggregator": OREGON, "storage": OREGON}
BY_REGION = {**SUMMED, "exchange": "hierarchical"}
MODELS = {"exchange": "model-averaging", "min_local_steps": 4, "max_local_steps": 4}
QUARTER = {"workers": "gcp/us-central1=3xT4:spot,gcp/us-west1=1xT4:on-demand"}
OWN = "onprem/erben-eu"
INSIDE = Kept(kind="gradients", area="Iowa", places=("gcp/us-central1",))
NINES = ("min_workers", "max_workers", "max_machines", "target_batch_size", "supply")
AT_MOST: dict[str, Any] = {"max_regions": 1, "budget_usd_per_hour": 1.8}
JUST_KEPT = {**dict.fromkeys(NINES, 9), **AT_MOST, "oldest_price": "2023-05-12"}
"""Nine T4 of May 2023 for 0.20 USD/h each."""


@pytest.mark.parametrize(
    ("wishes", "placed", "broken"),
    [
        (JUST_KEPT, {}, ""),
        ({"quota_gpus": 9}, {}, ""),
        ({"quota_gpus": 8}, {}, "quota: 9 x T4 spot in * exceed the quota of 8 GPUs"),
        ({"gpus": ("A10",)}, {}, "gpu: T4 is not among --gpu A10"),
        ({"places_not_in": ("gcp/*",)}, {}, "place: gcp/* is excluded by --not-in gcp/[*]"),
        ({"places_in": ("aws/*",)}, {}, "place: gcp/us-central1 is not in --in aws/[*]"),
        ({"market": "on_demand"}, {}, "market: n1-* in gcp/us-central1 is spot, not on_demand"),
        ({"budget_usd_per_hour": 1.0}, {}, "budget: $1.80/h is above the budget of $1.00/h"),
        ({"min_samples_per_second": 5e3}, {}, "throughput: 610 samples/s * of 5,000 samples/s"),
        ({"max_workers": 8}, {}, "workers: 9 workers are not within 1..8"),
        ({"min_workers": 10}, {}, "workers: 9 workers are not within 10..64"),
        ({"max_machines": 8}, {}, "machines: 9 machines are above 8"),
        ({"min_regions": 2}, {}, "regions: 1 regions are not within 2..1000"),
        ({"target_batch_size": 8}, {}, "batch: a step of 8 samples * shared by 9 workers"),
        ({"supply": 8}, {}, "supply: 9 spot machines n1-* no more than 8 are known*--supply any *"),
        ({"oldest_price": "2023-05-13"}, {}, "stale: * of 2023-05-12, older than * (2023-05-13)"),
        ({}, {"transport": "gloo"}, "exchange: the transport gloo is not hivemind"),
        ({}, {"compression": "none"}, "compression: compression none is not fp16"),
        ({}, {"streams": 2}, "exchange: 2 streams, overlap False are not what was asked for"),
        ({"overlap": True}, {}, "exchange: 1 streams, overlap False are not what was asked for"),
        ({}, {"strategy": "none"}, "exchange: 9 workers with the exchange 'none'"),
        ({}, {"workers": "gcp/us-west1=1xT4", "strategy": "all-reduce"}, "exchange: 1 workers *"),
        ({}, {"strategy": "local-sgd"}, "exchange: the exchange local-sgd is not what auto admits"),
        (
            {},
            {"strategy": "local-sgd", "local_steps": 8},
            "exchange: * with 8 local steps is not *",
        ),
        ({}, {"strategy": "hierarchical-all-reduce"}, "exchange: * needs workers in 2 regions"),
        ({}, {"strategy": "parameter-server"}, "exchange: a parameter server needs a machine at *"),
        (MODELS, {"workers": TWO, "aggregator": OREGON}, "exchange: the hub * is not among the *"),
        ({"max_shares": (ShareLimit(share=0.75),)}, QUARTER, ""),
        ({"max_shares": (ShareLimit(share=0.74),)}, QUARTER, "share: 75 % * more than 74%/region"),
        (
            {"max_shares": (ShareLimit(share=0.9, area="provider"),)},
            QUARTER,
            "share: 100 % * in gcp, *",
        ),
        ({"on_demand_floor": 0.25}, QUARTER, ""),
        ({"on_demand_floor": 0.26}, QUARTER, "on-demand: 25 % * on demand, less than 26 %"),
        (
            {"speed_caps": (SpeedCap(place="*", most=1),)},
            QUARTER,
            "speed: * in [*] ([*]) is above 1",
        ),
        ({"least_speed": 10**12}, QUARTER, "speed: a speed of * is below 1000000000000"),
        (
            {"kept": (INSIDE,)},
            {"workers": TWO},
            "residency: gradients would leave Iowa: from * to *",
        ),
        (
            {"places_in": ("onprem/*",)},
            {"workers": f"{OWN}=2xRTX8000"},
            "quota: *: only 1 of * exist",
        ),
        (SUMMED, {"aggregator_memory_gib": 10.0}, ""),
        (SUMMED, {"aggregator": LONDON}, f"aggregator: * in {LONDON}, not in {OREGON}"),
        (SUMMED, {"storage": LONDON}, f"storage: the storage is in {LONDON}, not in {OREGON}"),
        (SUMMED, {"aggregator_memory_gib": None}, "function: a central exchange needs *"),
        (SUMMED, {"aggregator_memory_gib": 11.0}, "function: 4 gradients (68 MB) need 11 * 10 GiB"),
        # One function sums 4 x 17 MB; of the regions one sums three, and two sums are left.
        (SUMMED, {"aggregator_memory_gib": 0.06}, "function: 68 MB of * do not fit 0.06 GiB; *"),
        (BY_REGION, {"aggregator_memory_gib": 0.05}, ""),
        (BY_REGION, {"aggregator_memory_gib": 0.04}, "function: 51 MB of * do not fit 0.04 GiB; *"),
    ],
)
def test_a_broken_limit_is_named(
    wishes: dict[str, Any], placed: dict[str, Any], broken: str, erben: Catalog, phalak: Catalog
) -> None:
    """One code and sentence for a limit, and none where it is just kept."""
    functions = wishes.get("storage") is not None
    model, book = ("niser", phalak) if functions else ("roberta-xlm", erben)
    usual = f"{OREGON}=3xCPU-2,{LONDON}=1xCPU-2" if functions else "gcp/us-central1=9xT4:spot"
    asked = question(model, book, **wishes)
    needed = {name: wishes[name] for name in (*SUMMED, *MODELS) if name in wishes}
    used = {**placed}
    placement = place_by_hand(used.pop("workers", usual), question(model, book, **needed))
    placement = replace(placement, exchange=replace(placement.exchange, **used))
    found = [f"{each.code}: {each.message}" for each in violations(placement, asked)]
    assert len(found) == bool(broken)
    assert all(fnmatchcase(each, broken) for each in found), found


SITE = "onprem/erben-eu=1xRTX8000,gcp/us-central1=8xT4"
CALIBRATED = "nccl 10 Gb/s", HostConstants(1.0, 1.0, 1.0), 2.5e9
"""A class of hosts that a user measured, and bytes/s of a sum."""


@pytest.mark.parametrize(
    ("wishes", "workers", "own", "said"),
    [
        ({"transport": "nccl"}, TWO, (), "*: NCCL over 10 *, assumed where * none: published: *"),
        ({"transport": "nccl"}, TWO, (), "between regions: 1 x * under NCCL: assumed"),
        ({"transport": "gloo"}, TWO, (), "averaging time: Gloo over 10 Gb/s of each worker, *"),
        ({"transport": "nccl"}, TWO, CALIBRATED, "*: NCCL over 10 * worker: measured: own"),
        ({"transport": "nccl"}, TWO, CALIBRATED, "* and links between regions: calibrated: own"),
        ({}, TWO, (), "averaging time: measured: * under hivemind inside one zone; *"),
        ({}, TWO, (), "between regions: 0.85 x * under hivemind: measured: runs of Erben *"),
        # 0.85 (2 (N - 1)) ** 0.2: nine workers send to a site, or two leaders
        ({}, SITE, (), "between regions: 1.48 x *"),
        ({"exchange": "hierarchical-all-reduce"}, SITE, (), "between regions: 0.976 x *"),
        ({"exchange": "hierarchical-all-reduce"}, TWO, (), "averaging time: estimated: * by level"),
        (MODELS, TWO, (), "transfers between servers: published: * as measured under hivemind"),
        ({**MODELS, "transport": "gloo"}, TWO, (), "transfers between servers: published: * links"),
        (SUMMED, f"{OREGON}=2xCPU-2", (), "store and function times: assumed"),
        (SUMMED, f"{OREGON}=2xCPU-2", (), "loss of speed *: assumed: as under hivemind"),
        ({"exchange": "parameter-server"}, TWO, (), "push and pull: published: *"),
        ({"exchange": "parameter-server"}, TWO, (), "*: 1.06 GB/s * measured on 2 * times 8 for *"),
        ({"exchange": "parameter-server"}, TWO, CALIBRATED, "*: 2.50 GB/s *: measured: own; *"),
    ],
)
def test_each_time_of_an_exchange_says_how_it_is_known(
    wishes: dict[str, Any],
    workers: str,
    own: tuple[Any, ...],
    said: str,
    erben: Catalog,
    phalak: Catalog,
) -> None:
    """One sentence for each, and what a user measured in place of what is published."""
    model, book = ("niser", phalak) if "CPU" in workers else ("roberta-xlm", erben)
    placement, problem = on_book(model, workers, book, **wishes)
    if own:
        host, constants, rate = own
        known = problem.calibration
        measured = replace(
            known,
            name="own",
            hosts={**known.hosts, host: constants},
            services=replace(known.services, server_sum_bytes_per_s=rate),
        )
        problem = replace(problem, calibration=measured)
    lines = estimate(placement, problem).provenance
    assert len([line for line in lines if fnmatchcase(line, said)]) == 1, lines


def test_spread_zones_charge_machines_not_stores(phalak: Catalog) -> None:
    """Between zones of a region workers pay each other's traffic; a store of the region is free to
    reach.
    """
    wishes = {
        "exchange": "central",
        "aggregator": "aws/us-west-2",
        "storage": "aws/us-west-2",
        "same_zone": False,
    }
    assert (
        estimate(*on_book("niser", "aws/us-west-2=4xCPU-2", phalak, **wishes)).usd_per_hour.egress
        == 0.0
    )
    assert (
        estimate(
            *on_book("niser", "aws/us-west-2=4xCPU-2", phalak, same_zone=False)
        ).usd_per_hour.egress
        > 0.0
    )


def test_a_function_that_would_run_too_long_is_a_violation(phalak: Catalog) -> None:
    """Four gradients of 2.5 GB take the function more than 100 s, less than the 900 s of Lambda:
    one line names place and limit.
    """
    wishes = {"exchange": "central", "aggregator": "aws/us-west-2", "storage": "aws/us-west-2"}
    placement, problem = on_book(
        "niser", "aws/eu-west-2=1xCPU-2,aws/us-west-2=3xCPU-2", phalak, **wishes
    )
    big = replace(problem, profile=replace(problem.profile, gradient_bytes_fp32=2_500_000_000))
    grown = replace(placement, exchange=replace(placement.exchange, aggregator_memory_gib=10.0))
    short = replace(
        big,
        catalog=replace(
            phalak, functions=tuple(replace(f, max_seconds=100) for f in phalak.functions)
        ),
    )
    assert codes(violations(grown, big)) == set()
    assert codes(violations(grown, short)) == {"function"}
    assert "its provider allows 100 s" in violations(grown, short)[0].message


def test_the_prices_of_the_last_month_are_the_interval_of_the_bill(erben: Catalog) -> None:
    """A spot price of 0.18 USD/h that was 0.12 to 0.30 in the last 30 days moved by x2.5, and may
    do so again either way: two machines cost 2 x 0.072 to 2 x 0.45 for compute. On demand the ends
    are those of the book: 0.24 to 0.60.
    """
    quantiles = {
        "price_basis": "list",
        "usd_per_hour": 0.18,
        "usd_per_hour_low": 0.12,
        "usd_per_hour_high": 0.3,
    }
    offers = tuple(replace(offer, **quantiles) for offer in erben.offers)
    problem = question("roberta-xlm", replace(erben, offers=offers))
    for market, low, high in (("spot", 0.144, 0.90), ("on-demand", 0.24, 0.60)):
        placement = place_by_hand(f"gcp/us-central1=2xT4:{market}", problem)
        got = estimate(placement, problem).usd_per_hour_interval
        assert (got.low, got.value, got.high) == pytest.approx((low, 0.36, high))


@pytest.fixture(scope="module")
def result() -> Result:
    """Eight T4 with XLM-RoBERTa around a server, n1-standard-8 with 8 vCPUs."""
    return placer.recommend(
        "roberta-xlm",
        catalog="erben-2023",
        budget="2.2/h",
        workers="8",
        gpu="T4",
        places="gcp/us-central1",
        exchange="parameter-server",
    )


def test_vcpus_sum_side_by_side_up_to_eight(result: Result) -> None:
    """Eight FP16 gradients of 2.2406 GB in FP32 at 1.06 GB/s a vCPU: 16.9 s on one, an eighth on
    eight; more are taken to wait for memory.
    """
    problem = result.problem
    one = server_sum_seconds(8, 1, problem)
    assert one == pytest.approx(8 * 2.24057 / 1.06, rel=1e-4)
    assert server_sum_seconds(8, 8, problem) == pytest.approx(one / 8)
    coarse = wishing(problem, compression="int8")  # half of the bytes, 1.7 times the work
    assert server_sum_seconds(8, 1, coarse) == pytest.approx(1.7 * one)
    offers = {offer.vcpus: offer for offer in placer.load_catalog("default").offers}
    assert summing_vcpus(offers[2]) == 2
    assert summing_vcpus(offers[96]) == summing_vcpus(None) == SUMMING_VCPUS


def test_joint_quotas_count_a_server_by_its_vcpus_and_its_gpus(result: Result) -> None:
    """Nine machines of 8 vCPUs and one T4 are 72 vCPUs and nine GPUs. Where the server has a
    processor alone its vCPUs count still, and no GPU is its own.
    """
    assert result.placement is not None
    book = result.problem.catalog
    every: dict[str, Any] = {"place": "*", "gpu": "*", "market": "*", "scope": "together"}
    rows = [Quota(**every, vcpus=1), Quota(**every, gpus=1)]
    for kind, taken in (("gpu", [72, 9]), ("cpu", [72, 8])):
        gpus = {**book.gpus, "T4": replace(book.gpus["T4"], kind=kind)}
        problem = replace(result.problem, catalog=replace(book, gpus=gpus))
        assert [joint_use(row, result.placement, problem) for row in rows] == taken


def test_the_answer_is_checked_by_the_second_implementation(result: Result) -> None:
    """2.11 s of the round are the sum, and the checker finds the same round."""
    assert result.estimate is not None
    assert dict(result.estimate.step.parts)["sum"] == pytest.approx(2.114, abs=1e-3)
    checked = examine_document(json.loads(json.dumps(result.to_saved())), "file")[1]
    assert checked is not None
    assert "a second implementation finds" in " ".join(checked.confirmed)
