"""Collectives: all-reduces in a machine, over machines, and what hides them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from island_models import device

from placer.errors import PlacerError
from placer.workload.island.hardware import Hardware
from placer.workload.island.transports import (
    TRANSPORTS,
    attained_bytes_per_s,
    exposed_seconds,
    network_seconds,
    node_seconds,
    transport,
)

NCCL, GLOO = TRANSPORTS["nccl"], TRANSPORTS["gloo"]


@pytest.mark.parametrize(
    ("payload", "bus_gb_per_s"), [(2**20, 36.06), (2**24, 254.96), (2**28, 646.11), (2**32, 740.64)]
)
def test_one_machine_of_b200(payload: int, bus_gb_per_s: float) -> None:
    """Bus bandwidths of 8 x B200 (NVLink 5, 900 GB/s) by Stas Bekman, Machine Learning
    Engineering, network/README.md; within the band of NCCL.
    """
    measured = 2 * 7 / 8 * payload / (bus_gb_per_s * 1e9)
    expected = node_seconds(payload, 8, 900e9, NCCL)
    assert NCCL.fast * expected <= measured <= NCCL.slow * expected


@pytest.mark.parametrize(
    ("payload", "bus_gb_per_s"), [(2**20, 5.37), (2**26, 156.74), (2**30, 361.99), (2**34, 381.8)]
)
def test_four_machines_of_b200(payload: int, bus_gb_per_s: float) -> None:
    """The same over four machines with 3,200 Gb/s of EFA each: 32 devices."""
    measured = 2 * 31 / 32 * payload / (bus_gb_per_s * 1e9)
    expected = network_seconds(payload, 4, 3200.0, NCCL)
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


def test_an_unknown_transport_is_refused() -> None:
    """A name that no transport has."""
    with pytest.raises(PlacerError):
        transport("mpi")
