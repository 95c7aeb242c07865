"""Words about data and convergence: datasets with a place, residency rules, samples to target."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from placer.errors import PlacerError, unknown
from placer.market.catalog import Catalog
from placer.market.words.selection import places_of
from placer.problem.data.datasets import Dataset
from placer.problem.requirements import EXCHANGES, Kept
from placer.units import parse_count

KINDS = ("raw-data", "gradients", "checkpoints")
"""What a residency rule can be about."""


def parse_datasets(given: list[str], catalog: Catalog) -> tuple[Dataset, ...]:
    """Read ``PLACE=SAMPLES:stay`` or ``PLACE=SAMPLES:move``; several rows of one place and kind add
    up.

    Raises
    ------
    PlacerError
        If a word does not follow the grammar, or a place is unknown.
    """
    samples_of: dict[tuple[str, bool], int] = {}
    for word in given:
        match = re.fullmatch(r"(?P<place>[^=\s]+)=(?P<samples>[^:]+)(?::(?P<may>stay|move))?", word)
        if match is None:
            raise PlacerError(
                f"data '{word}' is not a dataset",
                "write PLACE=SAMPLES:stay or :move, such as aws/us-east-1=2M:stay",
            )
        if match["may"] is None:
            raise PlacerError(
                f"data '{word}' does not say whether it may leave",
                f"write {word}:stay or {word}:move",
            )
        key = (catalog.region(match["place"]).place, match["may"] == "move")
        samples_of[key] = samples_of.get(key, 0) + parse_count(match["samples"], "samples")
    return tuple(
        Dataset(place=place, samples=samples, may_move=may)
        for (place, may), samples in samples_of.items()
    )


def parse_kept(given: list[str], catalog: Catalog) -> tuple[Kept, ...]:
    """Read ``KIND=AREA``: what is of a kind (raw-data, gradients, checkpoints) and in an area does
    not leave it.

    Raises
    ------
    PlacerError
        If a kind or an area is unknown.
    """
    rules = []
    for word in given:
        kind, sign, area = word.partition("=")
        if not sign:
            raise PlacerError(
                f"keep '{word}' is not a rule",
                "write KIND=AREA, such as raw-data=europe or gradients=gcp/europe-west1",
            )
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS)
        patterns = places_of(area, catalog)
        inside = tuple(
            place for place in catalog.regions if any(fnmatchcase(place, p) for p in patterns)
        )
        rules.append(Kept(kind=kind, area=area, places=inside))
    return tuple(rules)


def parse_multipliers(given: list[str]) -> tuple[tuple[str, float], ...]:
    """Read ``STRATEGY=FACTOR``: samples to target as a multiple of synchronous training.

    Raises
    ------
    PlacerError
        If a strategy is unknown or a factor no positive number.
    """
    factors = {}
    for word in given:
        name, sign, factor = word.partition("=")
        if not sign or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,20})?", factor):
            raise PlacerError(
                f"samples to target '{word}' is not a strategy with a factor above 0",
                "write STRATEGY=FACTOR, such as local-sgd=1.2: 20 % more samples",
            )
        if name not in EXCHANGES or name == "auto":
            raise unknown("exchange", name, EXCHANGES[1:])
        if name in factors:
            raise PlacerError(
                f"samples to target of {name} are given twice", "give one factor for each strategy"
            )
        factors[name] = float(factor)
    return tuple(factors.items())
