"""What carries gradients and shards, with its range, and the seconds of exchanges inside a zone."""

from __future__ import annotations

from math import ceil
from typing import Any

from msgspec import Struct

from placer.errors import unknown
from placer.workload.island.hardware import BITS

MIB = 2**20
NCCL_TESTS = (
    "NVIDIA B200: all_reduce on 1 and 4 nodes of 8 with 8 x 400 Gb/s EFA v4, Stas Bekman, "
    "Machine Learning Engineering, network/README.md"
)
SHAPED_LINKS = (
    "all-reduce of 128 and 256 MiB over 4 to 32 machines with links shaped to 1 to 5 Gb/s and 1 to "
    "10 ms, Binhang Yuan, tc_cluster_setting, results/allreduce.md"
)
TRAINING_RUNS = (
    "training of MPT under FSDP on up to 128 A100, MosaicML, llm-foundry, "
    "scripts/train/benchmarking/README.md"
)
ERBEN = "Erben et al. (2024), VLDB 17(6), averaging under hivemind"


class Transport(Struct, frozen=True, kw_only=True):
    """A library for collectives: how near it comes to an ideal ring, and where that was measured.

    name, title: Key of `TRANSPORTS`, and how it is called in text.
    node_share: Share of the bandwidth between the devices of one machine that a ring attains.
    network_share: Share of a machine's network bandwidth that a ring attains on a fast fabric.
    slow_link_share: The same on links of up to ``slow_link_gbps``.
    slow_link_gbps: Fastest link for which ``slow_link_share`` holds; Gb/s.
    node_latency_s: Seconds that 1 MiB needs beyond its bandwidth inside a machine; grows with the
        fourth root of the payload.
    network_latency_s: Seconds that any payload needs beyond its bandwidth over machines.
    fast, slow: Multiples of a time between which measured times lie.
    payload_bytes, machines, gpus: Smallest and largest of what the constants were measured on.
    source: Who measured.
    """

    name: str
    title: str
    source: str
    node_share: float = 1.0
    network_share: float = 1.0
    slow_link_share: float = 1.0
    slow_link_gbps: float = 0.0
    node_latency_s: float = 0.0
    network_latency_s: float = 0.0
    fast: float = 1.0
    slow: float = 1.0
    payload_bytes: tuple[float, float] = (0.0, 0.0)
    machines: tuple[int, int] = (1, 1)
    gpus: tuple[int, int] = (1, 1)

    def outside(self, payload_bytes: float, machines: int, gpus: int) -> str:
        """Say how an exchange lies outside of what was measured; empty if it lies inside."""
        for what, value, (least, most) in (
            ("MB", payload_bytes / 1e6, tuple(end / 1e6 for end in self.payload_bytes)),
            ("machines", machines, self.machines),
            ("GPUs", gpus, self.gpus),
        ):
            if not least <= value <= most:
                return f"{self.title} was measured with {least:,.0f} to {most:,.0f} {what}"
        return ""


TRANSPORTS = {
    t.name: t
    for t in (
        Transport(
            name="nccl",
            title="NCCL",
            node_share=0.94,
            network_share=0.73,
            slow_link_share=1 / 1.03,
            slow_link_gbps=10.0,
            node_latency_s=0.05e-3,
            network_latency_s=0.4e-3,
            fast=0.8,
            slow=1.35,
            payload_bytes=(MIB, 2**34),
            machines=(1, 32),
            gpus=(1, 128),
            source=f"{NCCL_TESTS}; {SHAPED_LINKS}; {TRAINING_RUNS}",
        ),
        Transport(
            name="gloo",
            title="Gloo",
            node_share=1 / 1.90,
            network_share=1 / 1.90,
            slow_link_share=1 / 1.90,
            fast=0.75,
            slow=1.35,
            payload_bytes=(128 * MIB, 256 * MIB),
            machines=(4, 32),
            gpus=(4, 32),
            source=SHAPED_LINKS,
        ),
        Transport(
            name="hivemind",
            title="hivemind",
            payload_bytes=(46e6, 2.2e9),
            machines=(2, 8),
            gpus=(2, 8),
            source=ERBEN,
        ),
    )
}
"""Transports by name. The times of hivemind are in `placer.cost_model.timing.transfers`."""


def transport(name: str) -> Transport:
    """Find a transport by name. Raises `PlacerError` if there is none of that name."""
    if name not in TRANSPORTS:
        raise unknown("transport", name, TRANSPORTS)
    return TRANSPORTS[name]


HIDDEN_SHARE = 0.8
"""Part of an exchange that buckets hide behind backward, where backward lasts long enough."""
BACKWARD_TAIL = 0.25
"""Part of a step's calculation behind which an exchange can hide: the backward of its last
microbatch, as an average over accumulation counts; assumed.
"""


LEAST_BUCKET_BYTES = 25 * MIB
"""What PyTorch's DDP fills a bucket with unless it is told otherwise, in FP32."""
MOST_BUCKETS = 8
"""Of a gradient, where placer sets their size: each waits for its own round trips, and with fewer
the last one hides less behind the calculation than `HIDDEN_SHARE`.
"""


def bucket_count(gradient_bytes: float) -> int:
    """Return the buckets, one after the other, that DDP averages a gradient in; bytes in FP32."""
    return min(MOST_BUCKETS, ceil(gradient_bytes / LEAST_BUCKET_BYTES))


def bucket_mib(gradient_bytes: float) -> int:
    """Return the MiB of a bucket in FP32 of which a gradient has no more than `bucket_count`.

    >>> bucket_mib(46e6), bucket_count(46e6), bucket_mib(2.24e9), bucket_count(2.24e9)
    (25, 2, 268, 8)
    """
    return ceil(max(LEAST_BUCKET_BYTES, gradient_bytes / MOST_BUCKETS) / MIB)


def attained_bytes_per_s(network_gbps: float, transport: Transport) -> float:
    """Return the bandwidth that a ring attains over machines. Slow links are used nearly whole,
    fast fabrics to `Transport.network_share`. Between both the larger is taken, so that a faster
    network is never slower.
    """
    slow = transport.slow_link_share * min(network_gbps, transport.slow_link_gbps)
    return max(slow, transport.network_share * network_gbps) * 1e9 / BITS


def node_seconds(payload_bytes: float, gpus: int, bytes_per_s: float, via: Transport) -> float:
    """Return the seconds of an all-reduce over devices of one machine."""
    if gpus == 1:
        return 0.0
    ring = 2 * (gpus - 1) / gpus * payload_bytes / (via.node_share * bytes_per_s)
    return float(ring + via.node_latency_s * (payload_bytes / MIB) ** 0.25)


def network_seconds(
    payload_bytes: float, machines: Any, network_gbps: float, via: Transport
) -> Any:
    """Return the seconds of an all-reduce over machines, a number or an array, whose devices send
    side by side.
    """
    bytes_per_s = attained_bytes_per_s(network_gbps, via)
    ring = 2 * (machines - 1) / machines * payload_bytes / bytes_per_s
    return (machines > 1) * (ring + via.network_latency_s)


def exposed_seconds(exchange_s: float, calculation_s: float) -> float:
    """Return the part of a gradient exchange that calculation does not hide."""
    return exchange_s - HIDDEN_SHARE * min(exchange_s, BACKWARD_TAIL * calculation_s)
