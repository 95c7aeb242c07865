"""The constants of the timing model that a user's own measured steps can replace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placer.errors import PlacerError
from placer.workload.peer import peer_of

NINETY_PERCENT = 1.645
"""Standard errors on each side that hold 90 % of a normal distribution: intervals of fits."""


@dataclass(frozen=True, slots=True)
class HostConstants:
    """What averaging costs a host inside one zone: seconds, s/GB, s/peer and s/tensor."""

    base_s: float
    s_per_gb: float
    s_per_peer: float
    s_per_tensor: float = 0.0

    def __post_init__(self) -> None:
        """Refuse negative and infinite times."""
        for name in ("base_s", "s_per_gb", "s_per_peer", "s_per_tensor"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise PlacerError(
                    f"{name} of a host is {getattr(self, name)}", "give a time of 0 or more"
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceConstants:
    """What object stores, cloud functions and parameter servers take.

    Parameters
    ----------
    start_s
        First byte of an object store for a client that connects anew, in region (public S3
        measurements); also the start of a function.
    round_trips
        TCP and TLS handshakes and the request itself.
    stream_bytes_per_s
        One connection to an object store: assumed, as S3's guidance of 85 to 90 MB/s per request.
    function_bytes_per_s
        Network of a cloud function, about 600 Mb/s: assumed.
    sum_bytes_per_s
        Bytes that a cloud function or a parameter server sums per second: assumed.
    """

    start_s: float = 0.5
    round_trips: float = 4.0
    stream_bytes_per_s: float = 90e6
    function_bytes_per_s: float = 75e6
    sum_bytes_per_s: float = 500e6

    def __post_init__(self) -> None:
        """Refuse negative times and speeds that are not positive."""
        for name in ("start_s", "round_trips"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise PlacerError(
                    f"{name} of a service is {getattr(self, name)}", "give a figure of 0 or more"
                )
        for name in ("stream_bytes_per_s", "function_bytes_per_s", "sum_bytes_per_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise PlacerError(
                    f"{name} of a service is {getattr(self, name)}", "give bytes per second above 0"
                )


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Host constants by class, the factor on links between regions, and how far measurements lie
    around them.

    Notes
    -----
    The tuples are (value, slow, fast): multiples of a time. ``spreads`` holds the spread of
    averaging of a host class where its own runs say it; ``most_workers`` is the largest run behind
    the constants.
    """

    name: str
    hosts: Mapping[str, HostConstants]
    kappa: tuple[float, float, float]
    averaging_spread: tuple[float, float, float]
    spreads: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    most_workers: int = 10
    services: ServiceConstants = ServiceConstants()

    def __post_init__(self) -> None:
        """Refuse factors that are not positive and ordered."""
        own = ((f"spread of {host}", spread) for host, spread in self.spreads.items())
        for what, (value, slow, fast) in (
            ("kappa", self.kappa),
            ("averaging_spread", self.averaging_spread),
            *own,
        ):
            if not 0 < fast <= value <= slow < float("inf"):
                raise PlacerError(
                    f"{what} is {value}, {slow}, {fast}",
                    "give value, slow, fast with 0 < fast <= value <= slow",
                )
        if self.most_workers < 1:
            raise PlacerError(f"most_workers is {self.most_workers}", "give a whole number from 1")

    def spread(self, hosts: Iterable[str], case: int) -> float:
        """Return the multiple of the averaging time of some host classes; ``case`` 0 is expected, 1
        slow, 2 fast: the widest counts.
        """
        spreads = [self._spread(host)[case] for host in hosts]
        return min(spreads) if case == 2 else max(spreads)

    def _spread(self, host: str) -> tuple[float, float, float]:
        peer = peer_of(host)
        own = self.averaging_spread if peer is None else peer.spread
        return self.spreads.get(host, own)


PUBLISHED = Calibration(
    name="published",
    hosts={
        "t4": HostConstants(0.386, 10.53, 0.978),
        "a10": HostConstants(0.0, 7.26, 0.304, 0.00669),
    },
    kappa=(1.0, 1.2, 0.74),
    averaging_spread=(1.0, 1.15, 0.87),
)
"""Fitted to the logs of Erben et al. (2024).

t4 on runs A-2 and A-8 (one zone, 2 and 8 x T4, two models of like tensor counts, so no term for
them), a10 on the 2x and 8x runs of all eight models by non-negative least squares of the relative
error in samples/s. Hosts of devices nobody measured use a10: assumed. kappa = 1 is conservative and
needs no run between regions; 0.74 fits their two-continent runs.
"""
