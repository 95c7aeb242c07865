"""Places of machines of one's own among the changes of a book."""

from __future__ import annotations

from collections.abc import Sequence

PROVIDER = "onprem"  # Provider of every site of one's own
SITES = f"{PROVIDER}/"  # How the places of machines of one's own begin
PREFIX = "own="  # Before the words of own machines among the changes of a book


def own_places(changes: Sequence[str]) -> tuple[str, ...]:
    """Return the places of own machines among the changes of a book.

    >>> own_places(["own=office=2xA100-40@Berlin", "price:gcp/*:T4=x0.5"])
    ('onprem/office',)
    """
    words = (change.removeprefix(PREFIX) for change in changes if change.startswith(PREFIX))
    return tuple(f"{PROVIDER}/{word.partition('=')[0].strip()}" for word in words)


def host_assumed(changes: Sequence[str]) -> bool:
    """Tell whether nobody said the host memory of some own machines among the changes of a book.

    >>> [host_assumed([f"own=office=2xA100-40@Berlin{said}"]) for said in ("", ":ram=512GiB")]
    [True, False]
    """
    return any(change.startswith(PREFIX) and ":ram=" not in change for change in changes)
