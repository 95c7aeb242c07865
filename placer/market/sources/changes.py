"""What a new book changes in the prices of the one before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from placer.market.sources.harvest import Row
from placer.records import Count

Key = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One machine whose price moved; USD/h."""

    place: str
    instance_type: str
    market: str
    before_usd_per_hour: float
    after_usd_per_hour: float

    @property
    def share(self) -> float:
        """Change as a share of the price before: 0.1 is 10 % dearer."""
        return self.after_usd_per_hour / self.before_usd_per_hour - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """How many prices rose, fell, stayed, came, went, or were not asked for this time, and the
    largest move.
    """

    up: Count
    down: Count
    same: Count
    new: Count
    gone: Count
    not_asked: Count
    largest: Change | None


def changes(
    before: Iterable[Mapping[str, Any]],
    after: Iterable[Row],
    regions: Collection[str],
    gpus: Collection[str],
) -> Changes:
    """Compare offers by place, machine and market.

    Parameters
    ----------
    before, after
        Rows of offers.csv.
    regions, gpus
        What was asked for: an old offer beyond it is not gone.
    """
    old = {_key(row): row for row in before}
    new = {_key(row): row for row in after}
    moves = [_change(key, old[key], new[key]) for key in sorted(old.keys() & new.keys())]
    moved = [move for move in moves if move.share]
    missing = [old[key] for key in old.keys() - new.keys()]
    beyond = sum(row["region"] not in regions or row["gpu"] not in gpus for row in missing)
    return Changes(
        up=sum(move.share > 0 for move in moved),
        down=sum(move.share < 0 for move in moved),
        same=len(moves) - len(moved),
        new=len(new.keys() - old.keys()),
        gone=len(missing) - beyond,
        not_asked=beyond,
        largest=max(moved, key=lambda move: abs(move.share), default=None),
    )


def _key(row: Mapping[str, Any]) -> Key:
    return f"{row['provider']}/{row['region']}", row["instance_type"], row["market"]


def _change(key: Key, old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    return Change(
        place=key[0],
        instance_type=key[1],
        market=key[2],
        before_usd_per_hour=float(old["usd_per_hour"]),
        after_usd_per_hour=float(new["usd_per_hour"]),
    )
