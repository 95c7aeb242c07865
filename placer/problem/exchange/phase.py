"""Phase and Transfer: the one list of which seconds and dollars are two readings."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

Workers = Sequence[tuple[str, int]]
"""Place and number of the workers there; each place once."""


class Transfer(Struct, frozen=True):
    """``count`` equal transfers of ``bytes`` each from ``src`` to ``dst``, side by side. ``zonal``:
    both ends are machines, which may be in different zones of a region; a store or a function
    belongs to the whole region. ``src_hosts`` and ``dst_hosts`` machines share the transfers
    evenly.
    """

    src: str
    dst: str
    bytes: float
    count: int = 1
    zonal: bool = False
    src_hosts: int = 1
    dst_hosts: int = 1


class Phase(Struct, frozen=True):
    """Transfers that run side by side; the phases of an exchange run one after the other."""

    name: str
    transfers: tuple[Transfer, ...]


def bytes_by_link(phases: tuple[Phase, ...]) -> dict[tuple[str, str], float]:
    """Sum the bytes of one exchange for each directed pair of places."""
    total: dict[tuple[str, str], float] = {}
    for phase in phases:
        for t in phase.transfers:
            total[t.src, t.dst] = total.get((t.src, t.dst), 0.0) + t.bytes * t.count
    return total
