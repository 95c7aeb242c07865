"""Datasets: samples with a place, and how often a run reads what lies in a store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from placer.errors import PlacerError


class Dataset(Struct, frozen=True, kw_only=True):
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


def passes_of(
    passes: float, samples: int | None, data_bytes: float | None, bytes_per_sample: float
) -> float:
    """Return how often a run reads the data of a store, at least once. Samples and size say it as
    well as the user. Without either it is once, in which the store sets the pace: more passes are
    never slower. ``passes``: what the user says; 1 is the default. ``samples``: samples of the run;
    None: nobody says how many. ``data_bytes``: size of the data.

    >>> passes_of(1, 10_000, 1e6, 1000.0), passes_of(3, None, None, 1000.0)
    (10.0, 3)
    >>> passes_of(1, 10, 1e6, 1000.0), passes_of(1, None, 1e6, 1000.0)
    (1.0, 1.0)
    """
    if passes != 1:
        return max(1.0, passes)
    if samples is None or data_bytes is None:
        return 1.0
    return max(1.0, samples * bytes_per_sample / data_bytes)


def bytes_of(
    passes: float, samples: int | None, data_bytes: float | None, bytes_per_sample: float
) -> float | None:
    """Return the size of the data of a store: as the user says, else what the samples of a run
    leave for each pass; None where nobody knows.

    >>> bytes_of(10, 10_000, None, 1000.0), bytes_of(1, 10_000, None, 1000.0)
    (1000000.0, None)
    """
    if data_bytes is not None or samples is None or passes == 1:
        return data_bytes
    return samples * bytes_per_sample / max(1.0, passes)
