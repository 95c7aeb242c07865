"""Classes of averaging time: names that read back, and rings that behave as rings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.workload.constants import PUBLISHED, RINGS, Peer, peer_of

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


@given(rings, speeds, st.floats(1, 10), sizes, st.integers(1, 64))
def test_a_faster_network_is_never_slower(
    transport: str, gbps: float, more: float, size: float, peers: int
) -> None:
    """Also where NCCL changes from links that it fills to fabrics of which it reaches a part."""
    slow, fast = (
        Peer(transport=transport, gbps=g).seconds(size, peers) for g in (gbps, gbps * more)
    )
    assert fast <= slow * (1 + 1e-12)


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
