"""Networks between machines, and their local disks: networks.csv says once for a type what
offers.csv would say in each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from placer.market.catalog import VmOffer
from placer.market.checks.agreement import Located

COLUMNS = ("network_gbps", "fabric", "max_island_machines", "local_disk_gb")
"""Columns of offers.csv that networks.csv fills in."""
Key = tuple[Any, ...]
"""What an offer is found by; see `placer.market.books.csv_rows.KEYS`."""


class MachineNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The network and the local disks of some types of machines; provider and type may have
    wildcards.

    Notes
    -----
    What is None or empty here is unknown: ``source`` says why.
    """

    provider: str
    instance_type: str
    network_gbps: float | None
    fabric: str
    source: str
    as_of: str
    max_island_machines: int | None = None
    local_disk_gb: float | None = None

    def covers(self, provider: str, instance_type: str) -> bool:
        """Return whether this line is about a type of machine."""
        return fnmatchcase(provider, self.provider) and fnmatchcase(
            instance_type, self.instance_type
        )


def connected(
    offers: Mapping[Key, Sequence[Located]],
    networks: Sequence[MachineNetwork],
    unsaid: Mapping[Key, Sequence[str]],
) -> dict[Key, list[Located]]:
    """Give offers the network of their type where no book has a column for it.

    Parameters
    ----------
    offers
        Offers by their key, with where they stand.
    networks
        Lines of networks.csv, those of lower layers first; of the lines that cover a type the last
        one counts, so that exceptions follow the rule.
    unsaid
        Columns of each offer that no layer has: an empty cell of a book says that nothing is known,
        and stays.
    """
    lines: dict[tuple[str, str], MachineNetwork | None] = {}
    result: dict[Key, list[Located]] = {}
    for key, found in offers.items():
        columns, result[key] = unsaid.get(key, ()), list(found)
        if not columns:
            continue
        kind = found[0][1].provider, found[0][1].instance_type
        if kind not in lines:
            lines[kind] = next((line for line in reversed(networks) if line.covers(*kind)), None)
        line = lines[kind]
        if line is not None:
            result[key] = [(where, _completed(offer, line, columns)) for where, offer in found]
    return result


def _completed(offer: VmOffer, line: MachineNetwork, columns: Sequence[str]) -> VmOffer:
    missing = {
        column: getattr(line, column) for column in columns if getattr(offer, column) in (None, "")
    }
    return msgspec.structs.replace(offer, **missing)
