"""Averages inside a zone, a second time: classes of machines, their seconds, and what of them runs
beside the calculation.
"""

from __future__ import annotations

from collections.abc import Iterable

from placer.records import Json

GB = 10**9
TENSORS = 300
"""Tensors of a model whose profile does not say: assumed by the model, so assumed again."""
NETWORK_SHARE = {"nccl": 0.73, "gloo": 1 / 1.90}
SLOW_LINK_GBPS, SLOW_LINK_SHARE = 10.0, 1 / 1.03
"""NCCL fills links of up to this rate nearly."""
LATENCY_S = {"nccl": 0.4e-3, "gloo": 0.0}
UNPROMISED_GBPS = 10.0
HIDDEN = 0.8
WINDOW = 0.25
NEAR_RTT_S = 0.05
"""Share of a bucketed exchange that costs no time, beside at most this share of the calculation;
round trip of the longest line to a site within a continent.
"""


def transport_of(problem: Json) -> str:
    """Return the software that averages: that asked for, else the book's; old files have none."""
    rows = {row["setting"]: row["value"] for row in problem["catalog"].get("settings", ())}
    return str(problem["requirements"].get("transport") or rows.get("transport", "hivemind"))


def class_of(offer: Json, machines: int, problem: Json) -> str:
    """Name the class of averaging time of a worker of some machines."""
    device, transport = problem["catalog"]["gpus"][offer["gpu"]], transport_of(problem)
    if transport == "hivemind":
        return str(device["host"])
    software = "gloo" if transport == "nccl" and device["kind"] == "cpu" else transport
    return f"{software} {machines * (offer.get('network_gbps') or UNPROMISED_GBPS):.10g} Gb/s"


def class_seconds(name: str, size: float, workers: int, problem: Json) -> float:
    """Return the seconds of one class: l0 + l1 S + l2 N + l3 T + l4 2 (N - 1) / N S of fitted
    hosts, times their spread, or a ring over a network.
    """
    fitted, tensors = problem["calibration"], problem["profile"]["tensors"]
    row = fitted["hosts"].get(name)
    if row is None:
        software, gbps, _ = name.split(" ")
        sent, rate = 2 * (workers - 1) / workers * size, NETWORK_SHARE[software] * float(gbps)
        if software == "nccl":
            rate = max(rate, SLOW_LINK_SHARE * min(float(gbps), SLOW_LINK_GBPS))
        seconds = sent / (rate * GB / 8) + LATENCY_S[software]
        return float(seconds * fitted["spreads"].get(name, [1.0])[0])
    spread = fitted["spreads"].get(name, fitted["averaging_spread"])[0]
    return float(
        spread
        * (
            row["base_s"]
            + row["s_per_gb"] * size / GB
            + row.get("s_per_gb_sent", 0.0) * size / GB * (2 - 2 / workers)
            + row["s_per_peer"] * workers
            + row["s_per_tensor"] * (TENSORS if tensors is None else tensors)
        )
    )


def link_factor(problem: Json, src: str, dst: str, rtt_s: float, peers: int) -> float:
    """Return the multiple of bytes over bandwidth between two places.

    A peer waits for the slowest of the streams of a site, there and back; only lines of a continent
    are slower by more than that.
    """
    fitted = problem["calibration"]
    if transport_of(problem) != "hivemind":
        return float(fitted["ring_kappa"][0])
    site = any(place.split("/")[0] == "onprem" for place in (src, dst))
    if not site:
        return float(fitted["kappa"][0])
    power = fitted.get("stream_power", 0.0)
    own = 1.0 if power and rtt_s > NEAR_RTT_S else fitted.get("site_kappa", [1.0])[0]
    return float(fitted["kappa"][0] * own * (2 * peers - 2) ** power)


def least_period(hosts: Iterable[str], problem: Json) -> float:
    """Return the seconds from one average among all to the next at least, by the slowest class."""
    fitted = problem["calibration"]["hosts"]
    return max((fitted[h].get("least_period_s", 0.0) for h in hosts if h in fitted), default=0.0)


def window(strategy: str, problem: Json) -> float:
    """Return the share of the calculation beside which gradients travel in buckets: PyTorch's, of 4
    or 2 bytes over one stream.
    """
    wish = problem["requirements"]
    packed = wish["compression"] or problem["profile"]["compression"]
    plain = packed in ("none", "fp16") and wish["streams"] == 1 and not wish["overlap"]
    buckets = strategy == "all-reduce" and transport_of(problem) != "hivemind"
    return WINDOW if buckets and plain else 0.0


def straight_rounds(seconds: float, share: float) -> list[tuple[float, float]]:
    """List the pairs (a, b) of which a round is the longest a x calculation + b."""
    if not share:
        return [(1.0, seconds)]
    return [(1.0, (1 - HIDDEN) * seconds), (1 - HIDDEN * share, seconds)]
