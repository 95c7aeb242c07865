"""Datasets: samples with a place, and the places that must have a worker for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placer.errors import PlacerError


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Samples that lie in one place; they stay there, or may move to where the workers are."""

    place: str
    samples: int
    may_move: bool

    def __post_init__(self) -> None:
        """Refuse empty datasets."""
        if self.samples < 1:
            raise PlacerError(
                f"dataset in {self.place} has {self.samples} samples", "give a whole number above 0"
            )


def needs_place(datasets: Sequence[Dataset]) -> tuple[str, ...]:
    """Return the places where data must stay, so that workers must be there; sorted."""
    return tuple(sorted({data.place for data in datasets if not data.may_move}))
