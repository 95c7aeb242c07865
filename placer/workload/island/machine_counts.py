"""How many machines of an offer an island may have."""

from __future__ import annotations

MOST_ISLAND_MACHINES = 128
"""Machines of one island where the book names no limit; assumed."""


def powers_of_two(most: int) -> list[int]:
    """List 1, 2, 4 ... up to ``most``."""
    return [2**i for i in range(most.bit_length())]
