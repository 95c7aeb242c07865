"""Collectives: all-reduces in a machine, over machines, and what hides them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from island_models import device

from placer.workload.constants import PUBLISHED, RINGS, Peer, peer_of
from placer.workload.island.hardware import Hardware
from placer.workload.island.transports import (
    TRANSPORTS,
    attained_bytes_per_s,
    exposed_seconds,
    network_seconds,
    node_seconds,
)

NCCL, GLOO = TRANSPORTS["nccl"], TRANSPORTS["gloo"]


@pytest.mark.parametrize(
    ("machines", "payload", "bus_gb_per_s"),
    [
        *((1, 2**20, 36.06), (1, 2**24, 254.96), (1, 2**28, 646.11), (1, 2**32, 740.64)),
        *((4, 2**20, 5.37), (4, 2**26, 156.74), (4, 2**30, 361.99), (4, 2**34, 381.8)),
    ],
)
def test_machines_of_b200(machines: int, payload: int, bus_gb_per_s: float) -> None:
    """Bus bandwidths of 8 x B200 (NVLink 5, 900 GB/s), and of four machines with 3,200 Gb/s of EFA
    each, by Stas Bekman, Machine Learning Engineering, network/README.md; within the band of NCCL.
    """
    devices = 8 * machines
    measured = 2 * (devices - 1) / devices * payload / (bus_gb_per_s * 1e9)
    expected = (
        node_seconds(payload, 8, 900e9, NCCL)
        if machines == 1
        else network_seconds(payload, machines, 3200.0, NCCL)
    )
    assert NCCL.fast * expected <= measured <= NCCL.slow * expected


@pytest.mark.parametrize(("via", "seconds"), [(NCCL, 1.940), (GLOO, 3.582)])
def test_eight_machines_on_links_of_1_gbps(via: object, seconds: float) -> None:
    """128 MiB over 8 machines with 1 Gb/s: an ideal ring takes 2 x 7/8 x 128 MiB x 8 / 1e9 =
    1.879 s; measured by Binhang Yuan, tc_cluster_setting, results/allreduce.md.
    """
    assert network_seconds(128 * 2**20, 8, 1.0, via) == pytest.approx(seconds, rel=0.01)  # type: ignore[arg-type]


@given(st.floats(0.1, 6400), st.floats(1, 10), st.sampled_from([NCCL, GLOO]))
def test_a_faster_network_carries_no_less(gbps: float, more: float, via: object) -> None:
    """Between slow links and fast fabrics the larger of both is taken."""
    slow, fast = (attained_bytes_per_s(g, via) for g in (gbps, gbps * more))  # type: ignore[arg-type]
    assert slow <= fast <= gbps * more * 1e9 / 8


@given(st.floats(0, 100), st.floats(0, 100))
def test_between_a_fifth_and_all_of_an_exchange_is_exposed(exchange: float, work: float) -> None:
    """Buckets hide 0.8 of it at most, behind a quarter of the calculation at most."""
    exposed = exposed_seconds(exchange, work)
    assert 0.2 * exchange - 1e-9 <= exposed <= exchange
    assert exposed >= exchange - 0.2 * work - 1e-9


def test_devices_without_nvlink_share_their_pcie() -> None:
    """L40S: 32 GB/s of PCIe, half of it for a ring; 2 x 7/8 x 1 GB / (0.94 x 16 GB/s) = 0.116 s."""
    machine = Hardware(gpu=device("L40S"), gpu_count=8, network_gbps=None, fabric="", machines=1)
    seconds = node_seconds(1e9, 8, machine.node_bytes_per_s, NCCL)
    assert seconds == pytest.approx(0.1166, rel=0.01)


rings = st.sampled_from(RINGS)
speeds = st.floats(0.1, 50_000)
sizes = st.floats(1e3, 1e12)


@given(rings, st.integers(1, 64), st.sampled_from([0.5, 1.0, 10.0, 12.5, 50.0, 100.0, 3200.0]))
def test_names_read_back(transport: str, machines: int, gbps: float) -> None:
    """Documents and solvers pass classes on by name: nothing of the bandwidth of k machines is
    lost on the way.
    """
    peer = Peer(transport=transport, gbps=machines * gbps)
    assert peer_of(peer.name) == peer


def test_a_ring_by_hand() -> None:
    """Gloo reaches 1 / 1.9 of the link: 2 x 3/4 x 1 GB over 10 Gb/s are 1.2 s, times 1.9. NCCL
    fills a link of 10 Gb/s to 1 / 1.03 and adds 0.4 ms.
    """
    assert Peer(transport="gloo", gbps=10).seconds(1e9, 4) == pytest.approx(1.2 * 1.9)
    assert Peer(transport="nccl", gbps=10).seconds(1e9, 4) == pytest.approx(1.2 * 1.03 + 0.4e-3)


@given(rings, speeds, sizes, st.integers(1, 500))
def test_one_more_peer_never_helps(transport: str, gbps: float, size: float, peers: int) -> None:
    """2 (N - 1) / N of the bytes: grows with N, to twice the bytes; one peer has nothing to do."""
    peer = Peer(transport=transport, gbps=gbps)
    few, many = peer.seconds(size, peers), peer.seconds(size, peers + 1)
    assert few <= many * (1 + 1e-12)
    assert (peer.seconds(size, 1), few > 0) == (0.0, peers > 1)


@pytest.mark.parametrize("transport", RINGS)
def test_cases_lie_around_the_expected_one(transport: str) -> None:
    """A calibration asks for 0 expected, 1 slow, 2 fast; a ring has its own spread, not that of
    the runs of hivemind; of several classes the widest counts.
    """
    name = Peer(transport=transport, gbps=10).name
    expected, slow, fast = (PUBLISHED.spread([name], case) for case in range(3))
    assert expected == 1.0
    assert fast < expected < slow
    assert PUBLISHED.spread([name, "t4"], 1) == max(slow, PUBLISHED.spread(["t4"], 1))
    assert PUBLISHED.spread([name, "t4"], 2) == min(fast, PUBLISHED.spread(["t4"], 2))


@pytest.mark.parametrize(
    ("words", "rtt_s", "peers", "case", "factor"),
    [
        ("nccl gcp/a onprem/b", 0.2, 9, 2, 0.74),  # fitted to hivemind alone
        ("hivemind gcp/a aws/b", 0.2, 9, 1, 1.2),  # no site
        ("hivemind onprem/a gcp/b", 0.05, 2, 0, 0.85 * 1.8 * 2**0.2),
        ("hivemind gcp/b onprem/a", 0.05, 5, 2, 0.65 * 1.8 / 1.6 * 8**0.2),
        ("hivemind gcp/b onprem/a", 0.051, 5, 1, 1.2 * 1.3 * 8**0.2),  # far: expected as others
    ],
)
def test_lines_to_sites_have_factors_of_their_own(
    words: str, rtt_s: float, peers: int, case: int, factor: float
) -> None:
    """Of n peers the slowest of 2 (n - 1) streams counts."""
    got = PUBLISHED.line_factor(*words.split(), rtt_s=rtt_s, peers=peers, case=case)
    assert got == pytest.approx(factor)


def test_hosts_and_networks_that_nobody_measured_spread_wider() -> None:
    """1.5 for hosts beside other devices than those of the runs; ten times the range of Gloo where
    nobody promises a network.
    """
    hosts = (("t4", "T4"), ("a10", "H100"), ("gloo 3200 Gb/s", "H100"), ("gloo 1 Gb/s", "H100"))
    assert [PUBLISHED.host_spread(*host, 1) for host in hosts] == [1.15, 1.5, 1.35, 13.5]
    assert PUBLISHED.host_spread(*hosts[3], 2) == pytest.approx(0.075)
    peers = (Peer(transport="gloo", gbps=gbps) for gbps in (1.0, 10.0, 3200.0))
    assert [peer.is_assumed for peer in peers] == [True, True, False]
